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
        self.held: list[tuple[int, int, int]] = []
        self.doubtful = False
        self.refusal: str | None = None  # why the steps are not a graph

    def __call__(self) -> None:
        """Do the steps."""
        self.runs += 1
        if self.runs == 2:
            self._capture()
        if self.graph is None:
            for step in self.steps:
                step()
            return
        self.driver.launch_graph(self.memory.index, self.graph)
        self.memory.doubtful = self.memory.doubtful or self.doubtful

    def _capture(self) -> None:
        driver, memory = self.driver, self.memory
        driver.synchronize(memory.index)
        before, memory.held, memory.doubtful = memory.doubtful, self.held, False
        driver.begin_capture(memory.index)
        try:
            for step in self.steps:
                step()
        except Exception as error:
            self.refusal = f"{type(error).__name__}: {error}"
        try:
            self.graph = driver.end_capture(memory.index)
        except Exception as error:
            self.refusal = self.refusal or f"{type(error).__name__}: {error}"
        memory.held = None
        self.doubtful, memory.doubtful = memory.doubtful, before or memory.doubtful
        if self.refusal is not None:
            self._release()

    def _release(self) -> None:
        graph, self.graph = self.graph, None
        if graph is not None:
            self.driver.forget_graph(graph)
        held, self.held = self.held, []
        for block in held:
            self.memory.put_back(*block)

    def __del__(self) -> None:
        self._release()
