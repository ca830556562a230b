"""`torch.linalg`: the functions that ops declare for it. Names only."""

from __future__ import annotations

from typing import Any

from ember.core.registry import NAMESPACES
from ember.errors import LinAlgError  # noqa: F401
from ember.missing import missing_attribute
from ember.ops import load_rest

load_rest()
globals().update(NAMESPACES["linalg"])

__all__ = sorted(["LinAlgError", *NAMESPACES["linalg"]])


def __getattr__(name: str) -> Any:
    raise missing_attribute("torch.linalg", name, lambda: __all__)
