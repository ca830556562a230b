"""Exponentials, logarithms, roots, trigonometric and hyperbolic functions."""

from __future__ import annotations

import math
from typing import Any

from ember.core.dispatch import promoted
from ember.core.formula import floats
from ember.core.registry import FUNCTION, INPLACE, METHOD, OUT, SPECIAL, F, composite, elementwise
from ember.core.tensor import Tensor
from ember.dtypes import FLOATING, INEXACT, INTEGRAL
from ember.ops.argument_types import check_tensor, require_tensors
from ember.scalar import primitives as p
from ember.scalar.primitives import where

API = FUNCTION | METHOD | INPLACE | OUT
PLAIN = FUNCTION | METHOD | OUT


def floating(
    name: str,
    doc: str,
    primitive: str = "",
    names: tuple[str, ...] = (),
    accepts: Any = INEXACT,
    export: int = API,
) -> Any:
    """An op of one primitive that makes floats of integers."""

    def formula(input: Any) -> Any:
        return getattr(p, primitive or name)(input)

    formula.__name__, formula.__doc__ = name, doc
    return elementwise(export, names=names, promote=floats, accepts=accepts)(formula)


exp = floating("exp", "e to the power input.")
exp2 = floating("exp2", "2 to the power input.", export=API | SPECIAL)
expm1 = floating("expm1", "exp(input) - 1, exact near 0.", export=API | SPECIAL)
log = floating("log", "The natural logarithm.")
log2 = floating("log2", "The logarithm to base 2.")
log10 = floating("log10", "The logarithm to base 10.")
log1p = floating("log1p", "log(1 + input), exact near 0.", export=API | SPECIAL)
sqrt = floating("sqrt", "The square root.")
rsqrt = floating("rsqrt", "1 / sqrt(input).")
sin = floating("sin", "The sine of an angle in radians.")
cos = floating("cos", "The cosine of an angle in radians.")
tan = floating("tan", "The tangent of an angle in radians.")
asin = floating("asin", "The inverse of sine.", names=("arcsin",))
acos = floating("acos", "The inverse of cosine.", names=("arccos",))
atan = floating("atan", "The inverse of tangent.", names=("arctan",))
sinh = floating("sinh", "The hyperbolic sine.")
cosh = floating("cosh", "The hyperbolic cosine.")
asinh = floating("asinh", "The inverse of sinh.", names=("arcsinh",))
acosh = floating("acosh", "The inverse of cosh.", names=("arccosh",))
atanh = floating("atanh", "The inverse of tanh.", names=("arctanh",))
tanh = floating("tanh", "The hyperbolic tangent.", export=API | F)
sigmoid = floating("sigmoid", "1 / (1 + exp(-input)).", export=API | F)


@elementwise(API, names=("arctan2",), promote=floats, accepts=FLOATING)
def atan2(input: Any, other: Any) -> Any:
    """The angle of the point (other, input)."""
    return p.atan2(input, other)


@elementwise(API, accepts=FLOATING)
def hypot(input: Any, other: Any) -> Any:
    """sqrt(input² + other²), without overflow."""
    return p.hypot(input, other)


@elementwise(name="logaddexp", promote=floats, accepts=FLOATING)
def real_logaddexp(input: Any, other: Any) -> Any:
    """log(exp(input) + exp(other)) of real numbers."""
    high, low = p.maximum(input, other), p.minimum(input, other)
    return where(p.isinf(input) & p.eq(input, other), input, high + p.log1p(p.exp(low - high)))


@elementwise(name="logaddexp", accepts=INEXACT - FLOATING)
def complex_logaddexp(input: Any, other: Any) -> Any:
    """log(exp(input) + exp(other)) of complex numbers, from the one with the greater real part."""
    x, y = p.real(input), p.real(other)
    high, low = where(p.ge(x, y), input, other), where(p.ge(x, y), other, input)
    at_infinity = where(p.lt(x, 0), other, p.log(p.exp(input) + p.exp(other)))
    sum_ = where(p.isinf(x) & p.eq(x, y), at_infinity, high + p.log1p(p.exp(low - high)))
    return where(p.isnan(input) | p.isnan(other), complex(math.nan, math.nan), sum_)


@composite(PLAIN)
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(exp(input) + exp(other)), without overflow.

    >>> import ember as torch
    >>> torch.logaddexp(torch.tensor([500.0]), torch.tensor([500.0]))
    tensor([500.6931])
    """
    check_tensor("logaddexp", "input", 1, input)
    check_tensor("logaddexp", "other", 2, other)
    if promoted((input, other)).category <= INTEGRAL:
        raise NotImplementedError(
            f"\"logaddexp_cpu\" not implemented for '{promoted((input, other)).title}'"
        )
    if promoted((input, other)).is_complex:
        return complex_logaddexp(input, other)
    return real_logaddexp(input, other)


@elementwise(PLAIN, promote=floats, accepts=FLOATING)
def logaddexp2(input: Any, other: Any) -> Any:
    """log2(2 to the power input + 2 to the power other), without overflow."""
    high, low = p.maximum(input, other), p.minimum(input, other)
    return where(
        p.isinf(input) & p.eq(input, other), input, high + p.log1p(p.exp2(low - high)) / math.log(2)
    )


def _weights(g: Any, input: Any, other: Any, exponential: Any) -> tuple[Any, ...]:
    """Each operand's share of the sum."""
    return g / (1 + exponential(other - input)), g / (1 + exponential(input - other))


real_logaddexp.grad = lambda g, input, other: _weights(g, input, other, p.exp)
complex_logaddexp.grad = lambda g, input, other: _weights(g, p.conj(input), p.conj(other), p.exp)
logaddexp2.grad = lambda g, input, other: _weights(g, input, other, p.exp2)


@elementwise(API, promote=floats, accepts=FLOATING)
def deg2rad(input: Any) -> Any:
    """An angle of degrees in radians."""
    return input * (math.pi / 180)


@elementwise(API, promote=floats, accepts=FLOATING)
def rad2deg(input: Any) -> Any:
    """An angle of radians in degrees."""
    return input * (180 / math.pi)


@elementwise(API | SPECIAL, promote=floats)
def sinc(input: Any) -> Any:
    """sin(πx) / (πx); 1 at 0."""
    angle = input * math.pi
    return where(p.eq(input, 0), 1, p.sin(angle) / angle)


@elementwise(API, accepts=FLOATING)
def nextafter(input: Any, other: Any) -> Any:
    """The next number of the dtype after input in the direction of `other`."""
    return p.nextafter(input, other)


nextafter.grad = lambda g, input, other: (
    where(p.eq(input, other), 0, g),
    where(p.eq(input, other), g, 0),
)
require_tensors((atan2, hypot, logaddexp2, nextafter), 2)
