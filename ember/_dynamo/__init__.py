"""The names of `torch._dynamo` that programs use while nothing is captured."""

from __future__ import annotations

from typing import Any

from ember._dynamo import config, eval_frame, exc, utils
from ember.compiler.eager import OptimizedModule
from ember.compiler.eager import compile as _compile
from ember.compiler.marks import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    nested_compile_region,
    reset,
    set_stance,
    substitute_in_graph,
)
from ember.compiler.registered import list_backends, lookup_backend, register_backend

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "disallow_in_graph",
    "eval_frame",
    "exc",
    "explain",
    "export",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "is_dynamo_supported",
    "is_inductor_supported",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "nested_compile_region",
    "optimize",
    "register_backend",
    "reset",
    "run",
    "set_stance",
    "substitute_in_graph",
    "utils",
]


def is_dynamo_supported() -> bool:
    """Whether functions can be captured: not yet."""
    return False


def is_inductor_supported() -> bool:
    """Whether captured functions can be compiled: not yet."""
    return False


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Say that a tensor's memory stays where it is."""
    t._dynamo_static_input_type = "guarded" if guard else "unguarded"


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Say that a dim's size will change."""


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Say that a dim's size may change."""


def mark_static(t: Any, index: Any = None) -> None:
    """Say that a dim's size will not change."""


def graph_break(msg: str = "") -> None:
    """End the captured graph here: there is none in eager code."""


def disallow_in_graph(fn: Any) -> Any:
    """Mark a function that no graph is to hold: the function itself."""
    return fn


def forbid_in_graph(fn: Any) -> Any:
    """Mark a function that must not be met while capturing: the function itself."""
    fn._dynamo_forbidden = True
    return fn


def optimize(backend: Any = None, *, nopython: bool = False, **options: Any) -> Any:
    """A decorator that is `torch.compile` under its older name."""
    return lambda function: _compile(function, backend=backend, fullgraph=nopython)


def run(fn: Any = None) -> Any:
    """A function that uses what was compiled and compiles nothing more: the function itself."""
    return fn if fn is not None else lambda function: function


def _not_captured(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"torch._dynamo.{name}(): functions are not captured as graphs yet; "
        "torch.fx.symbolic_trace gives the graph of a module without data-dependent branches"
    )


def explain(f: Any, *args: Any, **kwargs: Any) -> Any:
    """NotImplementedError: there are no captured graphs to explain."""
    raise _not_captured("explain")


def export(f: Any, *args: Any, **kwargs: Any) -> Any:
    """NotImplementedError: nothing is captured."""
    raise _not_captured("export")
