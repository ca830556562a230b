"""What eager programs write for TorchScript's sake: marks and tests that change nothing in Python.

Each does what it does in PyTorch while no compiler runs.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

__all__ = [
    "Attribute",
    "Error",
    "Final",
    "annotate",
    "export",
    "ignore",
    "interface",
    "is_scripting",
    "isinstance_",
    "script_if_tracing",
    "unused",
]

_OVERLOADS: dict[str, list[Any]] = {}


class Error(RuntimeError):
    """An exception that a TorchScript program raised."""


class Attribute(NamedTuple):
    """A value with the type that a compiler would give it; eager code uses `.value`."""

    value: Any
    type: Any


def is_scripting() -> bool:
    """Whether TorchScript is compiling this function: never here.

    >>> import ember as torch
    >>> torch.jit.is_scripting()
    False
    """
    return False


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a method that a compiler is to leave to Python; used with and without parentheses."""
    if callable(drop):
        drop._torchscript_modifier = "ignore"
        return drop
    if not isinstance(drop, bool):
        raise RuntimeError(
            f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}"
        )
    modifier = "unused" if drop or kwargs.pop("drop_on_export", False) else "ignore"

    def mark(function: Any) -> Any:
        function._torchscript_modifier = modifier
        return function

    return mark


def unused(fn: Any) -> Any:
    """Mark a method (or property) that a compiled module would not have."""
    if isinstance(fn, property):
        for part in (fn.fget, fn.fset):
            if part is not None:
                part._torchscript_modifier = "unused"
        return fn
    fn._torchscript_modifier = "unused"
    return fn


def export(fn: Any) -> Any:
    """Mark a method that a compiled module would have beside `forward`."""
    fn._torchscript_modifier = "export"
    return fn


def interface(obj: Any) -> Any:
    """Mark a class as an interface of modules: the class itself."""
    return obj


def annotate(the_type: Any, the_value: Any) -> Any:
    """`the_value`: the type is for a compiler.

    >>> import ember as torch
    >>> torch.jit.annotate(int, 3)
    3
    """
    return the_value


def _overload(func: Any) -> Any:
    """One signature of an overloaded function; Python runs the last definition."""
    _OVERLOADS.setdefault(f"{func.__module__}.{func.__qualname__}", []).append(func)
    return func


def _overload_method(func: Any) -> Any:
    """One signature of an overloaded method; Python runs the last definition."""
    return _overload(func)


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function while it is traced; as nothing is traced, a function that calls `fn`."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    wrapper.__original_fn = fn  # type: ignore[attr-defined]
    wrapper.__script_if_tracing_wrapper = True  # type: ignore[attr-defined]
    return wrapper


_script_if_tracing = script_if_tracing


def _unwrap_optional(x: Any) -> Any:
    """`x`, which must not be None."""
    assert x is not None, "Unwrapping null optional"
    return x


def isinstance_(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type, containers by their elements' types too.

    >>> import ember as torch
    >>> torch.jit.isinstance([1, 2], list[int]), torch.jit.isinstance([1, "a"], list[int])
    (True, False)
    """
    if isinstance(target_type, tuple):
        return any(isinstance_(obj, one) for one in target_type)
    origin, arguments = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        return isinstance(obj, target_type)
    if origin is typing.Union or type(target_type).__name__ == "UnionType":
        return any(isinstance_(obj, one) for one in arguments)
    if not isinstance(obj, origin):
        return False
    if origin is dict:
        return all(
            isinstance_(k, arguments[0]) and isinstance_(v, arguments[1]) for k, v in obj.items()
        )
    if origin is tuple:
        return len(obj) == len(arguments) and all(map(isinstance_, obj, arguments))
    return all(isinstance_(element, arguments[0]) for element in obj)


_isinstance = isinstance_


@contextmanager
def _hide_source_ranges() -> Iterator[None]:
    """Leave source lines out of a printed graph: there is none to print."""
    yield


class _IgnoreContextManager:
    """A block that a compiler would leave to Python."""

    def __init__(self, **kwargs: Any):
        self.types = kwargs

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None
