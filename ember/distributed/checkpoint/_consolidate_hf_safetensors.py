"""Joining checkpoints in parts: only the name."""

from __future__ import annotations

from ember.distributed.left_out import left_out_function

INSTEAD = "checkpoints are single files; use safetensors.torch"
consolidate_safetensors_files = left_out_function(
    __name__, "consolidate_safetensors_files", INSTEAD
)
