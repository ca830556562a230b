"""`torch.backends.mkldnn`: oneDNN, which Ember does not use; its CPU kernels are its own."""

from __future__ import annotations

enabled = False


def is_available() -> bool:
    """Whether oneDNN is in use: no.

    >>> import ember as torch
    >>> torch.backends.mkldnn.is_available()
    False
    """
    return False
