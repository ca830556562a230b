"""Communication hooks: other ways for DistributedDataParallel to average a bucket of gradients."""

from __future__ import annotations

import enum
from typing import Any

from ember.distributed.algorithms.ddp_comm_hooks import default_hooks

__all__ = ["DDPCommHookType", "default_hooks", "register_ddp_comm_hook"]


class DDPCommHookType(enum.Enum):
    """The hooks by name."""

    ALLREDUCE = "allreduce_hook"
    FP16_COMPRESS = "fp16_compress_hook"
    BF16_COMPRESS = "bf16_compress_hook"


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Give a DistributedDataParallel one of the hooks."""
    model.register_comm_hook(state, getattr(default_hooks, comm_hook_type.value))
