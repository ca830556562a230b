"""Special functions: gamma, error, Bessel functions, entropies, orthogonal polynomials."""

from __future__ import annotations

import math
from typing import Any

from ember.core.formula import floats
from ember.core.registry import (
    FUNCTION,
    INPLACE,
    METHOD,
    NAMESPACES,
    OUT,
    SPECIAL,
    composite,
    elementwise,
)
from ember.core.tensor import Tensor
from ember.dtypes import FLOATING
from ember.errors import check
from ember.ops.argument_types import require_tensors
from ember.ops.exponentials import floating, sigmoid
from ember.ops.rounding import round_
from ember.scalar import primitives as p
from ember.scalar.expr import Expr
from ember.scalar.primitives import where

API = FUNCTION | METHOD | INPLACE | OUT
ONLY = SPECIAL | OUT


def _special(
    name: str, doc: str, primitive: str = "", names: tuple[str, ...] = (), export: int = ONLY
) -> Any:
    return floating(name, doc, primitive, names, FLOATING, export)


def _in_special(op: Any, *names: str) -> None:
    """The op under other names in torch.special."""
    for name in names:
        NAMESPACES["special"][name] = op


# error functions and the normal distribution

erf = _special("erf", "2/√π ∫₀ˣ exp(-t²) dt.", export=API | SPECIAL)
erfc = _special("erfc", "1 - erf(input), exact where it is small.", export=API | SPECIAL)
erfinv = _special("erfinv", "The inverse of erf.", export=API | SPECIAL)
erfcx = _special("erfcx", "exp(x²) · erfc(x).")
ndtr = _special("ndtr", "The area under the standard normal density up to x.")
ndtri = _special("ndtri", "The inverse of ndtr.")
log_ndtr = _special("log_ndtr", "log of ndtr, exact in the left tail.")

# gamma functions

lgamma = _special("lgamma", "log |Γ(input)|.", export=API)
digamma = _special("digamma", "The derivative of lgamma.", export=API | SPECIAL)
_in_special(lgamma, "gammaln")
_in_special(digamma, "psi")
_in_special(sigmoid, "expit")
_in_special(round_, "round")


@elementwise(promote=floats, accepts=FLOATING, literals={"n": tuple(range(64))}, name="polygamma")
def polygamma_of(n: Any, input: Any) -> Any:
    """The n-th derivative of digamma."""
    return p.polygamma(n, input) if isinstance(n, Expr) or n else p.digamma(input)


def _check_order(n: Any) -> None:
    check(n >= 0, RuntimeError, "polygamma(n, x) does not support negative n.")


@composite(FUNCTION | SPECIAL | OUT)
def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of digamma at `input`."""
    _check_order(n)
    return polygamma_of(n, input)


@composite(METHOD | INPLACE, name="polygamma")
def polygamma_method(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma at the elements."""
    return polygamma(n, self)


@composite(API, names=())
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """log of the p-variate gamma function: p(p-1)/4 · log π + Σ lgamma(x - i/2)."""
    check(p >= 1, RuntimeError, "p has to be greater than or equal to 1")
    total = lgamma(input)
    for i in range(1, p):
        total = total + lgamma(input - i / 2)
    return total + p * (p - 1) / 4 * math.log(math.pi)


_in_special(mvlgamma, "multigammaln")


@elementwise(API, promote=floats, accepts=FLOATING)
def igamma(input: Any, other: Any) -> Any:
    """The lower regularised incomplete gamma function P(input, other)."""
    return p.igamma(input, other)


@elementwise(API, promote=floats, accepts=FLOATING)
def igammac(input: Any, other: Any) -> Any:
    """The upper regularised incomplete gamma function Q(input, other)."""
    return p.igammac(input, other)


require_tensors((igamma, igammac), 2)
_in_special(igamma, "gammainc")
_in_special(igammac, "gammaincc")


@elementwise(ONLY, promote=floats, accepts=FLOATING)
def zeta(input: Any, other: Any) -> Any:
    """Hurwitz's zeta function: Σ 1 / (k + other)^input over k >= 0."""
    return p.zeta(input, other)


# logarithms


@elementwise(API | SPECIAL, promote=floats, accepts=FLOATING)
def logit(input: Any, eps: Any = None) -> Any:
    """log(x / (1 - x)), with x first held between eps and 1 - eps."""
    x = input if eps is None else p.minimum(p.maximum(input, eps), 1 - eps)
    return p.log(x / (1 - x))


