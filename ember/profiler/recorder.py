"""What a profile records: one entry for every call that passes the executor's slot, and for every
block that `record_function` names."""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from time import perf_counter_ns
from typing import Any

from ember.backends.base import backend_of
from ember.core.executor import Executor, current_executor, set_executor
from ember.device import device as Device
from ember.errors import check
from ember.kernel.array import Spec
from ember.kernel.call import Call
from ember.source_lines import user_line


class Entry:
    """One call or one named block: when it ran, where, on what."""

    __slots__ = (
        "device",
        "device_ns",
        "end",
        "is_block",
        "line",
        "name",
        "nbytes",
        "specs",
        "start",
        "thread",
    )

    def __init__(self, name: str, start: int, is_block: bool = False):
        self.name, self.start, self.end, self.is_block = name, start, start, is_block
        self.thread = threading.get_ident()
        self.specs: tuple[Any, ...] = ()
        self.line: tuple[str, int] | None = None
        self.nbytes, self.device_ns = 0, 0.0
        self.device: Device | None = None


class Recorder(Executor):
    """The executor of a profile: it times each call and hands it on."""

    def __init__(self, *, shapes: bool = False, memory: bool = False, lines: bool = False):
        self.shapes, self.memory, self.lines = shapes, memory, lines
        self.entries: list[Entry] = []

    def run(self, call: Call, runner: Any, operands: tuple[Any, ...]) -> Any:
        """Run the call, and note how long it took."""
        device = call.out_specs[0].device if call.out_specs else None
        queue: Any = None
        if device is not None and device.type == "cuda":
            queue = backend_of("cuda").queue(device.index or 0)
        before = queue.record() if queue is not None else 0.0
        entry = Entry(f"aten::{call.name}", perf_counter_ns())
        made = super().run(call, runner, operands)
        entry.end, entry.device = perf_counter_ns(), device
        if queue is not None:
            entry.device_ns = (queue.record() - before) * 1e9
        if self.shapes:
            entry.specs = call.in_specs
        if self.memory and not call.writes:
            entry.nbytes = sum(array.spec.nbytes for array in _arrays(made))
        if self.lines:
            entry.line = user_line()
        self.entries.append(entry)
        return made

    def begin(self) -> None:
        """Step into the executor's slot. RuntimeError if another profile is there."""
        check(
            active[0] is None,
            RuntimeError,
            "Profiler is already enabled on this thread: end the other profile first",
        )
        self.inner = current_executor()
        set_executor(self)
        active[0] = self

    def finish(self) -> None:
        """Step out of the slot."""
        if active[0] is self:
            active[0] = None
            if current_executor() is self:
                set_executor(self.inner)


active: list[Recorder | None] = [None]


def _arrays(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


def shapes_of(specs: tuple[Any, ...]) -> list[list[int]]:
    """The shapes of a call's operands; [] for numbers."""
    found = []
    for spec in specs:
        inner = spec if isinstance(spec, tuple) else (spec,)
        found += [list(s.shape) if isinstance(s, Spec) else [] for s in inner]
    return found


class record_function(ContextDecorator):
    """Names the block (or the function that it decorates) in profiles; costs next to nothing when
    none is taken.

    >>> import ember as torch
    >>> with torch.profiler.record_function("sum"):
    ...     torch.ones(3).sum()
    tensor(3.)
    """

    def __init__(self, name: str, args: str | None = None):
        self.name, self.args = name, args
        self._entries: list[Entry] = []

    def __enter__(self) -> record_function:
        if active[0] is not None:
            self._entries.append(Entry(self.name, perf_counter_ns(), is_block=True))
        return self

    def __exit__(self, *error: object) -> None:
        recorder = active[0]
        if self._entries:
            entry = self._entries.pop()
            entry.end = perf_counter_ns()
            if recorder is not None:
                entry.line = user_line() if recorder.lines else None
                recorder.entries.append(entry)
