"""Modules that compute their activations again in backward."""

from ember.distributed.algorithms._checkpoint import checkpoint_wrapper

__all__ = ["checkpoint_wrapper"]
