"""Tools around training: data loading, checkpointing, hooks and more, each in its own module."""

from ember.utils import data

__all__ = ["data"]
