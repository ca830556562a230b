"""`torch.mtia`: Meta's accelerators. Ember has no backend for them; the questions are answered, the
rest says so, as PyTorch built for the CPU does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_REFUSED = {
    "current_device": "getCurrentDevice",
    "current_stream": "getCurrentDevice",
    "default_stream": "getCurrentDevice",
    "empty_cache": "emptyCache",
    "get_device_capability": "getCurrentDevice",
    "get_rng_state": "getCurrentDevice",
    "set_device": "setCurrentDevice",
    "synchronize": "getCurrentDevice",
}
__all__ = ["device_count", "is_available", "is_initialized", "memory_allocated", *_REFUSED]


def is_available() -> bool:
    """Whether there is such an accelerator: no."""
    return False


def is_initialized() -> bool:
    """Whether the backend was used: no."""
    return False


def device_count() -> int:
    """How many such accelerators there are: 0."""
    return 0


def memory_allocated(device: Any = None) -> int:
    """Bytes held by tensors: 0."""
    return 0


def _refused(name: str, hook: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"Cannot execute {hook}() without MTIA backend: Ember has none, so "
            f"torch.mtia.{name}() has nothing to work on; ask torch.mtia.is_available() first"
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "RuntimeError: there is no such accelerator."
    return refuse


for _name, _hook in _REFUSED.items():
    globals()[_name] = _refused(_name, _hook)