def _logit_gradient(g: Any, input: Any, eps: Any) -> tuple[Any, ...]:
    slope = g / (input * (1 - input))
    low, high = (0, 1) if eps is None else (eps, 1 - eps)
    return (
        where(
            p.logical_or(p.lt(input, low), p.gt(input, high)), math.nan if eps is None else 0, slope
        ),
    )


logit.grad = _logit_gradient


@elementwise(API | SPECIAL, promote=floats, accepts=FLOATING)
def xlogy(input: Any, other: Any) -> Any:
    """input · log(other); 0 where input is 0, NaN where other is."""
    return where(p.isnan(other), math.nan, where(p.eq(input, 0), 0, input * p.log(other)))


xlogy.grad = lambda g, input, other: (
    where(
        p.logical_or(p.eq(g, 0), p.logical_and(p.eq(input, 0), p.le(other, 0))),
        where(p.isnan(other), math.nan, 0),
        g * p.log(other),
    ),
    g * input / other,
)


@elementwise(ONLY, promote=floats, accepts=FLOATING)
def xlog1py(input: Any, other: Any) -> Any:
    """input · log(1 + other); 0 where input is 0, NaN where other is."""
    return where(p.isnan(other), math.nan, where(p.eq(input, 0), 0, input * p.log1p(other)))


xlog1py.grad = lambda g, input, other: (
    g * where(p.logical_and(p.eq(input, 0), p.le(other, -1)), 0, p.log1p(other)),
    g * input / (other + 1),
)


@elementwise(ONLY, promote=floats, accepts=FLOATING)
def entr(input: Any) -> Any:
    """-x · log(x); 0 at 0, -inf below."""
    return where(
        p.isnan(input),
        input,
        where(p.gt(input, 0), -input * p.log(input), where(p.eq(input, 0), 0, -math.inf)),
    )


entr.grad = lambda g, input: (g * (-p.log(input) - 1),)

# Bessel and Airy functions

i0 = _special(
    "i0", "The modified Bessel function of the first kind, order 0.", export=API | SPECIAL
)
i0e = _special("i0e", "i0 times exp(-|x|).")
i1 = _special("i1", "The modified Bessel function of the first kind, order 1.")
i1e = _special("i1e", "i1 times exp(-|x|).")
for _order in "01":
    _kind = f"of order {_order}."
    _special(f"bessel_j{_order}", f"The Bessel function of the first kind {_kind}")
    _special(f"bessel_y{_order}", f"The Bessel function of the second kind {_kind}")
    _special(
        f"modified_bessel_i{_order}",
        f"The modified Bessel function of the first kind {_kind}",
        f"i{_order}",
    )
    _special(
        f"modified_bessel_k{_order}",
        f"The modified Bessel function of the second kind {_kind}",
        f"bessel_k{_order}",
    )
    _special(
        f"scaled_modified_bessel_k{_order}",
        f"exp(x) times the modified Bessel function of the second kind {_kind}",
        f"bessel_k{_order}e",
    )
_special("spherical_bessel_j0", "sin(x) / x; 1 at 0.", "spherical_j0")
_special("airy_ai", "The Airy function Ai.")

# orthogonal polynomials


def _polynomial(name: str, function: Any, shifted: bool = False) -> None:
    def formula(input: Any, n: Any) -> Any:
        return function(2 * input - 1 if shifted else input, n)

    formula.__name__ = name
    formula.__doc__ = f"The {name.replace('_', ' ')} of degree n at `input`; 0 for n < 0."
    elementwise(ONLY, promote=floats, accepts=FLOATING)(formula)


for _letter, _function in (
    ("t", p.chebyshev_t), ("u", p.chebyshev_u), ("v", p.chebyshev_v), ("w", p.chebyshev_w),
):  # fmt: skip
    _polynomial(f"chebyshev_polynomial_{_letter}", _function)
    _polynomial(f"shifted_chebyshev_polynomial_{_letter}", _function, shifted=True)
for _name, _function in (
    ("hermite_polynomial_h", p.hermite_h),
    ("hermite_polynomial_he", p.hermite_he),
    ("laguerre_polynomial_l", p.laguerre_l),
    ("legendre_polynomial_p", p.legendre_p),
):
    _polynomial(_name, _function)
