"""`torch.mps`: the GPUs of Macs. Ember has no backend for them; the questions are answered, the
rest says so, as PyTorch built for the CPU does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_REFUSED = {
    "empty_cache": "emptyCache",
    "current_allocated_memory": "getCurrentAllocatedMemory",
    "driver_allocated_memory": "getDriverAllocatedMemory",
    "recommended_max_memory": "getRecommendedMaxMemory",
    "set_per_process_memory_fraction": "setMemoryFraction",
    "synchronize": "deviceSynchronize",
    "seed": "getDefaultGenerator",
    "get_rng_state": "getDefaultGenerator",
    "set_rng_state": "getDefaultGenerator",
}
__all__ = ["device_count", "is_available", "manual_seed", *_REFUSED]


def is_available() -> bool:
    """Whether there is such a GPU: no."""
    return False


def device_count() -> int:
    """How many such GPUs there are: 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Seeds the generator of such a GPU, if there is one."""


def _refused(name: str, hook: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"Cannot execute {hook}() without MPS backend: Ember has none, so torch.mps.{name}() "
            "has nothing to work on; ask torch.mps.is_available() first"
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "RuntimeError: there is no such GPU."
    return refuse


for _name, _hook in _REFUSED.items():
    globals()[_name] = _refused(_name, _hook)
