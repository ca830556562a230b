"""A whole run as one page: memory over time, copies, kernels and fusions, and what is where."""

from __future__ import annotations

import importlib
import sys
import time
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

from ember.capture.fusion import Fusion
from ember.capture.passes import without_the_unread
from ember.capture.recorder import Instruction, Recorder
from ember.core.executor import Executor, set_executor
from ember.core.tensor import Tensor
from ember.devices.ledger import Ledger
from ember.devices.out_of_memory import WatchedMemory, is_inner_call
from ember.kernel.call import MapCall
from ember.nn.places import running_modules, written

_MOST_BOXES = 48  # parts of a model in the drawing
_MOST_EVENTS = 2_000_000  # allocations and frees, beyond which no more are noted
_RECORDED_STEP = 1  # the second: in the first, memory of optimizers is made


class Part(NamedTuple):
    """A part of a model: its path, its class, and the bytes that it has on each device."""

    path: str
    kind: str
    bytes: dict[str, int]


class Kernel(NamedTuple):
    """All launches of one kernel on one device."""

    name: str
    device: str
    count: int
    seconds: float  # of the host: a real GPU computes on while the program goes on
    bytes: int  # written


class Fused(NamedTuple):
    """What joining the formulas of a step makes of its kernels."""

    before: int
    after: int
    joined: list[tuple[str, int]]  # (names of the joined ops, how often), the longest first
    stopped: str | None  # why only the beginning of the step is known


class _Counter(Executor):
    """Counts and times the kernels below a report."""

    def __init__(self, inner: Executor | None):
        self.inner = inner
        self.sums: dict[tuple[str, str], list[float]] = {}

    def run(self, call: Any, runner: Any, operands: tuple[Any, ...]) -> Any:
        """Run a call, and count it."""
        start = time.perf_counter()
        made = super().run(call, runner, operands)
        elapsed = time.perf_counter() - start
        specs = call.out_specs
        place = str(specs[0].device) if specs else "?"
        sums = self.sums.setdefault((call.name, place), [0, 0.0, 0])
        sums[0] += 1
        sums[1] += elapsed
        sums[2] += sum(spec.nbytes for spec in specs)
        return made


