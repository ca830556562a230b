"""`compile`: the documented call, checked, and a callable that records and replays."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from ember.capture.compiled import Captured
from ember.compiler.registered import get_default_backend, lookup_backend
from ember.errors import check
from ember.nn.modules.module import Module

_captured: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # of modules
MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


class OptimizedModule(Module):
    """A module that was given to `torch.compile`: the original is its child `_orig_mod`.

    Attributes are the original's; the keys of its state dict begin with `_orig_mod.`.
    """

    def __init__(self, mod: Module, dynamo_ctx: Any = None):
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.__dict__["dynamo_ctx"] = dynamo_ctx
        self.__dict__["training"] = mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original, or replay what it did."""
        captured = _captured.get(self)
        if captured is None:
            captured = _captured[self] = Captured(self._modules["_orig_mod"])
        return captured(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        modules = self.__dict__.get("_modules", {})
        if name == "_orig_mod":
            return modules["_orig_mod"]
        if "_orig_mod" not in modules:
            raise AttributeError(name)
        return getattr(modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_orig_mod", "dynamo_ctx", "training") or name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__:
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """A function or module to be called in place of `model`: its first call is recorded, and later
    ones replay the recorded work without its Python.

    A whole training step gains most: forward, backward and `optimizer.step()` in one function. Of
    Adam, AdamW, SGD, RMSprop and Adagrad only the numbers are asked for at each replay; others run
    as they are. A backward pass outside, from results that need gradients, is recorded too.
    What a recording depends on is checked at each call: shapes, dtypes, devices and memory of
    tensors, numbers, modules' flags, gradient mode; something else is recorded anew, eight times at
    most. What cannot be replayed runs eagerly: reading a tensor's elements (an error with
    `fullgraph=True`), shapes that depend on data, changes to lists and attributes outside, a call
    while an earlier one waits for its backward pass. `compiled.report()` says which it was. The
    backend "eager" records nothing; one that is a function is not called. A module becomes an
    `OptimizedModule`. Without `model` it is a decorator.

    RuntimeError for an unknown mode, or for both mode and options; InvalidBackend for a name that
    `torch.compiler.list_backends(None)` does not have; AssertionError for what cannot be called.

    >>> import ember as torch
    >>> double = torch.compile(lambda x: x * 2, mode="reduce-overhead")
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    check_options(dynamic, backend, mode, options)
    if model is None:
        keywords = {"fullgraph": fullgraph, "dynamic": dynamic, "backend": backend}
        keywords |= {"mode": mode, "options": options, "disable": disable}
        return functools.partial(compile, **keywords)
    check(
        callable(model),
        AssertionError,
        f"A callable function is expected, but {type(model)} is provided.",
    )
    if disable:
        return model
    eager = (get_default_backend() if backend is None else backend) == "eager"
    if isinstance(model, Module):
        made = OptimizedModule(model)
        _captured[made] = model if eager else Captured(model, fullgraph)
        return made
    if isinstance(model, type):
        return model
    captured = None if eager else Captured(model, fullgraph)

    @functools.wraps(model)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs) if captured is None else captured(*args, **kwargs)

    compiled._torchdynamo_orig_callable = model  # type: ignore[attr-defined]
    compiled.report = lambda: "eager" if captured is None else captured.report()  # type: ignore[attr-defined]
    return compiled


def check_options(dynamic: Any, backend: Any, mode: Any, options: Any) -> None:
    """Raise for arguments that `compile` refuses."""
    check(
        mode is None or options is None,
        RuntimeError,
        "Either mode or options can be specified, but both can't be specified at the same time.",
    )
    check(
        mode is None or mode in MODES,
        RuntimeError,
        f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}",
    )
    check(
        options is None or isinstance(options, dict),
        AttributeError,
        f"torch.compile: options is a dict, not {type(options).__name__}",
    )
    check(
        dynamic is None or isinstance(dynamic, bool),
        AssertionError,
        f"Expected enable to be a bool, got {type(dynamic)}",
    )
    lookup_backend(get_default_backend() if backend is None else backend)
