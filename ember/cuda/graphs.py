"""CUDA graphs, which Ember does not capture: the names, and errors that say so."""

from __future__ import annotations

from typing import Any, NoReturn

NOT_CAPTURED = (
    "{}: Ember does not capture CUDA graphs. Run the function itself: it gives the same numbers, "
    "and torch.cuda.is_current_stream_capturing() is False"
)


class CUDAGraph:
    """A recording of GPU work. NotImplementedError: Ember does not capture any."""

    def __new__(cls, keep_graph: bool = False) -> CUDAGraph:
        raise NotImplementedError(NOT_CAPTURED.format("CUDAGraph()"))


class graph:
    """A block whose GPU work is captured. NotImplementedError: Ember does not capture any."""

    def __init__(self, cuda_graph: Any, *args: Any, **kwargs: Any):
        raise NotImplementedError(NOT_CAPTURED.format("graph()"))


def make_graphed_callables(callables: Any, sample_args: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """NotImplementedError: functions are not captured; call them as they are."""
    raise NotImplementedError(NOT_CAPTURED.format("make_graphed_callables()"))


def graph_pool_handle() -> NoReturn:
    """NotImplementedError: without graphs there are no pools of them."""
    raise NotImplementedError(NOT_CAPTURED.format("graph_pool_handle()"))


def is_current_stream_capturing() -> bool:
    """Whether GPU work is being captured: never.

    >>> import ember as torch
    >>> torch.cuda.is_current_stream_capturing()
    False
    """
    return False
