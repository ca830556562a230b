"""`torch.overrides`: the `__torch_function__` protocol for functions, classes and modes.

A class with `__torch_function__(cls, func, types, args=(), kwargs=None)` is asked before any
function of torch that gets an instance of it, also as an element of a list. A mode is asked for
every function in its block. What they return is the result; NotImplemented asks the next one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from ember.core import modes
from ember.core.asking import name_of, pop_mode, push_mode, silent_attributes
from ember.core.dispatch import _override_types
from ember.core.op import REQUIRED, Op
from ember.core.registry import NAMESPACES
from ember.core.tensor import Tensor, without_conversion

__all__ = [
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "resolve_name",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "wrap_torch_function",
    "enable_reentrant_dispatch",
    "redispatch_function",
]

# Functions that make tensors from no tensor, or that only ask and set: no argument overrides them.
_NEVER_ASK = (
    "arange as_tensor asarray as_strided bartlett_window blackman_window broadcast_shapes can_cast "
    "empty empty_permuted empty_strided eye fill from_file from_numpy frombuffer full "
    "hamming_window hann_window is_storage is_tensor kaiser_window linspace load logspace normal "
    "ones promote_types rand rand_like randint randint_like randn randn_like randperm range "
    "result_type save scalar_tensor sparse_coo_tensor tensor tril_indices triu_indices typename "
    "vander zeros manual_seed seed initial_seed get_rng_state set_rng_state get_default_dtype "
    "set_default_dtype set_default_device get_default_device set_default_tensor_type "
    "set_printoptions is_grad_enabled set_grad_enabled no_grad enable_grad inference_mode finfo "
    "iinfo device dtype layout memory_format"
).split()


# asking


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether an override wants a call with these arguments.

    >>> import ember as torch
    >>> torch.overrides.has_torch_function((torch.ones(1), 2))
    False
    """
    if modes.state.functions and not modes.state.modes_off:
        return True
    return not modes.state.functions_off and bool(_override_types(tuple(relevant_args), {}))


def has_torch_function_unary(tensor: Any) -> bool:
    """`has_torch_function` for one argument."""
    return has_torch_function((tensor,))


def has_torch_function_variadic(*tensors: Any) -> bool:
    """`has_torch_function` for the arguments given one by one."""
    return has_torch_function(tensors)


def _get_overloaded_args(
    relevant_args: Iterable[Any], get_type_fn: Callable[[Any], type] = type
) -> list[Any]:
    """One argument of each overriding type, subclasses before their bases."""
    args = list(relevant_args)
    types = _override_types(tuple(args), {})
    return [next(a for a in args if get_type_fn(a) is kind) for kind in types]


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the overrides of `relevant_args` make of `public_api(*args, **kwargs)`.

    A function of yours begins with `if has_torch_function((x,)): return
    handle_torch_function(f, (x,), x)`. TypeError if all decline.
    """
    types = tuple(_override_types(tuple(relevant_args), {}))
    state = modes.state
    if state.functions and not state.modes_off:
        mode, before = state.functions[-1], state.functions
        state.functions = before[:-1]
        try:
            found = mode.__torch_function__(public_api, types, args, kwargs)
        finally:
            state.functions = before
        if found is not NotImplemented:
            return found
    for kind in types:
        found = kind.__torch_function__(public_api, types, args, kwargs)
        if found is not NotImplemented:
            return found
    raise TypeError(
        f"no implementation found for '{public_api.__module__}.{public_api.__name__}' on types "
        f"that implement __torch_function__: {list(types)}"
    )


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Any], Any]:
    """A decorator that makes a function overridable; `dispatcher(*args, **kwargs)` gives the
    arguments that may override it."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


# modes


