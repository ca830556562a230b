"""The names of fully sharded data parallelism, which Ember does not have, and its settings."""

from __future__ import annotations

from ember.distributed.fsdp import fully_sharded_data_parallel as _names
from ember.distributed.fsdp import wrap
from ember.distributed.fsdp.api import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from ember.distributed.fsdp.fully_sharded_data_parallel import *
from ember.distributed.left_out import left_out_class, left_out_function

FSDPModule = left_out_class(__name__, "FSDPModule", _names.INSTEAD)
UnshardHandle = left_out_class(__name__, "UnshardHandle", _names.INSTEAD)
fully_shard = left_out_function(__name__, "fully_shard", _names.INSTEAD)
register_fsdp_forward_method = left_out_function(
    __name__, "register_fsdp_forward_method", _names.INSTEAD
)

__all__ = [
    *_names.__all__,
    "CPUOffloadPolicy",
    "FSDPModule",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
    "wrap",
]
