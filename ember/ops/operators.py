"""Python's operators on tensors: the short path from `a + b` to its plan."""

from __future__ import annotations

import importlib
import itertools
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ember import dtypes
from ember.core import executor, modes
from ember.core.registry import METHOD, OPS, composite, install_method
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops import matmul, pointwise

_new = object.__new__
_SPECIAL, _LAYOUTS, _state, _slot = modes.SPECIAL, modes.LAYOUTS, modes.state, executor._slot
OPERANDS = (Tensor, int, float, bool, complex)


def _fast(op: Any) -> Callable[[Any, Any], Any]:
    """The binary operator of an elementwise op: plan and result with as little as possible in
    between."""
    plans, extra = op.plans, tuple(op.key_tail())
    bound = tuple(op.defaults[2:])

    def binary(a: Any, b: Any) -> Any:
        kind = type(b)
        if not next(_calls) & 2047:
            _consider()
        if _SPECIAL[0] != _LAYOUTS[0]:
            return slow(a, b)
        if kind is Tensor or isinstance(b, Tensor):
            second = b._array
            part = second.spec
            asks = a._requires_grad or b._requires_grad
            asks = asks or a._base is not None or b._base is not None
        elif kind is float or kind is int:
            second, part = b, kind
            asks = a._requires_grad or a._base is not None
        else:
            return slow(a, b)
        array = a._array
        plan = plans.get((array.spec, part) + extra)  # quicker than unpacking
        if plan is None:
            return slow(a, b) if _SPECIAL[0] else op.run((a, b, *bound))
        out, slot = _new(Tensor), _slot[0]
        if slot is None:
            out._array = plan.runner(array, second)
        else:
            out._array = slot.run(plan.call, plan.runner, (array, second))
        if asks and _state.grad and plan.differentiable:
            node = op.record(plan, (a, b, *bound), out)
            if node is not None:
                out._grad_fn, out._requires_grad = node, True
        return out

    def slow(a: Any, b: Any) -> Any:
        if isinstance(b, OPERANDS) or _is_scalar(b):
            return op.call((a, b), {})
        if hasattr(type(b), "__torch_function__"):
            return op.call((a, b), {})
        if op in (pointwise.eq, pointwise.ne) and isinstance(b, np.ndarray):
            return op(a, OPS["from_numpy"](b))  # NumPy would leave it to Python: no element equal
        return NotImplemented

    return binary


def _is_scalar(value: Any) -> bool:
    """Whether it is a number of NumPy's, or an object like one."""
    if isinstance(value, np.ndarray) or hasattr(type(value), "__torch_function__"):
        return False
    return hasattr(value, "item") and getattr(value, "ndim", 1) == 0


# The short way that is compiled (core/front.py). Compiling it takes a tenth of a second, so that
# only a program of many calls has it; much less where LLVM is there already.
_calls = itertools.count(1)
MANY = 10_000
_front: list[Any] = []
_operators: list[tuple[str, Any, Any, bool]] = []  # name, op, Python's function, whether it writes


def _consider() -> None:
    """Compile the operators if they are used often."""
    if _front or ("llvmlite" not in sys.modules and next(_calls) < MANY):
        return
    _front.append(None)
    if os.environ.get("EMBER_NATIVE_OPERATORS") != "0":
        module = importlib.import_module("ember.core.front")
        _front[0] = module.open_front([module.Operator(*o) for o in _operators])


def _install_fast(name: str, op: Any, function: Any, writes: bool = False) -> None:
    install_method(name, function)
    _operators.append((name, op, function, writes))


def _install(symbol: str, op: Any) -> None:
    def reflected(self: Any, other: Any) -> Any:
        if not isinstance(self, Tensor) and symbol == "mod":
            return op(other, self)
        if not isinstance(self, Tensor) and symbol == "sub":
            return NotImplemented
        if not isinstance(self, Tensor):
            raise TypeError(
                f"descriptor '__r{symbol}__' for 'Tensor' objects doesn't apply to a "
                f"'{type(self).__name__}' object"
            )
        if isinstance(other, np.generic):
            other = other.item()
        return op(other, self) if isinstance(other, OPERANDS) else NotImplemented

    def written(self: Any, other: Any) -> Any:
        if not next(_calls) & 2047:
            _consider()
        if isinstance(other, np.generic):
            other = other.item()
        if not isinstance(other, OPERANDS):
            return NotImplemented
        return op.call_inplace((self, other), {})

    op.short = _fast(op)
    _install_fast(f"__{symbol}__", op, op.short)
    install_method(f"__r{symbol}__", reflected)
    _install_fast(f"__i{symbol}__", op, written, True)


