"""`vmap` under a private name."""

from typing import Any

from ember.core.lifting import is_batched
from ember.func.mapping import vmap


def is_batchedtensor(tensor: Any) -> bool:
    """Whether a tensor is one element of a batch, inside vmap."""
    return is_batched(tensor)


__all__ = ["is_batchedtensor", "vmap"]
