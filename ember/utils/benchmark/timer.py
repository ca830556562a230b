"""`Timer`: how long a statement takes, run again and again."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable
from time import perf_counter
from timeit import Timer as Loop
from typing import Any

from ember.backends.base import backend_of, has_backend
from ember.errors import check
from ember.utils.benchmark.measurement import Measurement, TaskSpec, set_torch_threads

__all__ = ["Language", "Timer", "timer"]
NO_CALLGRIND = "collect_callgrind: instructions are not counted; blocked_autorange() measures time"


class Language(enum.Enum):
    """What a statement is written in."""

    PYTHON = 0
    CPP = 1


def timer() -> float:
    """The time in seconds, once every GPU has done its work."""
    if has_backend("cuda"):
        backend = backend_of("cuda")
        for index in range(backend.device_count()):
            backend.queue(index).synchronize()
    return perf_counter()


class Timer:
    """Times the statement `stmt`, with `globals`, after `setup`; NotImplementedError for C++.

    >>> import ember as torch
    >>> from ember.utils.benchmark import Timer
    >>> found = Timer("x + 1", globals={"x": torch.ones(4)}).timeit(10)
    >>> found.number_per_run, found.median > 0
    (10, True)
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = Language.PYTHON,
    ):
        check(isinstance(stmt, str), ValueError, "Currently only a `str` stmt is supported.")
        check(
            language in (Language.PYTHON, "py", "python") and not global_setup,
            NotImplementedError,
            "Timer: statements are Python; nothing is compiled from C++",
        )
        names = dict(globals or {})
        names.setdefault("torch", sys.modules["ember"])
        stmt, setup = _unindented(stmt), _unindented(setup)
        self._loop = Loop(stmt=stmt, setup=setup, timer=timer, globals=names)
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        return max(self._loop.timeit(number), 1e-9)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One measurement of `number` runs, after a few to warm up."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return Measurement(number, [self._timeit(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """NotImplementedError: see `Timer.blocked_autorange`."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[..., Any] | None = None) -> None:
        """NotImplementedError: see `Timer.blocked_autorange`."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time: float) -> int:
        """How many runs make the clock's own time small beside theirs."""
        overhead = sorted(Loop("pass", timer=self._loop.timer).timeit(0) for _ in range(5))[2]
        number = 1
        while True:
            taken = self._timeit(number)
            enough = overhead / taken <= 1e-4 and taken >= min_run_time / 1000
            if enough or taken > min_run_time:
                return number
            number *= 10

    def blocked_autorange(
        self, callback: Callable[..., Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Blocks of runs until they have taken `min_run_time` seconds."""
        with set_torch_threads(self._task_spec.num_threads):
            number, times = self._block_size(min_run_time), list[float]()
            while sum(times) < min_run_time or not times:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
            return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[..., Any] | None = None,
    ) -> Measurement:
        """Blocks of runs until their spread is below `threshold` of the median, or the time is
        up."""
        with set_torch_threads(self._task_spec.num_threads):
            number, times = self._block_size(0.05), list[float]()
            while True:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
                found = Measurement(number, times, self._task_spec)
                settled = len(times) >= 3 and found.meets_confidence(threshold)
                if sum(times) >= max_run_time or (settled and sum(times) >= min_run_time):
                    return found

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> None:
        """NotImplementedError: instructions are not counted."""
        raise NotImplementedError(NO_CALLGRIND)


def _unindented(text: str) -> str:
    lines = text.split("\n")
    if lines and not lines[0].strip():
        lines = lines[1:]
    margins = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    return "\n".join(line[min(margins, default=0) :] for line in lines).strip()
