"""Checkpoints in parts in the form of safetensors: only the names."""

from __future__ import annotations

from ember.distributed.checkpoint import FileSystemReader, FileSystemWriter
from ember.distributed.left_out import left_out_class

INSTEAD = "checkpoints are single files; use torch.save and torch.load, or safetensors.torch"
HuggingFaceStorageReader = left_out_class(
    __name__, "HuggingFaceStorageReader", INSTEAD, FileSystemReader
)
HuggingFaceStorageWriter = left_out_class(
    __name__, "HuggingFaceStorageWriter", INSTEAD, FileSystemWriter
)
