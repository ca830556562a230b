"""`torch.backends.cudnn`: whether and how convolutions on a real GPU use cuDNN.

The settings are plain attributes; on the CPU and on simulated GPUs they change nothing.

>>> import ember as torch
>>> torch.backends.cudnn.benchmark = True
>>> torch.backends.cudnn.benchmark
True
>>> torch.backends.cudnn.benchmark = False
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ember.errors import check

enabled = True  # use cuDNN where it is installed
benchmark = False  # time the candidates for each new convolution, and keep the fastest
benchmark_limit = 10  # how many candidates are timed; 0 for all
deterministic = False  # only algorithms that give the same bits each time
allow_tf32 = True  # float32 convolutions may round their inputs to 10 bits on tensor cores
SETTINGS = {"enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32"}
loaded_version: int | None = None  # set by the backend that loads the library


def version() -> int | None:
    """The version of the cuDNN library in use, such as 92700; None where there is none."""
    return loaded_version


def is_available() -> bool:
    """Whether a cuDNN library is in use: only with a real GPU."""
    return loaded_version is not None


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """All settings for the length of a block; afterwards they are as they were."""
    module = sys.modules[__name__]
    wanted = {
        "enabled": enabled,
        "benchmark": benchmark,
        "benchmark_limit": benchmark_limit,
        "deterministic": deterministic,
        "allow_tf32": allow_tf32,
    }
    before = {name: getattr(module, name) for name in wanted}
    try:
        for name, value in wanted.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


class _CheckedModule(ModuleType):
    """A module whose settings keep their types: a string is no switch."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in SETTINGS:
            kind = type(getattr(self, name))
            check(
                type(value) is kind,
                RuntimeError,
                f"set_{name}_cudnn expects a {kind.__name__}, but got {type(value).__name__}",
            )
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _CheckedModule
