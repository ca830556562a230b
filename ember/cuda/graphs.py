"""CUDA graphs: work of a real GPU that is written down once and launched as a whole.

Simulated GPUs have none: there the function itself gives the same numbers.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ember.core.executor import Executor, current_executor, set_executor, settle
from ember.cuda.devices import backend, current_device, is_available
from ember.errors import check

NOT_CAPTURED = (
    "{}: Ember does not capture CUDA graphs on simulated GPUs. Run the function itself: it gives "
    "the same numbers, and torch.cuda.is_current_stream_capturing() is False"
)
_capturing: list[CUDAGraph] = []


_waiting: list[Executor | None] = []  # the executor that lets work wait, during a capture


def _go_on() -> None:
    if _waiting:
        set_executor(_waiting.pop())


def _check_real(name: str) -> None:
    if not is_available() or getattr(backend(), "simulated", True):
        raise NotImplementedError(NOT_CAPTURED.format(name))


class CUDAGraph:
    """A recording of GPU work: `with torch.cuda.graph(g): ...` makes it, `g.replay()` does it
    again, on the same memory and with new random numbers.

    NotImplementedError on simulated GPUs.
    """

    def __new__(cls, keep_graph: bool = False) -> CUDAGraph:
        _check_real("CUDAGraph()")
        return super().__new__(cls)

    def __init__(self, keep_graph: bool = False):
        self._segment: Any = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Write down the GPU's work from now on instead of doing it."""
        check(
            not _capturing and self._segment is None,
            RuntimeError,
            "a CUDA graph is captured once, and one at a time: make another torch.cuda.CUDAGraph()",
        )
        before = current_executor()
        if before is not None and before.steps_aside:  # work is captured as it comes
            _waiting.append(set_executor(None))
        self._segment = backend().kernels(current_device()).sequence([])
        self._segment.begin()
        _capturing.append(self)

    def capture_end(self) -> None:
        """The end of the work. RuntimeError if something in it cannot be captured, such as a copy
        to the host."""
        check(self in _capturing, RuntimeError, "this CUDA graph is not being captured")
        _capturing.remove(self)
        self._segment.end()
        _go_on()
        check(
            self._segment.refusal is None,
            RuntimeError,
            lambda: f"the work could not be captured as a CUDA graph: {self._segment.refusal}",
        )

    def replay(self) -> None:
        """Do the work again."""
        check(
            self._segment is not None and self not in _capturing,
            RuntimeError,
            "Called CUDAGraph::replay without a preceding successful capture.",
        )
        settle()
        self._segment.launch()

    def reset(self) -> None:
        """Forget the work and give its memory back."""
        self._segment = None

    def pool(self) -> tuple[int, int]:
        """What stands for the memory of the graph: each has its own."""
        return (0, id(self))


class graph:
    """A block whose GPU work is captured, not done: `with torch.cuda.graph(cuda_graph): ...`."""

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
    ):
        _check_real("graph()")
        self.cuda_graph = cuda_graph

    def __enter__(self) -> None:
        self.cuda_graph.capture_begin()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.cuda_graph.capture_end()
        else:
            _capturing.remove(self.cuda_graph)
            self.cuda_graph._segment.end(f"{kind.__name__}: {error}")
            _go_on()
            self.cuda_graph._segment = None


def make_graphed_callables(callables: Any, sample_args: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """NotImplementedError: torch.compile makes CUDA graphs of functions and their gradients."""
    _check_real("make_graphed_callables()")
    raise NotImplementedError(
        "make_graphed_callables(): torch.compile(function) makes CUDA graphs of a whole step, "
        "gradients included; torch.cuda.graph captures by hand"
    )


def graph_pool_handle() -> tuple[int, int]:
    """What stands for a pool of memory that graphs share: each graph has its own."""
    _check_real("graph_pool_handle()")
    return (0, 0)


def is_current_stream_capturing() -> bool:
    """Whether GPU work is being captured.

    >>> import ember as torch
    >>> torch.cuda.is_current_stream_capturing()
    False
    """
    return bool(_capturing)
