"""The names of tensor parallelism, which Ember does not have."""

from __future__ import annotations

from ember.distributed.left_out import left_out_class, left_out_function

INSTEAD = "modules are not sharded over processes; use DistributedDataParallel"
ParallelStyle = left_out_class(__name__, "ParallelStyle", INSTEAD)
ColwiseParallel = left_out_class(__name__, "ColwiseParallel", INSTEAD, ParallelStyle)
RowwiseParallel = left_out_class(__name__, "RowwiseParallel", INSTEAD, ParallelStyle)
SequenceParallel = left_out_class(__name__, "SequenceParallel", INSTEAD, ParallelStyle)
PrepareModuleInput = left_out_class(__name__, "PrepareModuleInput", INSTEAD, ParallelStyle)
PrepareModuleOutput = left_out_class(__name__, "PrepareModuleOutput", INSTEAD, ParallelStyle)
parallelize_module = left_out_function(__name__, "parallelize_module", INSTEAD)
loss_parallel = left_out_function(__name__, "loss_parallel", INSTEAD)
