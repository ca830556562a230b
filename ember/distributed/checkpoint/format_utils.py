"""Conversions between checkpoints in parts and files: only their names."""

from __future__ import annotations

from ember.distributed.checkpoint.default_planner import INSTEAD, _EmptyStateDictLoadPlanner
from ember.distributed.left_out import left_out_function

__all__ = ["_EmptyStateDictLoadPlanner"]
dcp_to_torch_save = left_out_function(__name__, "dcp_to_torch_save", INSTEAD)
torch_save_to_dcp = left_out_function(__name__, "torch_save_to_dcp", INSTEAD)
