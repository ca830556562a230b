"""Older names of what `torch.library` has."""

from ember.library import get_ctx, impl, impl_abstract

__all__ = ["get_ctx", "impl", "impl_abstract"]
