"""Tools around training: data loading, checkpointing, hooks and more, each in its own module."""

from __future__ import annotations

import importlib
from typing import Any

from ember.missing import missing_attribute
from ember.utils import data

__all__ = ["checkpoint", "data", "dlpack", "hooks", "model_zoo"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"ember.utils.{name}")
    raise missing_attribute("torch.utils", name, lambda: __all__)


def __dir__() -> list[str]:
    return __all__
