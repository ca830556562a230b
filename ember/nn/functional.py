"""`torch.nn.functional`: the functions that ops declare for it. Names only; see `ember/ops/`."""

from typing import Any

from ember.core.registry import NAMESPACES
from ember.ops import load_rest

load_rest()
globals().update(NAMESPACES["nn.functional"])

__all__ = sorted(name for name in NAMESPACES["nn.functional"] if not name.startswith("_"))


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module 'torch.nn.functional' has no function {name!r} here. The nearest are listed by "
        "dir(torch.nn.functional)."
    )
