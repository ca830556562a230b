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

from ember.backends.precision import Precision
from ember.errors import check
from ember.kernel.array import finish_waiting

enabled = True  # use cuDNN where it is installed
benchmark = False  # time the candidates for each new convolution, and keep the fastest
benchmark_limit = 10  # how many candidates are timed; 0 for all
deterministic = False  # only algorithms that give the same bits each time
allow_tf32 = True  # float32 convolutions may round their inputs to 10 bits on tensor cores
fp32_precision = "none"  # of all that cuDNN does; `conv` and `rnn` have their own
conv, rnn = Precision("tf32"), Precision("tf32")
depthwise_kernel = "auto"  # which kernel convolutions of single channels use
SETTINGS = {"enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32"}
loaded_version: int | None = None  # set by the backend that loads the library


def version() -> int | None:
    """The version of the cuDNN library in use, such as 92700; None where there is none."""
    return loaded_version


def is_available() -> bool:
    """Whether a cuDNN library is in use: only with a real GPU."""
    return loaded_version is not None


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN would compute with a tensor: one of floats on a real GPU."""
    return bool(is_available() and enabled and tensor.is_cuda and tensor.dtype.is_floating_point)


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
    _depthwise_kernel: str | None = None,
) -> tuple[Any, ...]:
    """Change the settings that are given; what all of them were before."""
    module = sys.modules[__name__]
    wanted = {
        "enabled": _enabled,
        "benchmark": _benchmark,
        "benchmark_limit": _benchmark_limit,
        "deterministic": _deterministic,
        "allow_tf32": _allow_tf32,
        "fp32_precision": None if _fp32_precision == "none" else _fp32_precision,
        "depthwise_kernel": _depthwise_kernel,
    }
    before = tuple(getattr(module, name) for name in wanted)
    for name, value in wanted.items():
        if value is not None:
            setattr(module, name, value)
    return before


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
            finish_waiting()
            kind = type(getattr(self, name))
            check(
                type(value) is kind,
                RuntimeError,
                f"set_{name}_cudnn expects a {kind.__name__}, but got {type(value).__name__}",
            )
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _CheckedModule
