"""Older names of sharding functions."""

from ember.distributed._composable import fsdp

__all__ = ["fsdp"]
