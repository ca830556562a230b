"""`DistributedDataParallel` in the module that PyTorch defines it in; it stands on process groups,
which load at its first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ember.missing import missing_attribute


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        return getattr(import_module("ember.distributed.data_parallel"), name)
    raise missing_attribute("torch.nn.parallel.distributed", name, lambda: __dir__())


def __dir__() -> list[str]:
    return ["DistributedDataParallel"]
