"""`Op`: what all kinds of ops share: a name, a bound signature, the overrides, and being a method
of Tensor."""

from __future__ import annotations

from collections.abc import Sequence
from types import MethodType
from typing import Any

from ember.core import modes
from ember.core.dispatch import NUMBERS, overridden
from ember.core.tensor import Tensor
from ember.dtypes import dtype as DType


class _Required:
    def __repr__(self) -> str:
        return "<required>"


REQUIRED = _Required()


# NumPy's names of parameters, which are understood where PyTorch's are.
OTHER_NAMES = {
    "self": "input",
    "x": "input",
    "a": "input",
    "x1": "input",
    "x2": "other",
    "axis": "dim",
    "keepdims": "keepdim",
}


class Op:
    """An op declared by a decorator; calling it runs it."""

    asks = True  # overrides, by itself
    saved_results = slice(None)  # which of several results a rule that names `result` gets
    flat = False  # whether second derivatives by its inputs are zeros, though its rule names none

    def __init__(self, function: Any):
        code = function.__code__
        count, keyword_only = code.co_argcount, code.co_kwonlyargcount
        self.function = function
        self.__name__ = self.name = function.__name__.rstrip("_") or function.__name__
        self.__qualname__, self.__doc__, self.__module__ = (
            self.name,
            function.__doc__,
            function.__module__,
        )
        self.parameters: tuple[str, ...] = code.co_varnames[: count + keyword_only]
        self.positional = count
        defaults = function.__defaults__ or ()
        self.defaults: list[Any] = [REQUIRED] * (count - len(defaults)) + list(defaults)
        named = function.__kwdefaults__ or {}
        self.defaults += [named.get(p, REQUIRED) for p in self.parameters[count:]]
        self._grad: Any = None
        self.rule_parameters: tuple[str, ...] = ()
        self.rule_reads: list[tuple[str, int | None]] = []  # what it names: an argument's position
        self.rule_asks = False  # whether it wants to know which gradients are needed

    @property
    def grad(self) -> Any:
        """The gradient rule; its parameters' names say what it needs."""
        return self._grad

    @grad.setter
    def grad(self, rule: Any) -> None:
        self._grad = rule
        self.rule_parameters = rule.__code__.co_varnames[: rule.__code__.co_argcount]
        self.rule_asks = "needs" in self.rule_parameters
        places: dict[str, int | None] = {p: i for i, p in enumerate(self.parameters)}
        places |= {f"{p}_spec": i for i, p in enumerate(self.parameters)}
        places["result"] = None  # only the result is at no argument's place
        named = [p for p in self.rule_parameters if p not in ("g", "needs")]
        self.rule_reads = [(p, places[p]) for p in named]

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments in the order of the parameters, defaults filled in; TypeErrors as
        Python's."""
        if len(args) > self.positional:
            raise TypeError(
                f"{self.name}() takes {self.positional} positional arguments but {len(args)} were "
                f"given: ({', '.join(self.parameters)})"
            )
        if not kwargs and len(args) == len(self.parameters):
            return list(args)
        rest = self.defaults[len(args) :]
        values = [*args, *rest]
        if not kwargs and REQUIRED not in rest:
            return values
        for name, value in kwargs.items():
            position = self._position(name)
            if position < len(args):
                raise TypeError(f"{self.name}() got multiple values for argument '{name}'")
            values[position] = value
        missing = [p for p, v in zip(self.parameters, values, strict=True) if v is REQUIRED]
        if missing:
            raise TypeError(
                f"{self.name}() missing {len(missing)} required argument(s): {', '.join(missing)}"
            )
        return values

    def _position(self, name: str) -> int:
        for candidate in (name, OTHER_NAMES.get(name)):
            if candidate in self.parameters:
                return self.parameters.index(candidate)
        known = ", ".join(self.parameters)
        raise TypeError(
            f"{self.name}() got an unexpected keyword argument '{name}' (it has: {known})"
        )

    def overridden(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a `__torch_function__` makes of the call, or NotImplemented."""
        return overridden(self, args, kwargs) if modes.SPECIAL[0] else NotImplemented

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def check_input(self, value: Any) -> None:
        """TypeError unless the first argument is a tensor."""
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{self.name}(): argument '{self.parameters[0]}' (position 1) must be Tensor, not "
                f"{type(value).__name__}"
            )

    def check_operands(self, values: Sequence[Any], operands: Sequence[Any]) -> None:
        """TypeError for arguments that are neither tensors nor numbers, where those are wanted, or
        if no tensor is among them."""
        for position, (value, default) in enumerate(zip(values, self.defaults, strict=True)):
            named = isinstance(value, str) and isinstance(default, str)
            if named or isinstance(value, (Tensor, tuple, type(None), DType, *NUMBERS)):
                continue
            if isinstance(value, str) or position < self.positional:
                wanted = "Tensor" if default is REQUIRED else "Number"
                raise TypeError(
                    f"{self.name}(): argument '{self.parameters[position]}' (position "
                    f"{position + 1}) must be {wanted}, not {type(value).__name__}"
                )
        if not any(isinstance(o, Tensor) for o in operands):
            self.check_input(values[0])

    def __copy__(self) -> Op:
        return self

    def __deepcopy__(self, memo: Any) -> Op:
        return self

    def __reduce__(self) -> str:
        return str(self.__qualname__)  # pickled by its public name, as a function is

    def __repr__(self) -> str:
        return f"<function {self.name}>"
