"""One folder a backend; `base` holds the three classes that a new one fills in, and the registry.

Beside them stand the settings that programs reach as `torch.backends.cudnn` and its like.
"""

from __future__ import annotations

import importlib
from typing import Any

SETTINGS = ("cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum")


def __getattr__(name: str) -> Any:
    if name in SETTINGS:
        try:
            return importlib.import_module(f"ember.backends.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"ember.backends.{name}":
                raise
    raise AttributeError(f"module 'torch.backends' has no attribute {name!r}")
