"""`torch.fft`: the functions that ops declare for it. Names only."""

from __future__ import annotations

from typing import Any

from ember.core.registry import NAMESPACES
from ember.missing import missing_attribute
from ember.ops import load_rest

load_rest()
globals().update(NAMESPACES["fft"])

__all__ = sorted(NAMESPACES["fft"])


def __getattr__(name: str) -> Any:
    raise missing_attribute("torch.fft", name, lambda: __all__)
