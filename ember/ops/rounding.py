"""Rounding, and numbers taken apart into mantissa and exponent."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.core.registry import FUNCTION, METHOD, OUT, SPECIAL, composite, elementwise
from ember.core.tensor import Tensor
from ember.dtypes import FLOATING, REAL
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.ops import return_types
from ember.ops.arithmetic import API, flat
from ember.scalar import primitives as p


def _parted(dtype: DType) -> tuple[DType, DType]:
    return dtype, dtypes.int32


@elementwise(accepts=FLOATING)
def mantissa(input: Any) -> Any:
    """input over 2 to the power of its exponent: 0, or from 0.5 to 1 with the sign of input."""
    return p.ldexp(input, -p.exponent(input))


mantissa.grad = lambda g, input: (p.ldexp(g, -p.exponent(input)),)


@elementwise(accepts=FLOATING, promote=_parted)
def binary_exponent(input: Any) -> Any:
    """The exponent of `frexp`."""
    return p.exponent(input)


@composite(FUNCTION | METHOD | OUT)
def frexp(input: Tensor) -> Any:
    """Mantissas from 0.5 to 1 and exponents with input = mantissa · 2 to the power exponent."""
    check(
        input.dtype in FLOATING,
        RuntimeError,
        f"torch.frexp() only supports floating-point dtypes, not {input.dtype.title}",
    )
    return return_types.frexp(mantissa(input), binary_exponent(input.detach()))


# rounding


def _rounding(name: str, doc: str, names: tuple[str, ...] = ()) -> Any:
    def formula(input: Any) -> Any:
        return getattr(p, name)(input)

    formula.__name__, formula.__doc__ = name, doc
    op = elementwise(API, names=names, accepts=REAL)(formula)
    op.grad = flat
    return op


floor = _rounding("floor", "The greatest integer not above input.")
ceil = _rounding("ceil", "The least integer not below input.")
trunc = _rounding("trunc", "input without its fraction.", names=("fix",))


@elementwise(
    API | SPECIAL, accepts=REAL, literals={"decimals": tuple(range(-40, 41))}, name="round"
)
def round_(input: Any, *, decimals: int = 0) -> Any:
    """The nearest number of so many decimals, halves to even ones."""
    if decimals == 0:
        return p.round(input)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return p.round(input * scale) / scale
    return p.round(input / scale) * scale


round_.grad = flat


def _check_decimals(input: Any, decimals: int) -> None:
    check(
        input.dtype.category >= (dtypes.FLOAT if decimals else dtypes.INTEGRAL),
        NotImplementedError,
        lambda: f"\"round_cpu\" not implemented for '{input.dtype.title}'",
    )


round_.checks = _check_decimals


@elementwise(API, accepts=FLOATING)
def frac(input: Any) -> Any:
    """input - trunc(input)."""
    return input - p.trunc(input)
