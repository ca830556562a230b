"""Steps that are done again and again as one CUDA graph: one launch instead of one for each kernel.

The first run does the steps one by one, which compiles kernels and wakes libraries; the second
writes them down; later ones launch what was written. Memory that steps take while they are written
down stays the graph's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.backends.cuda.driver import Driver
from ember.backends.cuda.memory import CudaMemory


class GraphSegment:
    """A list of steps of one GPU."""

    on_device = True

    def __init__(self, driver: Driver, memory: CudaMemory, steps: list[Callable[[], Any]]):
        self.driver, self.memory, self.steps = driver, memory, steps
        self.runs = 0
        self.graph: Any = None
        self.free: dict[int, list[int]] = {}  # blocks of its own that nothing in it uses now
        self.blocks: list[int] = []  # all of its own
        self._before = False
        self.drawn: list[list[Any]] = []  # streams of random numbers, their state here, fills
        self.doubtful = False
        self.stream: int | None = None  # that it last ran in
        self.pinned: list[Any] = []  # page-locked memory that it copies
        self.refusal: str | None = None  # why the steps are not a graph

    def __call__(self) -> None:
        """Do the steps."""
        self._join()
        self.runs += 1
        self.memory.kernels.numbers.write()
        if self.runs == 2:
            self._capture()
        if self.graph is None:
            for step in self.steps:
                step()
            return
        self.launch()

    def _join(self) -> None:
        """Let the current stream wait for the last run, if that was in another."""
        driver, index = self.driver, self.memory.index
        stream = driver.current(index)
        if self.stream not in (None, stream):
            driver.follow(index, stream, driver.mark(index, timed=False, stream=self.stream))
        self.stream = stream

    def launch(self) -> None:
        """Do what was written down, with new random numbers."""
        for source, buffer, count in self.drawn:
            self.memory.kernels.put_state(buffer.address, source.initial, source.offset)
            source.graph_advance(count)
        self.driver.launch_graph(self.memory.index, self.graph)
        self.memory.doubtful = self.memory.doubtful or self.doubtful

    def draw(self, source: Any) -> tuple[int, int, int]:
        """Where a captured fill finds seed and offset of its stream, and 0 and its offset behind
        that."""
        for entry in self.drawn:
            if entry[0] is source:
                entry[2] += 1
                return entry[1].address, 0, 4 * (entry[2] - 1)
        self.memory.segment = None  # written before the graph runs: no block of the graph's
        buffer = self.memory.allocate(16)
        self.memory.segment = self
        self.drawn.append([source, buffer, 1])
        return buffer.address, 0, 0

    def begin(self) -> None:
        """Write down what follows."""
        self.driver.synchronize(self.memory.index)
        self._before, self.memory.segment, self.memory.doubtful = self.memory.doubtful, self, False
        self.driver.begin_capture(self.memory.index)

    def end(self, refusal: str | None = None) -> None:
        """What was written down becomes a graph, unless something forbids it: then `refusal` says
        what."""
        driver, memory = self.driver, self.memory
        self.refusal = refusal
        try:
            self.graph = driver.end_capture(memory.index)
        except Exception as error:
            self.refusal = self.refusal or f"{type(error).__name__}: {error}"
        memory.segment = None
        self.doubtful, memory.doubtful = memory.doubtful, self._before or memory.doubtful
        if self.refusal is not None:
            self._release()

    def _capture(self) -> None:
        self.begin()
        refusal = None
        try:
            for step in self.steps:
                step()
        except Exception as error:
            refusal = f"{type(error).__name__}: {error}"
        self.end(refusal)

    def _release(self) -> None:
        graph, self.graph = self.graph, None
        if graph is not None:
            if len(self.memory.pools) > 1:  # its memory goes to whichever stream asks next
                self.driver.finish(self.memory.index)
            self.driver.forget_graph(graph)
        self.drawn.clear()
        self.pinned.clear()
        blocks, self.blocks = self.blocks, []
        for address in blocks:
            self.memory.owned.pop(address, None)
        for size, addresses in self.free.items():
            for address in addresses:
                self.memory.put_back(address, size, self.memory.free, None)
        self.free = {}

    def __del__(self) -> None:
        self._release()
