"""Comparisons, logic, tests of single values, and bits."""

from __future__ import annotations

import math
from typing import Any

from ember import dtypes
from ember.core.formula import compares
from ember.core.registry import FUNCTION, INPLACE, METHOD, OUT, composite, elementwise
from ember.core.tensor import Tensor
from ember.dtypes import ANY, COMPLEX_TYPES, INTEGERS
from ember.errors import check
from ember.ops.argument_types import check_tensor, require_tensors
from ember.scalar import primitives as p

API = FUNCTION | METHOD | INPLACE | OUT
BOOL = frozenset({dtypes.bool_})


def _comparison(name: str, primitive: str, doc: str, names: tuple[str, ...]) -> Any:
    def formula(input: Any, other: Any) -> Any:
        return getattr(p, primitive)(input, other)

    formula.__name__, formula.__doc__ = name, doc
    accepts = ANY if primitive in ("eq", "ne") else ANY - COMPLEX_TYPES
    return elementwise(API, names=names, promote=compares, accepts=accepts)(formula)


eq = _comparison("eq", "eq", "Whether elements are equal.", ())
ne = _comparison("ne", "ne", "Whether elements differ.", ("not_equal",))
lt = _comparison("lt", "lt", "Whether input < other.", ("less",))
le = _comparison("le", "le", "Whether input <= other.", ("less_equal",))
gt = _comparison("gt", "gt", "Whether input > other.", ("greater",))
ge = _comparison("ge", "ge", "Whether input >= other.", ("greater_equal",))


require_tensors((eq, ne, lt, le, gt, ge), 1)

# logic


@elementwise(API, promote=compares)
def logical_and(input: Any, other: Any) -> Any:
    """Whether both are nonzero."""
    return p.logical_and(input, other)


@elementwise(API, promote=compares)
def logical_or(input: Any, other: Any) -> Any:
    """Whether one is nonzero."""
    return p.logical_or(input, other)


@elementwise(API, promote=compares)
def logical_xor(input: Any, other: Any) -> Any:
    """Whether exactly one is nonzero."""
    return p.logical_xor(input, other)


@elementwise(API, promote=compares)
def logical_not(input: Any) -> Any:
    """Whether the element is zero."""
    return p.logical_not(input)


require_tensors((logical_and, logical_or, logical_xor), 2)

# tests of a value


@elementwise(FUNCTION | METHOD, promote=compares)
def isnan(input: Any) -> Any:
    """Whether the element is not a number."""
    return p.ne(input, input)


@elementwise(FUNCTION | METHOD, promote=compares)
def isinf(input: Any) -> Any:
    """Whether the element is infinite."""
    return p.isinf(input)


@elementwise(FUNCTION | METHOD, promote=compares)
def isfinite(input: Any) -> Any:
    """Whether the element is neither infinite nor NaN."""
    return p.isfinite(input)


@elementwise(FUNCTION | METHOD | OUT, promote=compares)
def isposinf(input: Any) -> Any:
    """Whether the element is inf."""
    return p.eq(input, math.inf)


@elementwise(FUNCTION | METHOD | OUT, promote=compares)
def isneginf(input: Any) -> Any:
    """Whether the element is -inf."""
    return p.eq(input, -math.inf)


def _refuse_complex(name: str) -> Any:
    def checks(input: Any) -> None:
        check(
            not isinstance(input, Tensor) or not input.is_complex(),
            RuntimeError,
            f"{name} does not support complex inputs.",
        )

    return checks


isposinf.checks = _refuse_complex("isposinf")
isneginf.checks = _refuse_complex("isneginf")


@elementwise(FUNCTION | METHOD, promote=compares)
def isreal(input: Any) -> Any:
    """Whether the element has no imaginary part."""
    return p.eq(p.imag(input), 0)


@elementwise(FUNCTION | METHOD | OUT, promote=compares, accepts=ANY - COMPLEX_TYPES)
def signbit(input: Any) -> Any:
    """Whether the sign is set: also that of -0.0."""
    return p.signbit(input)


# nearness


def _close(a: Tensor, b: Tensor, rtol: float, atol: float) -> Tensor:
    apart = (a - b).abs() if a.dtype is not dtypes.bool_ else (a != b)
    return apart <= atol + (b * rtol).abs()


@composite(FUNCTION | METHOD)
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Whether |input - other| <= atol + rtol · |other|; equal infinities (and NaNs) are close.

    >>> import ember as torch
    >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0000001, 2.1]))
    tensor([ True, False])
    """
    check_tensor("isclose", "input", 1, input)
    check_tensor("isclose", "other", 2, other)
    check(
        input.dtype is other.dtype,
        RuntimeError,
        f"{input.dtype.title} did not match {other.dtype.title}: isclose compares tensors of one "
        "dtype",
    )
    check(rtol >= 0, RuntimeError, f"rtol must be greater than or equal to zero, but got {rtol}")
    check(atol >= 0, RuntimeError, f"atol must be greater than or equal to zero, but got {atol}")
    a, b = input.detach(), other.detach()
    same = eq(a, b)
    if equal_nan and a.dtype.category >= dtypes.FLOAT:
        same = logical_or(same, logical_and(isnan(a), isnan(b)))
    if rtol == 0 and atol == 0:
        return same
    if a.dtype is dtypes.bool_:
        return logical_or(same, _close(a, b, rtol, atol))
    if a.dtype.category < dtypes.FLOAT:
        return logical_or(same, _close(a.to(dtypes.float64), b.to(dtypes.float64), rtol, atol))
    return logical_or(same, logical_and(isfinite(a - b), _close(a, b, rtol, atol)))


@composite(FUNCTION | METHOD)
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close (see isclose)."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all().item())


@composite(FUNCTION | METHOD)
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one shape and equal elements."""
    check(
        isinstance(other, Tensor),
        TypeError,
        lambda: (
            f"equal(): argument 'other' (position 2) must be Tensor, not {type(other).__name__}"
        ),
    )
    return input.shape == other.shape and bool(eq(input, other).all().item())


# bits


def _bitwise(name: str, doc: str, accepts: Any = INTEGERS | BOOL, primitive: str = "") -> Any:
    def formula(input: Any, other: Any) -> Any:
        return getattr(p, primitive or name)(input, other)

    formula.__name__, formula.__doc__ = name, doc
    return elementwise(API, accepts=accepts)(formula)


bitwise_and = _bitwise("bitwise_and", "The bits set in both.")
bitwise_or = _bitwise("bitwise_or", "The bits set in one or both.")
bitwise_xor = _bitwise("bitwise_xor", "The bits set in just one.")
bitwise_left_shift = _bitwise(
    "bitwise_left_shift", "input · 2 to the power other, as bits.", INTEGERS, "shift_left"
)
bitwise_right_shift = _bitwise(
    "bitwise_right_shift", "input shifted right by `other` bits.", INTEGERS, "shift_right"
)


@elementwise(API, accepts=INTEGERS | BOOL)
def bitwise_not(input: Any) -> Any:
    """Every bit flipped; logical not for bools."""
    return p.bitwise_not(input)
