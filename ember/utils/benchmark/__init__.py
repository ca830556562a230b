"""How long statements take: timers that warm up and repeat, and tables of what they measured."""

from __future__ import annotations

from typing import Any

from ember.missing import missing_attribute
from ember.utils.benchmark.compare import Colorize, Compare
from ember.utils.benchmark.measurement import (
    Measurement,
    TaskSpec,
    select_unit,
    set_torch_threads,
    trim_sigfig,
    unit_to_english,
)
from ember.utils.benchmark.timer import Language, Timer, timer

__all__ = [
    "Colorize",
    "Compare",
    "Language",
    "Measurement",
    "TaskSpec",
    "Timer",
    "select_unit",
    "set_torch_threads",
    "timer",
    "trim_sigfig",
    "unit_to_english",
]
_LEFT_OUT = dict.fromkeys(
    ("CallgrindStats", "CopyIfCallgrind", "FunctionCount", "FunctionCounts"),
    "instructions are not counted; Timer measures time",
) | dict.fromkeys(
    ("FuzzedParameter", "FuzzedSparseTensor", "FuzzedTensor", "Fuzzer", "ParameterAlias"),
    "make the tensors to be timed with torch.randn",
)


def __getattr__(name: str) -> Any:
    if name in _LEFT_OUT:
        message = f"torch.utils.benchmark has no {name} in Ember: {_LEFT_OUT[name]}"
        raise AttributeError(message, name=name)
    raise missing_attribute("torch.utils.benchmark", name, lambda: __all__)
