"""The names of checkpoints in parts, which Ember does not have: a state dict is one file."""

from __future__ import annotations

from ember.distributed.checkpoint import default_planner, format_utils, state_dict
from ember.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
    LoadPlanner,
    SavePlanner,
)
from ember.distributed.left_out import left_out_class, left_out_function

INSTEAD = (
    "every process has all weights, so save them on rank 0 with torch.save(model.state_dict(), "
    "path), and load them with torch.load"
)
StorageReader = left_out_class(__name__, "StorageReader", INSTEAD)
StorageWriter = left_out_class(__name__, "StorageWriter", INSTEAD)
FileSystemReader = left_out_class(__name__, "FileSystemReader", INSTEAD, StorageReader)
FileSystemWriter = left_out_class(__name__, "FileSystemWriter", INSTEAD, StorageWriter)
save = left_out_function(__name__, "save", INSTEAD)
load = left_out_function(__name__, "load", INSTEAD)
async_save = left_out_function(__name__, "async_save", INSTEAD)
save_state_dict = left_out_function(__name__, "save_state_dict", INSTEAD)
load_state_dict = left_out_function(__name__, "load_state_dict", INSTEAD)
load_sharded_optimizer_state_dict = left_out_function(
    __name__, "load_sharded_optimizer_state_dict", INSTEAD
)

__all__ = [
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "LoadPlanner",
    "SavePlanner",
    "default_planner",
    "format_utils",
    "state_dict",
]
