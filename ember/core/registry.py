"""The decorators that declare ops, and the registry of names that they fill: the public surface is
read from here."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from ember.backends.base import LibraryKernel
from ember.core import modes
from ember.core.dispatch import autocast, overridden, overridden_after_all
from ember.core.formula import FormulaOp
from ember.core.library import LibraryOp
from ember.core.node_names import with_named_result
from ember.core.op import OTHER_NAMES, Op
from ember.core.out_rules import FACTORIES
from ember.core.outputs import check_out, check_result, put
from ember.core.reduction import ReductionOp
from ember.core.row_formula import RowOp
from ember.core.tensor import Tensor
from ember.core.view import ViewOp
from ember.dtypes import as_dtype
from ember.errors import check

FUNCTION, METHOD, F, INPLACE, OUT, LINALG, FFT, SPECIAL, F_INPLACE = (1 << i for i in range(9))


class Names(dict[str, Any]):
    """Declared names; a missing one may be in a family that loads at its first use."""

    def __missing__(self, name: str) -> Any:
        for load in loaders:
            load()
        if name not in self:
            raise KeyError(name)
        return self[name]


loaders: list[Callable[[], None]] = []  # ops/__init__.py

NAMESPACES: dict[str, Names] = {
    name: Names() for name in ("torch", "Tensor", "nn.functional", "linalg", "fft", "special")
}
OPS = Names()  # every declared op by its own name, public or not


def _publish(name: str, function: Any, export: int) -> None:
    for flag, space in (
        (FUNCTION, "torch"),
        (F, "nn.functional"),
        (LINALG, "linalg"),
        (FFT, "fft"),
        (SPECIAL, "special"),
    ):
        if export & flag:
            NAMESPACES[space][name] = function
    if export & METHOD:
        install_method(name, function)


def install_method(name: str, function: Any) -> None:
    """Make `function(self, ...)` a method of Tensor."""
    NAMESPACES["Tensor"][name] = function
    setattr(Tensor, name, function)


def _register(op: Any, function: Any, export: int, names: tuple[str, ...], own: str) -> Any:
    own = own or function.__name__
    op.__name__ = op.__qualname__ = own
    if isinstance(op, Op):
        op.name = own
    OPS[own] = op
    if export & (F | FUNCTION):  # where pickle finds it
        op.__module__ = "ember.nn.functional" if export & F else "ember"
    written = inplace_form(op) if export & (INPLACE | F_INPLACE) else None
    if written is not None and export & (FUNCTION | F_INPLACE):
        written.__module__ = "ember" if export & FUNCTION else "ember.nn.functional"
    for name in (own, *names):
        _publish(name, op, export)
        if export & INPLACE:
            install_method(name + "_", written)
            if export & FUNCTION:
                NAMESPACES["torch"][name + "_"] = written
        if export & F_INPLACE:
            NAMESPACES["nn.functional"][name + "_"] = written
    return op


def inplace_form(op: Any) -> Any:
    """`x.op_(...)`: a formula is computed into its first argument; anything else is computed and
    copied in."""
    if isinstance(op, FormulaOp):

        def written(self: Any, *args: Any, **kwargs: Any) -> Any:
            return op.inplace(self, *args, **kwargs)
    else:

        def written(self: Any, *args: Any, **kwargs: Any) -> Any:
            if modes.SPECIAL[0]:
                found = overridden(written, (self, *args), kwargs)
                if found is not NotImplemented:
                    return found
            return copy_result(self, op(self, *args, **kwargs))

    written.__dict__["asks"] = True
    written.__name__ = written.__qualname__ = f"{op.__name__}_"
    written.__doc__ = f"`{op.__name__}` with its result written into the tensor, which is returned."
    return written


def copy_result(target: Any, result: Any) -> Any:
    """Copy a result into a tensor, which must have its shape and a dtype that holds it."""
    spec = result._array.spec
    check_result(spec.dtype, spec.shape, target._array.spec)
    return target.copy_(result)


def elementwise(
    export: int = 0, names: tuple[str, ...] = (), name: str = "", **options: Any
) -> Callable[[Any], FormulaOp]:
    """Declare an elementwise op by its formula. See FormulaOp for the options; `names` are
    aliases."""

    def declare(function: Any) -> FormulaOp:
        op: FormulaOp = _register(FormulaOp(function, **options), function, export, names, name)
        return op

    return declare


def rowwise(
    export: int = 0, names: tuple[str, ...] = (), name: str = "", **options: Any
) -> Callable[[Any], RowOp]:
    """Declare a row program; `dim` is added to its parameters."""

    def declare(function: Any) -> RowOp:
        op: RowOp = _register(RowOp(function, **options), function, export, names, name)
        return op

    return declare


def reduction(
    export: int = 0, names: tuple[str, ...] = (), name: str = "", **options: Any
) -> Callable[[Any], ReductionOp]:
    """Declare a reduction by the combination of two elements; `dim`, `keepdim` (and `dtype`) are
    added."""

    def declare(function: Any) -> ReductionOp:
        op: ReductionOp = _register(ReductionOp(function, **options), function, export, names, name)
        return op

    return declare


def library_op(
    kernel: LibraryKernel,
    export: int = 0,
    names: tuple[str, ...] = (),
    name: str = "",
    **options: Any,
) -> Callable[[Any], LibraryOp]:
    """Declare a library op: the body is its shape rule, `kernel` the name of what backends
    bring."""

    def declare(function: Any) -> LibraryOp:
        op: LibraryOp = _register(
            LibraryOp(function, kernel, **options), function, export, names, name
        )
        return op

    return declare


def view(
    export: int = 0, names: tuple[str, ...] = (), name: str = "", absolute: bool = False
) -> Callable[[Any], ViewOp]:
    """Declare a view op by its map of layouts; `absolute` if its arguments speak of the storage."""

    def declare(function: Any) -> ViewOp:
        op: ViewOp = _register(ViewOp(function, absolute=absolute), function, export, names, name)
        return op

    return declare


def composite(
    export: int = 0,
    names: tuple[str, ...] = (),
    name: str = "",
    overridden_with: Any = None,
    asks_classes: bool = True,
) -> Callable[[Any], Any]:
    """Declare a function over other ops; gradients, devices and capture see through it.

    With OUT it takes `out=` (a tensor, or a tuple of them for several results). `overridden_with`
    gives the arguments as overrides see them; without `asks_classes` only modes override it.
    """

    def declare(function: Any) -> Any:
        function = with_named_result(function, name or function.__name__)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if modes.SPECIAL[0]:
                shown = args if overridden_with is None else overridden_with(*args)
                found = overridden(call, shown, kwargs, asks_classes)
                if found is not NotImplemented:
                    return found
                given = [*args, *kwargs.values()]
                cast = autocast(name or function.__name__, given)
                if cast is not given:
                    with modes.no_autocast():  # one rule is for the whole function
                        return call(
                            *cast[: len(args)], **dict(zip(kwargs, cast[len(args) :], strict=True))
                        )
            if dtype_at is not None and (kwargs or len(args) > dtype_at):
                args, kwargs = with_dtype(function.__name__, dtype_at, args, kwargs)
            out = kwargs.pop("out", None) if takes_out else None
            if out is None:
                try:
                    return function(*args, **kwargs)
                except (TypeError, AttributeError) as error:
                    if overridden_after_all(args, kwargs):
                        return call(*args, **kwargs)
                    named = with_own_names(function, kwargs)
                    if named is not None:
                        return call(*args, **named)
                    wanted = _tensor_wanted(error, function, args, kwargs)
                    if wanted is None:
                        raise
                    raise wanted from None
            return _into(call.__name__, function, out, args, kwargs)

        call.__dict__["asks"] = True  # overrides: core/asking.py leaves it alone
        takes_out, dtype_at = bool(export & OUT), _position_of_dtype(function)
        return _register(call, function, export, names, name)

    return declare


def _tensor_wanted(
    error: Exception, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> TypeError | None:
    """The error for an argument that was used as a tensor and is none; None for other errors."""
    if not isinstance(error, AttributeError) or function.__name__.startswith("__"):
        return None  # special methods are Python's: theirs stay attributes that are missing
    stray, attribute = error.obj, str(error.name)
    if isinstance(stray, Tensor) or not (attribute == "_array" or hasattr(Tensor, attribute)):
        return None
    code = getattr(function, "__wrapped__", function).__code__
    named = code.co_varnames[: code.co_argcount]
    names = [f" '{n}'" for n in named] + [""] * len(args)  # those of *args have none
    given = [*zip(names, args, strict=False), *((f" '{n}'", v) for n, v in kwargs.items())]
    for position, (name, value) in enumerate(given):
        if value is stray:
            return TypeError(
                f"{function.__name__}(): argument{name} (position {position + 1}) must be Tensor, "
                f"not {type(stray).__name__}"
            )
        elements = value if isinstance(value, (list, tuple)) else ()
        for place, element in enumerate(elements):
            if element is stray:
                return TypeError(
                    f"expected Tensor as element {place} in argument {position}, but got "
                    f"{type(stray).__name__}"
                )
    return None


TAKES_KEYWORDS = 8  # the flag of code with **kwargs


def _parameters(function: Any) -> tuple[CodeType, tuple[str, ...]]:
    code: CodeType = getattr(function, "__wrapped__", function).__code__
    return code, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def with_own_names(function: Any, kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """Keyword arguments under the function's names, if some came under NumPy's; else None."""
    code, own = _parameters(function)
    if code.co_flags & TAKES_KEYWORDS:  # their names are in the body
        own = (*own, "dim", "keepdim")
    named = {
        OTHER_NAMES[k] if k not in own and OTHER_NAMES.get(k) in own else k: v
        for k, v in kwargs.items()
    }
    return named if len(named) == len(kwargs) and named.keys() != kwargs.keys() else None


def _position_of_dtype(function: Any) -> int | None:
    code, names = _parameters(function)
    if "dtype" in names:
        return names.index("dtype")
    return sys.maxsize if code.co_flags & TAKES_KEYWORDS else None  # it may be among **kwargs


def with_dtype(
    name: str, position: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with Python's types of numbers in place of dtypes made dtypes;
    TypeError for what is neither."""
    if kwargs.get("dtype") is not None:
        kwargs["dtype"] = as_dtype(name, kwargs["dtype"])
    elif len(args) > position and isinstance(args[position], type):
        args = (*args[:position], as_dtype(name, args[position]), *args[position + 1 :])
    return args, kwargs


def _into(name: str, function: Any, out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    outs = out if isinstance(out, (tuple, list)) else (out,)
    kwargs = with_own_names(function, kwargs) or kwargs
    for target in outs:
        check_out(name, target, (*args, *kwargs.values()))
    if name in FACTORIES:
        _match_dtype(kwargs, out)
    with modes.no_grad():
        result = function(*args, **kwargs)
        if not isinstance(out, (tuple, list)):
            return put(out, result, name, with_places=False)
        stored = [put(o, r, name) for o, r in zip(outs, result, strict=True)]
    return type(result)(stored) if type(result) is tuple else type(result)(*stored)


def _match_dtype(kwargs: dict[str, Any], out: Tensor) -> None:
    own = out._array.spec.dtype
    dtype = kwargs.setdefault("dtype", own) or own
    check(
        dtype is own,
        RuntimeError,
        f"dtype {dtype.title} does not match dtype of out parameter ({own.title})",
    )
