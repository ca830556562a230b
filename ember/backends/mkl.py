"""`torch.backends.mkl`: Intel's MKL, which Ember does not call; NumPy's own library multiplies."""

from __future__ import annotations


def is_available() -> bool:
    """Whether Ember calls MKL: no.

    >>> import ember as torch
    >>> torch.backends.mkl.is_available()
    False
    """
    return False
