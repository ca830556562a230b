"""`torch._C._functorch`: what `vmap` is made of."""

from ember._functorch.vmap import (
    _add_batch_dim,
    _remove_batch_dim,
    get_unwrapped,
    is_batchedtensor,
    is_legacy_batchedtensor,
)

__all__ = [
    "_add_batch_dim",
    "_remove_batch_dim",
    "get_unwrapped",
    "is_batchedtensor",
    "is_legacy_batchedtensor",
]
