"""The errors of launched processes."""

from ember.distributed.elastic.multiprocessing import errors

__all__ = ["errors"]
