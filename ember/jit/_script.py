"""`script`: functions and modules that run as the Python they are, with TorchScript's classes."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from ember.errors import check
from ember.nn.modules.module import Module

NOT_WRITTEN = (
    "TorchScript archives are not written: torch.jit.script and torch.jit.trace run Python code "
    "here. Save the weights with torch.save(module.state_dict(), path), or the whole module with "
    "torch.save(module, path)."
)
_told = [False]


class ScriptWarning(Warning):
    """A warning about TorchScript."""


def _tell_once(name: str) -> None:
    if not _told[0]:
        _told[0] = True
        warnings.warn(
            f"torch.jit.{name}: TorchScript is not compiled here; the Python code itself runs, "
            "which gives the same numbers (this is said once)",
            ScriptWarning,
            stacklevel=3,
        )


class ScriptFunction:
    """A function that was scripted or traced: calling it runs the Python function."""

    def __init__(self, function: Any):
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    @property
    def name(self) -> str:
        """The function's name."""
        return str(self._function.__name__)

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """NotImplementedError: archives are read, not written."""
        raise NotImplementedError(NOT_WRITTEN)

    def __getattr__(self, name: str) -> Any:
        if name in ("graph", "code", "inlined_graph", "schema"):
            raise AttributeError(
                f"'ScriptFunction' has no '{name}': TorchScript is not compiled here"
            )
        raise AttributeError(f"'ScriptFunction' object has no attribute '{name}'")

    def __reduce__(self) -> Any:
        return ScriptFunction, (self._function,)

    def __repr__(self) -> str:
        return f"<torch.jit.ScriptFunction {self.__qualname__}>"


class ScriptModule(Module):
    """The base of scripted, traced and loaded modules; a plain Module for those who subclass it."""

    def save(self, f: Any, **kwargs: Any) -> None:
        """NotImplementedError: archives are read, not written."""
        raise NotImplementedError(NOT_WRITTEN)

    def save_to_buffer(self, *args: Any, **kwargs: Any) -> bytes:
        """NotImplementedError: archives are read, not written."""
        raise NotImplementedError(NOT_WRITTEN)


class RecursiveScriptModule(ScriptModule):
    """The base of what `script`, `trace` and `load` give for modules."""


class ScriptedModule(RecursiveScriptModule):
    """A module seen as a scripted one: the same parameters, buffers and children, and its methods.

    What is read or set here is read or set in the original, so the two never differ.
    """

    def __init__(self, original: Module):
        self.__dict__["_original"] = original

    @property
    def original_name(self) -> str:
        """The name of the class that was scripted."""
        return type(self._original).__name__

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The original's `forward`."""
        return self._original.forward(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        original = self.__dict__.get("_original")
        if original is None or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        if name in ("graph", "code", "inlined_graph"):
            raise AttributeError(
                f"a scripted module has no '{name}': TorchScript is not compiled here"
            )
        return getattr(original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._original, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._original, name)

    def __bool__(self) -> bool:
        return True  # whether or not the original has a length

    def __getstate__(self) -> Any:
        return {"_original": self._original}

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)

    def copy(self) -> ScriptedModule:
        """A deep copy."""
        from copy import deepcopy

        return deepcopy(self)

    def extra_repr(self) -> str:
        """The name of the class that was scripted."""
        return f"original_name={self.original_name}"


ScriptedModule.__name__ = ScriptedModule.__qualname__ = "RecursiveScriptModule"  # as in PyTorch

for _special in ("__len__", "__iter__", "__getitem__", "__contains__", "__dir__"):

    def _delegate(self: Any, *args: Any, _special: str = _special) -> Any:
        return getattr(self._original, _special)(*args)

    _delegate.__name__ = _special
    setattr(ScriptedModule, _special, _delegate)


class RecursiveScriptClass:
    """The class of scripted objects that are no modules; nothing is one here."""


class CompilationUnit:
    """A set of functions compiled from TorchScript source: NotImplementedError when made."""

    def __init__(self, lang: Any = None, _frames_up: int = 0):
        check(
            lang is None,
            NotImplementedError,
            "torch.jit.CompilationUnit(source): TorchScript source is not compiled here; define "
            "the functions in Python",
        )


def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """A function, module or class to be used as if TorchScript had compiled it.

    Nothing is compiled: a function comes back as a `ScriptFunction` that calls it, a module as a
    `RecursiveScriptModule` that shares its parameters, a class as it is. The numbers are the same;
    what Python allows and TorchScript refuses is not refused. A warning says so once.

    >>> import warnings
    >>> import ember as torch
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     double = torch.jit.script(lambda x: x * 2)
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if isinstance(obj, (ScriptFunction, ScriptModule)):
        return obj
    if isinstance(obj, type):
        check(
            not issubclass(obj, Module),
            RuntimeError,
            lambda: (
                f"Type '{obj}' cannot be compiled since it inherits from nn.Module, consider "
                "passing an instance instead"
            ),
        )
        return obj
    _tell_once("script")
    if isinstance(obj, Module):
        return ScriptedModule(obj)
    if isinstance(obj, (dict, list)):
        return obj
    check(callable(obj), RuntimeError, f"torch.jit.script() takes a function, not {obj!r}")
    return ScriptFunction(obj)


def script_method(fn: Any) -> Any:
    """Mark a method of a ScriptModule: the method itself."""
    return fn


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """The module itself: freezing folds weights into compiled code, of which there is none.

    RuntimeError for what is no ScriptModule, or for one in training mode.
    """
    check(
        isinstance(mod, ScriptModule),
        RuntimeError,
        "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace "
        "to script your 'nn.Module'.",
    )
    check(
        not mod.training,
        RuntimeError,
        "Freezing is currently only implemented for modules in eval mode. Please call .eval() on "
        "your module before freezing.",
    )
    return mod


def run_frozen_optimizations(
    mod: Any, optimize_numerics: bool = True, preserved_methods: Any = None
) -> None:
    """Optimize a frozen module in place: nothing to do."""


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The module itself, as `freeze` gives it."""
    check(
        isinstance(mod, ScriptModule),
        RuntimeError,
        "optimize_for_inference expects a ScriptModule as input. Please use torch.jit.script or "
        "torch.jit.script to script your 'nn.Module'.",
    )
    return freeze(mod.eval() if mod.training else mod)


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """NotImplementedError: archives are read, not written."""
    raise NotImplementedError(NOT_WRITTEN)
