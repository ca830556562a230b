"""Planners of checkpoints in parts: only their names."""

from __future__ import annotations

from ember.distributed.left_out import left_out_class

INSTEAD = "checkpoints are single files; use torch.save and torch.load"
SavePlanner = left_out_class(__name__, "SavePlanner", INSTEAD)
LoadPlanner = left_out_class(__name__, "LoadPlanner", INSTEAD)
DefaultSavePlanner = left_out_class(__name__, "DefaultSavePlanner", INSTEAD, SavePlanner)
DefaultLoadPlanner = left_out_class(__name__, "DefaultLoadPlanner", INSTEAD, LoadPlanner)
_EmptyStateDictLoadPlanner = left_out_class(
    __name__, "_EmptyStateDictLoadPlanner", INSTEAD, DefaultLoadPlanner
)