class Report(WatchedMemory):
    """A run that is watched while its `with` block runs: `save(path)` writes the page.

    Memory of GPUs by kind and module, copies, kernels, the fusions that `torch.compile` would
    make of the second step, and where the parts of each model are. Watching takes some
    microseconds for each call.
    """

    def __init__(self, title: str = "") -> None:
        super().__init__()
        self.title = title
        self.ledger = Ledger()
        self.models: dict[str, list[Part]] = {}
        self.fused: Fused | None = None
        self.error = ""
        self.started = self.ended = time.perf_counter()
        self._counter = _Counter(None)
        self._recorder: Recorder | None = None
        self._seen: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def __enter__(self) -> Report:
        self.ledger.__enter__()
        super().__enter__()
        self._counter.inner, self.inner = self.inner, self._counter
        self.started = time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        self.ended = time.perf_counter()
        if exception and isinstance(exception[1], Exception):
            self.error = f"{type(exception[1]).__name__}: {exception[1]}"
        self._stop_recording()
        self.inner = self._counter.inner
        super().__exit__(*exception)
        self.ledger.__exit__(*exception)

    # while it runs

    def _add(self, storage: Any, kind: str, made_by: str, place: Any) -> None:
        if len(self.events) < _MOST_EVENTS:
            super()._add(storage, kind, made_by, place)

    def _called(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        super()._called(module, args, kwargs, output)
        count = self._seen.get(module, 0)
        if count > 1 or is_inner_call(sys._getframe(1)):
            return
        self._seen[module] = count + 1
        if next(module.parameters(), None) is not None:
            running = running_modules(sys._getframe(1))
            name = running[-1][1] if running else type(module).__name__
            self.models[name] = list(parts_of(module, name))

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._stop_recording()
        super()._before_step(optimizer, args, kwargs)

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        super()._after_step(optimizer, args, kwargs)
        if self.steps == _RECORDED_STEP and self._counter.inner is None:
            self._recorder = self._counter.inner = Recorder()

    def _stop_recording(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        self._counter.inner = None
        slot = set_executor(None)
        try:
            self.fused = fusions(recorder)
        except Exception as error:  # the program goes on, whatever a recording does not know of
            self.fused = Fused(len(recorder.instructions), 0, [], f"{type(error).__name__}")
        finally:
            set_executor(slot)

    # reading

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels that ran, the most time first."""
        found = [
            Kernel(name, device, int(count), seconds, int(nbytes))
            for (name, device), (count, seconds, nbytes) in self._counter.sums.items()
        ]
        return sorted(found, key=lambda kernel: (-kernel.seconds, kernel.name))

    def to_html(self) -> str:
        """The page: one text that needs nothing else."""
        page = importlib.import_module("ember.devices.report_page")  # few programs need it
        return str(page.page(self))

    def save(self, path: str) -> None:
        """Write the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_html())


def parts_of(model: Any, name: str) -> Iterator[Part]:
    """The parts of a model that are drawn: its children, and theirs where these are lists of layers
    or lie on several devices."""
    waiting = [("", model)]
    found: list[tuple[str, Any]] = []
    while waiting:
        path, module = waiting.pop(0)
        children = [(f"{path}.{n}" if path else n, m) for n, m in module.named_children()]
        splits = module is model or (not module._parameters and _is_list(module))
        room = len(found) + len(waiting) + len(children) <= _MOST_BOXES
        if children and room and (splits or len(_bytes_on(module)) > 1):
            if module._parameters:
                found.append((path, module._parameters))
            waiting = children + waiting
        else:
            found.append((path, module))
    for path, part in found:
        kind = "parameters" if isinstance(part, dict) else type(part).__name__
        nbytes = _bytes_on(part)
        if nbytes:
            yield Part(f"{name}{written(path)}", kind, nbytes)


def _is_list(module: Any) -> bool:
    return type(module).__name__ in ("Sequential", "ModuleList", "ModuleDict")


def _bytes_on(part: Any) -> dict[str, int]:
    if isinstance(part, dict):
        tensors = [t for t in part.values() if isinstance(t, Tensor)]
    else:
        tensors = [*part.parameters(), *part.buffers()]
    sums: dict[str, int] = {}
    for tensor in tensors:
        place = str(tensor.device)
        sums[place] = sums.get(place, 0) + tensor._array.spec.nbytes
    return sums


def fusions(recorder: Recorder) -> Fused:
    """What joining makes of a recorded step, without running it."""
    given = [i for i in recorder.instructions if i.kind in ("call", "copy", "fill")]
    alive = {n for n, reference in enumerate(recorder.storages) if reference() is not None}
    fixed = alive | set(recorder.outside)
    made = Fusion(without_the_unread(given, fixed), fixed).run()
    kept = [i for i in made if i.kind != "unused"]
    counts: dict[str, int] = {}
    for instruction in kept:
        if _is_joined(instruction):
            name = " + ".join(instruction.call.name.split("+"))
            counts[name] = counts.get(name, 0) + 1
    joined = sorted(counts.items(), key=lambda item: (-item[0].count("+"), item[0]))
    return Fused(len(given), len(kept), joined, recorder.broken)


def _is_joined(instruction: Instruction) -> bool:
    return (
        instruction.kind == "call"
        and isinstance(instruction.call, MapCall)
        and ("+" in instruction.call.name)
    )


def report(title: str = "") -> Report:
    """Watch a `with` block and write what happened as one page, without network and scripts.

    >>> import ember as torch
    >>> with torch.devices.report("two sums") as run:
    ...     x = torch.ones(1024, device="meta") + 1 + 1
    >>> "two sums" in run.to_html()
    True
    """
    return Report(title)
