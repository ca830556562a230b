"""The older name of `torch.distributed.tensor.experimental`."""

from ember.distributed.tensor.experimental import implicit_replication, local_map

__all__ = ["implicit_replication", "local_map"]
