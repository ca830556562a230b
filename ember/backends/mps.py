"""`torch.backends.mps`: Ember has no backend for Apple's GPUs, and says so."""

from __future__ import annotations


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
