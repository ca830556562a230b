"""`torch.backends.openmp`: OpenMP, which Ember does not use."""

from __future__ import annotations


def is_available() -> bool:
    """Whether Ember is built with OpenMP: no.

    >>> import ember as torch
    >>> torch.backends.openmp.is_available()
    False
    """
    return False
