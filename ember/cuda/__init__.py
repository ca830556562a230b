"""GPUs, real or simulated: which there are, which is current, what their memories hold."""

from __future__ import annotations

from typing import Any

from ember.backends import sim  # noqa: F401  provides simulated GPUs where the environment asks for them
from ember.backends.base import backend_of, has_backend
from ember.errors import OutOfMemoryError
from ember.missing import missing_attribute
from ember.ops.legacy import CUDA_TYPES


def _backend() -> Any:
    return backend_of("cuda")


def device_count() -> int:
    """How many GPUs the program sees."""
    return _backend().device_count() if has_backend("cuda") else 0


def is_available() -> bool:
    """Whether there is a GPU, real or simulated."""
    return device_count() > 0


def current_device() -> int:
    """The index that `cuda` without one means."""
    return int(_backend().current())


def __getattr__(name: str) -> Any:
    if name in CUDA_TYPES:
        return CUDA_TYPES[name]
    raise missing_attribute("torch.cuda", name, lambda: [*globals(), *CUDA_TYPES])


__all__ = ["OutOfMemoryError", "current_device", "device_count", "is_available"]
