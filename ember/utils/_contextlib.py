"""`torch.utils._contextlib`: blocks that decorate functions, as `no_grad` does."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ember.errors import check

_GENERATOR = 0x20  # the flag of code that yields


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Any:
    """`func` run inside a fresh `ctx()` at each call (or inside `ctx` itself, if it is a block)."""
    check(
        not (callable(ctx) and hasattr(ctx, "__enter__")),
        AssertionError,
        f"Passed in {ctx} is both callable and also a valid context manager (has __enter__), "
        "making it ambiguous which interface to use.",
    )
    make = ctx if callable(ctx) else lambda: ctx
    if isinstance(func, type):
        raise RuntimeError(
            f"Cannot decorate classes; it is ambiguous whether or not only the constructor or all "
            f"methods should have the context manager applied: decorate the methods of {func}"
        )
    code = getattr(func, "__code__", None)
    if code is not None and code.co_flags & _GENERATOR:
        return _inside_generator(make, func)

    @functools.wraps(func)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return decorated


def _inside_generator(make: Callable[[], Any], func: Callable[..., Any]) -> Callable[..., Any]:
    """A generator that is inside the block only while it runs."""

    @functools.wraps(func)
    def generate(*args: Any, **kwargs: Any) -> Any:
        made = func(*args, **kwargs)
        step: Callable[[Any], Any] = made.send
        given: Any = None
        while True:
            try:
                with make():
                    value = step(given)
            except StopIteration as end:
                return end.value
            try:
                step, given = made.send, (yield value)
            except GeneratorExit:
                with make():
                    made.close()
                raise
            except BaseException as error:
                step, given = made.throw, error

    return generate


class _DecoratorContextManager:
    """The base of blocks that can decorate functions too; `clone` makes one for each call."""

    def __call__(self, orig_func: Any) -> Any:
        if isinstance(orig_func, type):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You "
                "should only decorate functions or methods. To preserve the current behavior of "
                "class decoration, you can directly decorate the `__init__` method and nothing "
                "else.",
                FutureWarning,
                stacklevel=2,
            )
            made = orig_func

            def call(*args: Any, **kwargs: Any) -> Any:
                return made(*args, **kwargs)

            return context_decorator(self.clone, call)
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} says nothing of what __enter__ does")

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} says nothing of what __exit__ does")

    def clone(self) -> Any:
        """A fresh block for a call of a decorated function."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same for blocks without parameters: `@block` without brackets decorates."""

    def __new__(cls, orig_func: Any = None) -> Any:
        made = object.__new__(cls)
        return made if orig_func is None else made(orig_func)
