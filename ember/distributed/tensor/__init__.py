"""The names of sharded tensors (DTensor), which Ember does not have."""

from __future__ import annotations

from ember.core.tensor import Tensor
from ember.distributed.device_mesh import DeviceMesh, init_device_mesh
from ember.distributed.left_out import left_out_class, left_out_function
from ember.distributed.tensor import placement_types
from ember.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

INSTEAD = (
    "tensors are not sharded over processes; use DistributedDataParallel, or the collectives of "
    "torch.distributed on the parts"
)
DTensor = left_out_class(
    __name__, "DTensor", INSTEAD, Tensor, "from_local to_local full_tensor redistribute"
)
distribute_tensor = left_out_function(__name__, "distribute_tensor", INSTEAD)
distribute_module = left_out_function(__name__, "distribute_module", INSTEAD)
empty = left_out_function(__name__, "empty", INSTEAD)
full = left_out_function(__name__, "full", INSTEAD)
ones = left_out_function(__name__, "ones", INSTEAD)
rand = left_out_function(__name__, "rand", INSTEAD)
randn = left_out_function(__name__, "randn", INSTEAD)
zeros = left_out_function(__name__, "zeros", INSTEAD)

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "init_device_mesh",
    "placement_types",
]
