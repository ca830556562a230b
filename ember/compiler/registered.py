"""The names that `backend=` takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ember.errors import check

_tags: dict[str, tuple[str, ...]] = {
    "aot_eager": ("debug",),
    "cudagraphs": (),
    "eager": ("debug",),
    "inductor": (),
    "openxla": (),
    "tvm": (),
}
_functions: dict[str, Any] = {}
_default: list[Any] = ["inductor"]


class InvalidBackend(RuntimeError):
    """A `backend=` that names none."""

    def __init__(self, name: str):
        super().__init__(
            f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available "
            "backends."
        )


def list_backends(exclude_tags: Sequence[str] = ("debug", "experimental")) -> list[str]:
    """The names that `torch.compile(backend=...)` takes: "eager" records nothing, the others record
    and replay."""
    hidden = set(exclude_tags or ())
    return sorted(name for name, tags in _tags.items() if not hidden.intersection(tags))


def register_backend(
    compiler_fn: Any = None, name: str | None = None, tags: Sequence[str] = ()
) -> Any:
    """Add a name to those that `backend=` takes; a decorator. The function is not called today."""
    if compiler_fn is None:
        return lambda function: register_backend(function, name, tags)
    check(callable(compiler_fn), AssertionError, "a backend is a function")
    found = name or compiler_fn.__name__
    check(found not in _tags, AssertionError, f"duplicate name: {found}")
    _tags[found], _functions[found] = tuple(tags), compiler_fn
    return compiler_fn


def lookup_backend(compiler_fn: Any) -> Any:
    """A backend by its name; InvalidBackend if there is none. A function is itself one."""
    if isinstance(compiler_fn, str):
        if compiler_fn not in _tags:
            raise InvalidBackend(compiler_fn)
        return _functions.get(compiler_fn, compiler_fn)
    return compiler_fn


def set_default_backend(backend: str | Callable[..., Any] | None) -> None:
    """Set the backend of `torch.compile` without one; None sets "inductor" again."""
    lookup_backend(backend)
    _default[0] = "inductor" if backend is None else backend


def get_default_backend() -> Any:
    """The backend of `torch.compile` without one."""
    return _default[0]
