"""What programs tell a compiler about their functions, and ask of it: as when none is running."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ember import ops
from ember.capture.compiled import STANCE
from ember.capture.recorder import Recorder
from ember.core.executor import current_executor
from ember.core.tensor import Tensor
from ember.errors import check

STANCES = (
    "default",
    "eager_then_compile",
    "aot_eager_then_compile",
    "force_eager",
    "eager_on_recompile",
    "fail_on_recompile",
)


def is_compiling() -> bool:
    """Whether this code is being compiled or exported: never in eager code.

    >>> import ember as torch
    >>> torch.compiler.is_compiling()
    False
    """
    return False


def is_dynamo_compiling() -> bool:
    """Whether this code is being captured by `torch.compile`: never in eager code."""
    return False


def is_exporting() -> bool:
    """Whether this code is being exported: never in eager code."""
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A function that is not compiled, with all that it calls; used with and without parentheses.

    A class has its methods left alone and comes back itself; a module comes back with its
    `forward` so marked.
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    if isinstance(fn, type):
        return fn
    check(
        callable(fn),
        AssertionError,
        f"A callable function is expected, but {type(fn)} is provided.",
    )
    if not hasattr(fn, "__code__"):  # a module or another object that is called
        return fn
    if not recursive:
        fn._torchdynamo_disable = True
        return fn

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        recording = current_executor()
        if isinstance(recording, Recorder):
            recording.give_up(f"{fn.__qualname__} is marked with torch.compiler.disable")
        return fn(*args, **kwargs)

    wrapped._torchdynamo_disable = True  # type: ignore[attr-defined]
    wrapped._torchdynamo_disable_msg = reason  # type: ignore[attr-defined]
    wrapped._torchdynamo_orig_callable = fn  # type: ignore[attr-defined]
    return wrapped


def allow_in_graph(fn: Any) -> Any:
    """Mark a function (or each of a list) as one op of a captured graph: the function itself."""
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(one) for one in fn]
    check(callable(fn), AssertionError, "allow_in_graph expects a callable")
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Mark a function whose result a captured graph may keep: the function itself."""
    fn._dynamo_marked_constant = True
    return fn


def substitute_in_graph(
    original_fn: Callable[..., Any],
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
) -> Any:
    """Name a Python function to be captured in place of `original_fn`; eager code runs either."""
    return lambda function: function


def nested_compile_region(fn: Any = None, **options: Any) -> Any:
    """Mark a function to be compiled once and reused: the function itself."""
    return fn if fn is not None else lambda function: function


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function over NumPy arrays as one over tensors."""

    @functools.wraps(fn)
    def wrap(*args: Any, **kwargs: Any) -> Any:
        arrays = [a.numpy() if isinstance(a, Tensor) else a for a in args]
        named = {k: a.numpy() if isinstance(a, Tensor) else a for k, a in kwargs.items()}
        return ops.as_tensor(fn(*arrays, **named))

    return wrap


def reset() -> None:
    """Forget what was compiled: nothing was."""


def cudagraph_mark_step_begin() -> None:
    """Say that a step begins, so that CUDA graphs may reuse its memory: there are none."""


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Compare guards across processes: there are no guards; the setting before is False."""
    return False


class set_stance:
    """How `torch.compile` is to behave; a call, a context manager and a decorator.

    "force_eager" neither records nor replays, the "eager_on..." ones only replay what is recorded,
    "fail_on_recompile" makes an error of a second recording. RuntimeError for a name that is no
    stance.
    """

    _dynamo_forbidden = True

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: Any = None,
    ):
        check(stance in STANCES, RuntimeError, f"invalid torch.compile stance '{stance}'")
        check(
            force_backend is None or stance == "default",
            RuntimeError,
            "non-default stance cannot have force_backend set",
        )
        self.stance, self.before = stance, STANCE[0]
        STANCE[0] = stance

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        STANCE[0] = self.before  # a decorator: only while the function runs

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            before, STANCE[0] = STANCE[0], self.stance
            try:
                return fn(*args, **kwargs)
            finally:
                STANCE[0] = before

        return wrapped

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        STANCE[0] = self.before