class TorchFunctionMode:
    """A block in which every function of torch goes through `__torch_function__(self, func, types,
    args=(), kwargs=None)`. Inside that method the mode itself is off.

    >>> import ember as torch
    >>> class Names(torch.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(torch.overrides.resolve_name(func))
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     x = torch.ones(2)
    torch.ones
    """

    def __init__(self) -> None:
        pass

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} is a TorchFunctionMode without a __torch_function__: define "
            "__torch_function__(self, func, types, args=(), kwargs=None)"
        )

    def __enter__(self) -> Any:
        push_mode(self)
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        pop_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """A new mode of this class, to be entered."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that runs every function as it is."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_function_mode() -> Any:
    return modes.state.functions[-1] if modes.state.functions else None


def _get_current_function_mode_stack() -> list[Any]:
    return list(modes.state.functions)


def _len_torch_function_stack() -> int:
    return len(modes.state.functions)


class _EnabledAgain:
    def __enter__(self) -> None:
        state = modes.state
        self.before = state.functions_off, state.modes_off
        state.functions_off = state.modes_off = 0

    def __exit__(self, *exc: object) -> None:
        modes.state.functions_off, modes.state.modes_off = self.before


def enable_reentrant_dispatch() -> Any:
    """A block in which overrides are asked again, for use inside an override."""
    return _EnabledAgain()


def redispatch_function(func: Any, *args: Any, **kwargs: Any) -> Any:
    """`func(*args, **kwargs)` with overrides asked again."""
    with enable_reentrant_dispatch():
        return func(*args, **kwargs)


# what there is to override


def is_tensor_like(inp: Any) -> bool:
    """Whether `inp` is a Tensor, or of a class with `__torch_function__`."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


@functools.cache
def get_default_nowrap_functions() -> set[Any]:
    """The functions whose results the default override does not make ones of the subclass."""
    return without_conversion


def _tensor_members() -> list[Any]:
    members = {**silent_attributes(), **NAMESPACES["Tensor"]}
    found: list[Any] = []
    for name, member in members.items():
        if isinstance(member, property):
            found += [member.__get__, member.__set__, member.__delete__]
        elif callable(member) and not isinstance(member, staticmethod) and name != "as_subclass":
            found.append(member)
    return found


@functools.cache
def get_ignored_functions() -> set[Any]:
    """The functions that no argument overrides: factories, queries and settings."""
    torch = import_module("ember")
    found = {getattr(torch, name) for name in _NEVER_ASK if hasattr(torch, name)}
    return found | {Tensor.as_subclass, Tensor._make_subclass}  # type: ignore[attr-defined]


@functools.cache
def _overridable() -> tuple[dict[Any, list[Any]], dict[Any, str]]:
    NAMESPACES["torch"].get("")
    ignored = get_ignored_functions()
    found: dict[Any, list[Any]] = {}
    names: dict[Any, str] = {}
    for place, declared in NAMESPACES.items():
        if place == "Tensor":
            functions = _tensor_members()
        else:
            functions = [f for f in declared.values() if callable(f) and f not in ignored]
        module = "ember" if place == "torch" else f"ember.{place}"
        found[Tensor if place == "Tensor" else import_module(module)] = functions
        for function in functions:
            names.setdefault(function, name_of(function))
    return found, names


def get_overridable_functions() -> dict[Any, list[Any]]:
    """The functions that can be overridden, by where they are: a module or Tensor."""
    return _overridable()[0]


def resolve_name(f: Any) -> str | None:
    """The public name of a function that can be overridden; None for others.

    >>> import ember as torch
    >>> torch.overrides.resolve_name(torch.Tensor.shape.__get__)
    'torch.Tensor.shape.__get__'
    """
    found = name_of(f)
    return found if found.startswith("torch.") else None


@functools.cache
def _members() -> set[Any]:
    return set(_tensor_members())


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether `func` is a method of Tensor or an accessor of one of its properties."""
    return func in _members() or getattr(func, "__name__", "") == "__get__"


@functools.cache
def get_testing_overrides() -> dict[Any, Callable[..., int]]:
    """For each function that can be overridden, a function of its parameters that gives -1."""
    return {f: _dummy(f) for listed in _overridable()[0].values() for f in listed}


def _dummy(function: Any) -> Callable[..., int]:
    parameters, defaults = ("self",), ()
    if isinstance(function, Op):
        parameters = function.parameters
        defaults = tuple(d for d in function.defaults if d is not REQUIRED)
    else:
        plain = getattr(function, "__wrapped__", function)
        code = getattr(plain, "__code__", None)
        if code is not None:
            parameters = code.co_varnames[: code.co_argcount]
            defaults = plain.__defaults__ or ()
    count = len(parameters) - len(defaults)
    listed = [f"{p}=None" if i >= count else p for i, p in enumerate(parameters)]
    made: Callable[..., int] = eval(f"lambda {', '.join(listed)}: -1")
    return made
