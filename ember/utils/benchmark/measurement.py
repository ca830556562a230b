"""What a timer measured: times, their spread, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ember.errors import check
from ember.settings import get_num_threads, set_num_threads

__all__ = ["Measurement", "TaskSpec", "select_unit", "set_torch_threads", "trim_sigfig"]
UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
ENGLISH = {
    "ns": "nanosecond",
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "m": "minute",
    "h": "hour",
}
UNCLEAR, VERY_UNCLEAR = 0.1, 0.25  # spreads, as parts of the median, that a report warns of


class TaskSpec(NamedTuple):
    """What was timed, and how it is called in reports."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The head of a report."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        return f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n{_indented(self.stmt)}"

    def setup_str(self) -> str:
        """The setup as a part of a report."""
        if not self.setup or self.setup == "pass":
            return ""
        return f"setup:\n{_indented(self.setup)}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup, one below the other."""
        parts = (self.title, self.description or "", self.setup_str())
        return "\n".join(part for part in parts if part)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip().splitlines())


class Measurement:
    """Times of runs of one statement. `raw_times` are seconds of `number_per_run` runs each.

    >>> from ember.utils.benchmark import Measurement, TaskSpec
    >>> found = Measurement(10, [0.1, 0.2, 0.3], TaskSpec("x", "pass"))
    >>> round(found.median, 6), round(found.mean, 6)
    (0.02, 0.02)
    """

    def __init__(
        self,
        number_per_run: int,
        raw_times: Sequence[float],
        task_spec: TaskSpec,
        metadata: dict[Any, Any] | None = None,
    ):
        self.number_per_run, self.raw_times = number_per_run, list(raw_times)
        self.task_spec, self.metadata = task_spec, metadata

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "task_spec":
            raise AttributeError(name)
        return getattr(self.task_spec, name)  # label, num_threads, ... are the task's

    @property
    def times(self) -> list[float]:
        """Seconds of a single run."""
        return [time / self.number_per_run for time in self.raw_times]

    def _quantile(self, share: float) -> float:
        check(self.raw_times, RuntimeError, "a measurement without times has no figures")
        return float(np.quantile(self.times, share))

    @property
    def median(self) -> float:
        """The time in the middle."""
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        """The mean time."""
        return sum(self.times) / len(self.times)

    @property
    def iqr(self) -> float:
        """From the first quartile to the third."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many digits the spread leaves: 1 or more."""
        count = len(self.raw_times)
        error = self.iqr / 1.349 / math.sqrt(count)  # of the median, as if times were normal
        interval = 3.92 * error / self.median if self.median else 0.0
        digits = -math.floor(math.log10(interval)) if interval > 0 else 5
        return max(1, min(digits, 5))

    @property
    def has_warnings(self) -> bool:
        """Whether the spread makes the figures unclear."""
        return bool(self._warnings())

    def meets_confidence(self, threshold: float = UNCLEAR) -> bool:
        """Whether the spread is less than a part of the median."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """What was timed."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """Where it was timed."""
        return self.task_spec.env or "Unspecified env"

    @property
    def as_row_name(self) -> str:
        """What names its row in a comparison."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def _warnings(self) -> str:
        if len(self.raw_times) < 2 or self.meets_confidence():
            return ""
        share = self.iqr / self.median
        words = (
            "This suggests significant environmental influence."
            if share > VERY_UNCLEAR
            else "This could indicate system fluctuation."
        )
        return (
            f"  WARNING: Interquartile range is {100 * share:.1f}% of the median measurement.\n"
            f"           {words}"
        )

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        count, runs = len(self.raw_times), self.number_per_run
        threads = self.task_spec.num_threads
        tail = f"{threads} thread{'s' if threads > 1 else ''}"
        lines = [object.__repr__(self), self.task_spec.summarize()]
        if count == 1:
            lines += [f"  {self.median / scale:.2f} {unit}"]
            lines += [f"  1 measurement, {runs} runs , {tail}"]
            return "\n".join(lines)
        lines += [f"  Median: {self.median / scale:.2f} {unit}"]
        if count >= 4:
            low, high = self._quantile(0.25) / scale, self._quantile(0.75) / scale
            lines += [f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})"]
        lines += [f"  {count} measurements, {runs} runs per measurement, {tail}"]
        return "\n".join([*lines, *([self._warnings()] if self.has_warnings else [])])

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """The measurements of each task as one."""
        groups: dict[TaskSpec, list[Measurement]] = {}
        for found in measurements:
            groups.setdefault(found.task_spec, []).append(found)
        return [
            group[0]
            if len(group) == 1
            else Measurement(1, [time for found in group for time in found.times], spec)
            for spec, group in groups.items()
        ]


def select_unit(t: float) -> tuple[str, float]:
    """The unit that suits seconds, and its length: 0.002 gives ("ms", 0.001).

    >>> from ember.utils.benchmark import select_unit
    >>> select_unit(0.002)
    ('ms', 0.001)
    """
    for unit, scale in UNITS:
        if t < scale * 1e3:
            return unit, scale
    return UNITS[-1]


def unit_to_english(u: str) -> str:
    """The name of a unit."""
    return ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """A number with `n` digits kept.

    >>> from ember.utils.benchmark import trim_sigfig
    >>> trim_sigfig(123.4, 2)
    120.0
    """
    check(n == int(n), AssertionError, "the number of digits is whole")
    if x == 0:
        return 0.0
    scale = 10 ** (math.floor(math.log10(abs(x))) + 1 - n)
    return float(round(x / scale) * scale)


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """`torch.set_num_threads(n)` for a block."""
    before = get_num_threads()
    set_num_threads(n)
    try:
        yield
    finally:
        set_num_threads(before)
