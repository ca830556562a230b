"""`torch.backends.mps`: Ember has no backend for Apple's GPUs, and says so."""

from __future__ import annotations

NO_MPS = "Ember has no backend for the GPUs of Macs; torch.backends.mps.is_available() is False"


def is_available() -> bool:
    """Whether tensors can live on the GPU of a Mac: no.

    >>> import ember as torch
    >>> torch.backends.mps.is_available()
    False
    """
    return False


def is_built() -> bool:
    """Whether this Ember could use the GPU of a Mac: no."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether this is a Mac with at least that macOS, as far as MPS is concerned: no."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Whether this is a Mac with at least macOS 13, as far as MPS is concerned: no."""
    return False


def get_name() -> str:
    """The name of the GPU of a Mac. RuntimeError: there is none."""
    raise RuntimeError(f"torch.backends.mps.get_name: {NO_MPS}")


def get_core_count() -> int:
    """How many cores the GPU of a Mac has. RuntimeError: there is none."""
    raise RuntimeError(f"torch.backends.mps.get_core_count: {NO_MPS}")
