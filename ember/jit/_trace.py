"""`trace`: the function or module itself, run once on the example inputs."""

from __future__ import annotations

from typing import Any

from ember.core import modes
from ember.core.tensor import Tensor
from ember.errors import check
from ember.jit._script import ScriptedModule, ScriptFunction, ScriptModule, _tell_once
from ember.nn.modules.module import Module


class TracerWarning(Warning):
    """What PyTorch warns of when a trace may not generalise; nothing is traced here."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Filter such warnings from PyTorch's own files: there are none."""


class TracingCheckError(Exception):
    """A trace that differed from the function; nothing is traced here."""

    def __init__(self, graph_diff_error: Any, tensor_compare_error: Any, extra_msg: Any = None):
        self.message = "\n".join(
            str(m) for m in (extra_msg, graph_diff_error, tensor_compare_error) if m
        )
        super().__init__(self.message)


class TracedModule(ScriptModule):
    """The base of traced modules, for isinstance."""


class TopLevelTracedModule(ScriptedModule, TracedModule):
    """A module that was traced: it runs its Python code."""

    def _get_name(self) -> str:
        return str(self.original_name)


def is_tracing() -> bool:
    """Whether a trace is being recorded: never here.

    >>> import ember as torch
    >>> torch.jit.is_tracing()
    False
    """
    return False


def _as_tuple(example: Any) -> tuple[Any, ...]:
    return (example,) if isinstance(example, (Tensor, dict)) else tuple(example)


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: Any = None,
    _store_inputs: bool = True,
) -> Any:
    """A function or module to be used as if it had been traced on `example_inputs`.

    It runs once on them, so that what fails fails here, and then comes back to be called: its
    Python code runs each time, so branches follow the data where PyTorch's trace would keep the
    way that the example took. A warning says so once.
    """
    if isinstance(func, ScriptModule):
        return func
    check(
        example_inputs is not None or example_kwarg_inputs is not None,
        RuntimeError,
        "example_kwarg_inputs should be a dict"
        if example_inputs is None
        else "example_inputs is None",
    )
    args = () if example_inputs is None else _as_tuple(example_inputs)
    _tell_once("trace")
    with modes.no_grad():
        func(*args, **(example_kwarg_inputs or {}))
    return TopLevelTracedModule(func) if isinstance(func, Module) else ScriptFunction(func)


def trace_module(
    mod: Any,
    inputs: Any,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> Any:
    """A module as if the methods that `inputs` names had been traced on what it holds for each.

    AttributeError if `mod` is no Module or `inputs` no dict; see `trace`.
    """
    check(isinstance(mod, Module), AttributeError, "expected torch.nn.Module as the first argument")
    check(
        isinstance(inputs, dict),
        AttributeError,
        "expected a dictionary of (method_name, input) pairs",
    )
    _tell_once("trace_module")
    with modes.no_grad():
        for name, example in inputs.items():
            method = mod if name == "forward" else getattr(mod, name)
            if example_inputs_is_kwarg:
                method(**example)
            else:
                method(*_as_tuple(example))
    return TopLevelTracedModule(mod)