for _symbol, _op in (
    ("add", pointwise.add),
    ("sub", pointwise.sub),
    ("mul", pointwise.mul),
    ("truediv", pointwise.true_divide),
    ("floordiv", pointwise.floor_divide),
    ("mod", pointwise.remainder),
    ("and", pointwise.bitwise_and),
    ("or", pointwise.bitwise_or),
    ("xor", pointwise.bitwise_xor),
    ("lshift", pointwise.bitwise_left_shift),
    ("rshift", pointwise.bitwise_right_shift),
):
    _install(_symbol, _op)

for _symbol, _op in (
    ("lt", pointwise.lt),
    ("le", pointwise.le),
    ("gt", pointwise.gt),
    ("ge", pointwise.ge),
    ("eq", pointwise.eq),
    ("ne", pointwise.ne),
):
    _op.short = _fast(_op)
    _install_fast(f"__{_symbol}__", _op, _op.short)


@composite(METHOD)
def __neg__(self: Tensor) -> Tensor:
    """-self."""
    return pointwise.neg(self)


@composite(METHOD)
def __pos__(self: Tensor) -> Tensor:
    """+self. RuntimeError for a bool tensor."""
    check(
        self.dtype is not dtypes.bool_,
        RuntimeError,
        "The `+` operator, on a bool tensor is not supported.",
    )
    return self


@composite(METHOD)
def __delitem__(self: Tensor, index: Any) -> None:
    """TypeError: a tensor keeps its elements."""
    raise TypeError("Tensor does not support deleting items: index what is to stay")


@composite(METHOD)
def __reversed__(self: Tensor) -> Tensor:
    """`reversed(self)`: a copy with every dim flipped."""
    return OPS["flip"](self, tuple(range(self.ndim)))


@composite(METHOD)
def __abs__(self: Tensor) -> Tensor:
    """|self|."""
    return pointwise.abs_(self)


@composite(METHOD)
def __invert__(self: Tensor) -> Tensor:
    """Every bit flipped; logical not for bools."""
    check(
        self.dtype.category <= dtypes.INTEGRAL,
        TypeError,
        "~ (operator.invert) is only implemented on integer and Boolean-type tensors",
    )
    return pointwise.bitwise_not(self)


@composite(METHOD)
def __pow__(self: Tensor, exponent: Any) -> Tensor:
    """self to a power."""
    return pointwise.power(self, exponent)


@composite(METHOD)
def __ipow__(self: Tensor, exponent: Any) -> Tensor:
    """self **= exponent."""
    return pointwise.power.inplace(self, exponent)


@composite(METHOD)
def __rpow__(self: Tensor, base: Any) -> Tensor:
    """A number to the power self."""
    return pointwise.power(base, self)


@composite(METHOD)
def __matmul__(self: Tensor, other: Tensor) -> Tensor:
    """The matrix product."""
    if not isinstance(other, Tensor):
        return NotImplemented
    return OPS["matmul"](self, other)


def _matrices(longer: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`a @ b` with a short way for matrices like those that were multiplied before."""
    plans, run = matmul.product.plans, matmul.product.run

    def __matmul__(self: Any, other: Any) -> Any:
        if isinstance(other, Tensor) and not _SPECIAL[0]:
            left, right = self._array.spec, other._array.spec
            if left.ndim == 2 and right.ndim == 2 and (left, right) in plans:
                return run((self, other))
        return longer(self, other)

    __matmul__.__doc__ = longer.__doc__
    __matmul__.__dict__["asks"] = True
    return __matmul__


install_method("__matmul__", _matrices(__matmul__))


@composite(METHOD)
def __rmatmul__(self: Tensor, other: Tensor) -> Tensor:
    """The matrix product with self on the right."""
    if not isinstance(other, Tensor):
        return NotImplemented
    return OPS["matmul"](other, self)


@composite(METHOD)
def __rdiv__(self: Tensor, other: Any) -> Tensor:
    """Another over self."""
    return self.reciprocal() * other


@composite(METHOD)
def __contains__(self: Tensor, element: Any) -> bool:
    """Whether any element equals a number or a (broadcast) tensor."""
    check(
        isinstance(element, (Tensor, bool, int, float, complex, np.generic)),
        RuntimeError,
        f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.",
    )
    return bool((self == element).any().item())
