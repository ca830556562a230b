"""The CPU backend: NumPy for small and single operations, library kernels written over it."""

import importlib
from typing import Any

allow_winograd = True  # whether float32 3x3 convolutions may take 36 products instead of 144
allow_split_products = True  # whether float32 products may be sums of exact bfloat16 products


def get_cpu_capability() -> str:
    """Which vector instructions kernels were chosen for: "DEFAULT", since none are."""
    return "DEFAULT"


def __getattr__(name: str) -> Any:
    if name in ("empty_cache", "memory_stats"):
        return getattr(importlib.import_module("ember.backends.cpu.allocator"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
