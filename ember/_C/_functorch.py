"""`torch._C._functorch`: questions about tensors inside `vmap`."""

from ember.core.lifting import is_batched as is_batchedtensor

__all__ = ["is_batchedtensor"]
