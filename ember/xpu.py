"""`torch.xpu`: Intel's GPUs. Ember has no backend for them; the questions are answered, the rest
says so, as PyTorch built for the CPU does."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

_REFUSED = (
    "init current_device current_stream set_device set_stream synchronize get_device_properties "
    "get_device_name get_device_capability get_rng_state get_rng_state_all set_rng_state "
    "set_rng_state_all initial_seed mem_get_info Stream Event stream"
).split()
__all__ = [
    "device_count",
    "empty_cache",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    *_REFUSED,
]


def is_available() -> bool:
    """Whether there is such a GPU: no."""
    return False


def is_initialized() -> bool:
    """Whether the backend was used: no."""
    return False


def is_bf16_supported() -> bool:
    """Whether such a GPU computes in bfloat16: no."""
    return False


def device_count() -> int:
    """How many such GPUs there are: 0."""
    return 0


def empty_cache() -> None:
    """There is no memory to give back."""


def manual_seed(seed: int) -> None:
    """Seeds the generator of such a GPU, if there is one."""


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all such GPUs: none."""


def seed() -> None:
    """Seeds the generator of such a GPU by chance, if there is one."""


seed_all = seed


def memory_allocated(device: Any = None) -> int:
    """Bytes held by tensors: 0."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors held: 0."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """Bytes held for tensors: 0."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that were held for tensors: 0."""
    return 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """There are no peaks to forget."""


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """Figures of the memory: none."""
    return OrderedDict()


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(
            f"Torch not compiled with XPU enabled: torch.xpu.{name}() needs an Intel GPU, for "
            "which Ember has no backend; ask torch.xpu.is_available() first"
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "AssertionError: there is no such GPU."
    return refuse


for _name in _REFUSED:
    globals()[_name] = _refused(_name)
