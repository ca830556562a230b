"""Tools around training: data loading, checkpointing, hooks and more, each in its own module."""

from __future__ import annotations

import importlib
from typing import Any

from ember.missing import missing_attribute
from ember.utils import data

__all__ = [
    "benchmark",
    "checkpoint",
    "collect_env",
    "data",
    "deterministic",
    "dlpack",
    "flop_counter",
    "hooks",
    "model_zoo",
    "module_tracker",
    "tensorboard",
    "weak",
]
_PRIVATE = (
    "_contextlib",
    "_device",
    "_foreach_utils",
    "_python_dispatch",
    "_pytree",
)  # as libraries import them
_LEFT_OUT = {
    "bottleneck": "run the program under torch.profiler.profile, or python -m cProfile",
    "cpp_extension": "nothing is compiled from C++",
    "mobile_optimizer": "there is no TorchScript for phones",
    "mkldnn": "there are no MKL-DNN tensors",
}


def __getattr__(name: str) -> Any:
    if name == "swap_tensors":
        return importlib.import_module("ember.utils.exchanged").swap_tensors
    if name in __all__ or name in _PRIVATE:
        return importlib.import_module(f"ember.utils.{name}")
    if name in _LEFT_OUT:
        message = f"torch.utils has no {name} in Ember: {_LEFT_OUT[name]}"
        raise AttributeError(message, name=name)
    raise missing_attribute("torch.utils", name, lambda: __all__)


def __dir__() -> list[str]:
    return __all__
