"""Marks on pipes: of types, which are not checked, and of pipes whose order is not fixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.errors import check

__all__ = [
    "argument_validation",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "runtime_validation",
    "runtime_validation_disabled",
]


class _Switched:
    """A setting for a block, or from now on."""

    _on: bool

    def __init__(self, on: bool = True) -> None:
        self.before = type(self)._on
        type(self)._on = on

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        type(self)._on = self.before


class guaranteed_datapipes_determinism(_Switched):
    """Whether pipes that are marked as not deterministic are refused."""

    _on = False


class runtime_validation_disabled(_Switched):
    """Whether types of samples go unchecked: they do in any case."""

    _on = False

    def __init__(self) -> None:
        super().__init__(True)


class non_deterministic:
    """Marks a class of pipes as not deterministic, always or where a function of its arguments says
    so: under `guaranteed_datapipes_determinism` making one is a TypeError."""

    def __init__(self, arg: Any) -> None:
        self.cls = arg if isinstance(arg, type) else None
        self.asks = None if isinstance(arg, type) else arg

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls is None:
            self.cls = args[0]
            return self
        if guaranteed_datapipes_determinism._on:
            check(
                self.asks is not None and not self.asks(*args, **kwargs),
                TypeError,
                f"{self.cls.__name__} is non-deterministic with the given arguments: set "
                "'guaranteed_datapipes_determinism' to False to use it",
            )
        return self.cls(*args, **kwargs)


def argument_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function whose pipes have declared types; nothing is checked, as in PyTorch."""
    return f


def runtime_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Marks an `__iter__` whose samples have declared types; nothing is checked."""
    return f
