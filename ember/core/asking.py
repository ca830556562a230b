"""Attributes that ask `__torch_function__`: what ops do in the funnel, done for `x.shape`, `x.grad`
and the methods that are no ops.

A plain tensor's attributes never ask. A class that overrides gets asking ones of its own when it is
made, and `Tensor` itself has them while an override mode is active.
"""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import Any

from ember.core import modes
from ember.core.dispatch import overridden, public_name
from ember.core.facts import ArrayFacts
from ember.core.registry import NAMESPACES
from ember.core.tensor import Tensor, on_overriding_class, without_conversion

DUNDERS = "__len__ __bool__ __repr__ __format__ __deepcopy__ __reduce_ex__".split()
NEVER = {"as_subclass", "spec"}
_before: dict[str, Any] = {}  # what Tensor had under these names before the first mode


class AskingProperty:
    """A property of Tensor; overrides are asked with its `__get__`, `__set__` or `__delete__`."""

    def __init__(self, plain: property):
        self.plain = plain
        self.__doc__ = plain.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self.plain
        found = overridden(self.plain.__get__, (instance,), {})
        return self.plain.__get__(instance) if found is NotImplemented else found

    def __set__(self, instance: Any, value: Any) -> None:
        if overridden(self.plain.__set__, (instance, value), {}) is NotImplemented:
            self.plain.__set__(instance, value)

    def __delete__(self, instance: Any) -> None:
        if overridden(self.plain.__delete__, (instance,), {}) is NotImplemented:
            self.plain.__delete__(instance)


class AskingMethod:
    """A method of Tensor; overrides are asked with the method itself."""

    def __init__(self, plain: Any):
        self.plain = plain
        self.__doc__ = plain.__doc__

        def ask(*args: Any, **kwargs: Any) -> Any:
            found = overridden(plain, args, kwargs)
            return plain(*args, **kwargs) if found is NotImplemented else found

        ask.__name__, ask.__qualname__, ask.__doc__ = (
            plain.__name__,
            plain.__qualname__,
            plain.__doc__,
        )
        self.ask = ask

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.plain if instance is None else MethodType(self.ask, instance)


def silent_attributes() -> dict[str, Any]:
    """The properties and methods of Tensor that do not ask by themselves, by name."""
    found: dict[str, Any] = {}
    for kind in (ArrayFacts, Tensor):
        for name, value in vars(kind).items():
            value = getattr(value, "plain", value)
            is_public = not name.startswith("_") or name in DUNDERS
            silent = isinstance(value, (property, FunctionType)) and not hasattr(value, "asks")
            if is_public and silent and name not in NEVER:
                found[name] = value
    return found


def _asking(plain: Any) -> Any:
    return AskingProperty(plain) if isinstance(plain, property) else AskingMethod(plain)


def _equip(cls: type) -> None:
    """Give a new overriding class attributes that ask, where it has none of its own."""
    own = {name for kind in cls.__mro__ if kind not in Tensor.__mro__ for name in vars(kind)}
    for name, plain in silent_attributes().items():
        if name not in own:
            setattr(cls, name, _asking(plain))


on_overriding_class.append(_equip)


def push_mode(mode: Any) -> None:
    """Make `mode` the innermost override mode of this thread."""
    if not modes.MODES[0]:
        for name, plain in silent_attributes().items():
            _before[name] = vars(Tensor).get(name)
            setattr(Tensor, name, _asking(plain))
    modes.MODES[0] += 1
    modes.SPECIAL[0] += 1
    modes.state.functions = (*modes.state.functions, mode)


def pop_mode() -> Any:
    """Leave the innermost override mode of this thread, and return it."""
    mode = modes.state.functions[-1]
    modes.state.functions = modes.state.functions[:-1]
    modes.SPECIAL[0] -= 1
    modes.MODES[0] -= 1
    if not modes.MODES[0]:
        for name, value in _before.items():
            if value is None:
                delattr(Tensor, name)
            else:
                setattr(Tensor, name, value)
        _before.clear()
    return mode


class nobody_asked:
    """A block in which neither classes nor modes are asked."""

    def __enter__(self) -> None:
        modes.state.functions_off += 1
        modes.state.modes_off += 1

    def __exit__(self, *exc: object) -> None:
        modes.state.functions_off -= 1
        modes.state.modes_off -= 1


class no_class_asked:
    """A block in which modes are asked and classes are not."""

    def __enter__(self) -> None:
        modes.state.functions_off += 1

    def __exit__(self, *exc: object) -> None:
        modes.state.functions_off -= 1


def name_of(function: Any) -> str:
    """The public name of what an override is given: "torch.add", "torch.Tensor.shape.__get__"."""
    plain = getattr(function, "__self__", None)
    if isinstance(plain, property):
        for name, value in silent_attributes().items():
            if value is plain:
                return f"torch.Tensor.{name}.{function.__name__}"
    name = getattr(function, "__name__", None) or str(function)
    for place, names in NAMESPACES.items():
        if dict.get(names, name) is function:
            return f"{place if place == 'torch' else 'torch.' + place}.{name}"
    for kind in Tensor.__mro__:
        for own, value in vars(kind).items():
            if getattr(value, "plain", value) is function:
                return f"torch.Tensor.{own}"
    return f"{getattr(function, '__module__', '')}.{name}".replace("ember.", "torch.", 1)


public_name[0] = name_of
without_conversion.add(vars(Tensor)["grad"].__get__)
