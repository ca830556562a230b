"""What goes wrong between processes: the exceptions of `torch.distributed`."""

from __future__ import annotations


class DistError(RuntimeError):
    """Any error of the distributed package."""


class DistBackendError(DistError):
    """A collective failed: a process died, was late, or called another collective."""


class DistNetworkError(DistError):
    """A connection could not be made, or was lost."""


class DistStoreError(DistError):
    """A store did not answer in time."""


class QueueEmptyError(DistStoreError):
    """A queue of a store has nothing in it."""


for _error in (DistError, DistBackendError, DistNetworkError, DistStoreError, QueueEmptyError):
    _error.__module__ = "torch.distributed"
