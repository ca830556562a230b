"""What sharded tensors may do with plain ones: only the names."""

from __future__ import annotations

from ember.distributed.left_out import left_out_function

INSTEAD = (
    "tensors are not sharded over processes; use DistributedDataParallel, or the collectives of "
    "torch.distributed on the parts"
)
implicit_replication = left_out_function(__name__, "implicit_replication", INSTEAD)
local_map = left_out_function(__name__, "local_map", INSTEAD)

__all__ = ["implicit_replication", "local_map"]
