"""Where the CPU's library kernels are: name → module and function, loaded at first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

MODULES = (
    "arrays",
    "matmul",
    "indexing",
    "scattering",
    "sorting",
    "scanning",
    "uniqueness",
    "binning",
    "convolution",
    "pooling",
    "adaptive_pooling",
    "interpolation",
    "linear_algebra",
    "triangular",
    "indefinite",
    "fourier",
    "random_gradients",
    "segments",
    "ctc",
    "recurrent",
    "class_losses",
    "attention",
    "batch_norm",
)
_found: dict[str, Callable[..., Any]] = {}


def library_function(name: str) -> Callable[..., Any]:
    """The function of a library kernel; NotImplementedError that names it if there is none."""
    found = _found.get(name)
    if found is None:
        for module_name in MODULES:
            module = importlib.import_module(f"ember.backends.cpu.{module_name}")
            if name in vars(module):
                found = _found[name] = vars(module)[name]
                return found
        raise NotImplementedError(f"the CPU backend has no kernel named {name!r}")
    return found
