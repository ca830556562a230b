"""Communication hooks: other ways for DistributedDataParallel to average a bucket of gradients."""

from __future__ import annotations

import enum
import importlib
from typing import Any

from ember.distributed.algorithms.ddp_comm_hooks import default_hooks
from ember.missing import missing_attribute

__all__ = ["DDPCommHookType", "default_hooks", "register_ddp_comm_hook"]


class DDPCommHookType(enum.Enum):
    """The hooks by name."""

    ALLREDUCE = "allreduce_hook"
    FP16_COMPRESS = "fp16_compress_hook"
    BF16_COMPRESS = "bf16_compress_hook"


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Give a DistributedDataParallel one of the hooks."""
    model.register_comm_hook(state, getattr(default_hooks, comm_hook_type.value))


def __getattr__(name: str) -> Any:
    if name in ("powerSGD_hook", "post_localSGD_hook", "debugging_hooks", "quantization_hooks"):
        return importlib.import_module(f"ember.distributed.algorithms.ddp_comm_hooks.{name}")
    raise missing_attribute("torch.distributed.algorithms.ddp_comm_hooks", name, lambda: __all__)
