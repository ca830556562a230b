"""The primitives: what each computes with NumPy, its C name, and its partial derivatives.

A row: result type, NumPy function, C text, partials. A partial is a function of the arguments and
the result `y` returning one expression an argument, or None where the derivative is zero everywhere
it exists.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ember.scalar import polynomials, special_functions
from ember.scalar.expr import Expr, as_expr, make

Partials = Callable[..., tuple[Any, ...]]


class Primitive(NamedTuple):
    """One primitive of the scalar language."""

    name: str
    function: Any  # a NumPy ufunc, or the name of one in scipy.special
    result: str  # "same" as the arguments, "bool", or "real" (part of a complex)
    c: str  # C text with {0}, {1} for the arguments
    partials: Partials | None


TABLE: dict[str, Primitive] = {}


def _row(
    name: str, function: Any, c: str, partials: Partials | None = None, result: str = "same"
) -> None:
    TABLE[name] = Primitive(name, function, result, c, partials)


def where(condition: Any, a: Any, b: Any) -> Expr:
    """`a` where the condition holds, else `b`."""
    return make("where", condition, a, b)


def _function(name: str) -> Callable[..., Expr]:
    def apply(*args: Any) -> Expr:
        return make(name, *args)

    apply.__name__ = name
    apply.__doc__ = f"The primitive `{name}`."
    return apply


Maker = Callable[..., Expr]
lt: Maker
le: Maker
gt: Maker
ge: Maker
eq: Maker
ne: Maker
logical_and: Maker
logical_or: Maker
logical_not: Maker
logical_xor: Maker
isnan: Maker
isinf: Maker
isfinite: Maker
lt, le, gt, ge, eq, ne = map(_function, ("lt", "le", "gt", "ge", "eq", "ne"))
logical_and, logical_or, logical_not, logical_xor = map(
    _function, ("logical_and", "logical_or", "logical_not", "logical_xor")
)
isnan, isinf, isfinite = map(_function, ("isnan", "isinf", "isfinite"))


def _fix_round(x: Any) -> Any:
    return np.positive(x) if _is_integral(x) else np.rint(x)  # rint makes floats of integers


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _sgn(x: Any) -> Any:
    kind = np.asarray(x).dtype.kind
    if kind == "b":
        return np.asarray(x)
    if kind == "c":
        return np.where(np.equal(x, 0), x.dtype.type(0), x / np.abs(x))
    sign = np.sign(x)
    return sign if kind in "iu" else np.where(sign == sign, sign, sign.dtype.type(0))


def _is_integral(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "iub"


def _power(x: Any, n: Any) -> Any:
    """x to the power n; for integers with n < 0 the integer part of 1 / x^-n, where NumPy
    raises."""
    if np.iscomplexobj(x) and isinstance(n, np.ndarray):
        undefined = np.equal(x, 0) & np.equal(n, 0)  # as exp(n · log x)
        return np.where(undefined, x.dtype.type(complex(np.nan, np.nan)), np.power(x, n))
    if not _is_integral(n) or not np.any(np.less(n, 0)):
        return np.power(x, n)
    inverse = np.where(np.equal(x, 1), 1, np.where(np.equal(x, -1), 1 - 2 * (n & 1), 0))
    return np.where(np.less(n, 0), inverse, np.power(x, np.maximum(n, 0)))


def _dividing(function: Any) -> Any:
    """A quotient or remainder for which integers divided by zero are an error, as on every CPU."""

    def apply(x: Any, y: Any) -> Any:
        if _is_integral(y) and not np.all(y):
            raise RuntimeError("ZeroDivisionError: an integer was divided by zero")
        return function(x, y)

    return apply


def _truncated(x: Any, y: Any) -> Any:
    if not _is_integral(y):
        return np.trunc(x / y)
    return (x - np.fmod(x, y)) // y


def _floored(x: Any, y: Any) -> Any:
    """floor(x / y) from the exact remainder; x / y itself where y is 0."""
    if _is_integral(y):
        return np.floor_divide(x, y)
    return np.where(np.equal(y, 0), x / y, np.floor_divide(x, y))


def _signbit(x: Any) -> Any:
    return np.less(x, 0) if _is_integral(x) else np.signbit(x)


def _exponent(x: Any) -> Any:
    return np.frexp(x)[1]


def _angle(z: Any) -> Any:
    """np.angle with 0 for -0.0."""
    if np.iscomplexobj(z):
        return np.angle(z)
    return np.where(np.isnan(z), z, np.where(np.less(z, 0), np.pi, 0)).astype(z.dtype)


def _turn(z: Any) -> Any:
    """The direction in which a complex number's angle grows, over its magnitude: i z / |z|²; 0 for
    real ones."""
    return 1j * z / (z.real**2 + z.imag**2) if np.iscomplexobj(z) else z * 0


def _shift_left(x: Any, n: Any) -> Any:
    bits = np.asarray(x).dtype.itemsize * 8
    return np.where((n >= 0) & (n < bits), np.left_shift(x, np.clip(n, 0, bits - 1)), 0)


def _shift_right(x: Any, n: Any) -> Any:
    bits = np.asarray(x).dtype.itemsize * 8
    return np.right_shift(x, np.where((n >= 0) & (n < bits), n, bits - 1))


HALF_SQRT_PI = math.sqrt(math.pi) / 2
TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
LN2, LN10 = math.log(2), math.log(10)

# arithmetic
_row("add", np.add, "({0} + {1})", lambda a, b, y: (1, 1))
_row("sub", np.subtract, "({0} - {1})", lambda a, b, y: (1, -1))
_row("mul", np.multiply, "({0} * {1})", lambda a, b, y: (b, a))
_row("div", np.true_divide, "({0} / {1})", lambda a, b, y: (1 / b, -y / b))
_row("neg", np.negative, "(-{0})", lambda a, y: (-1,))
_row("abs", np.abs, "fabs({0})", lambda a, y: (make("sign", a),), "real")
_row("sign", _sgn, "sign({0})")
_row("floor", np.floor, "floor({0})")
_row("ceil", np.ceil, "ceil({0})")
_row("trunc", np.trunc, "trunc({0})")
_row("round", _fix_round, "rint({0})")
_row("floor_divide", _dividing(_floored), "floor_divide({0}, {1})")
_row("trunc_divide", _dividing(_truncated), "trunc_divide({0}, {1})")
_row(
    "remainder",
    _dividing(np.remainder),
    "remainder({0}, {1})",
    lambda a, b, y: (1, -make("floor", a / b)),
)
_row("fmod", _dividing(np.fmod), "fmod({0}, {1})", lambda a, b, y: (1, -make("trunc", a / b)))
_row(
    "copysign", np.copysign, "copysign({0}, {1})", lambda a, b, y: (where(eq(a, 0), 0, y / a), None)
)
_row("hypot", np.hypot, "hypot({0}, {1})", lambda a, b, y: (a / y, b / y))
_row("exponent", _exponent, "exponent({0})")
_row("ldexp", lambda x, n: np.ldexp(x, n.astype(np.int32)), "ldexp({0}, {1})")
_row("nextafter", np.nextafter, "nextafter({0}, {1})")
_row("signbit", _signbit, "signbit({0})", None, "bool")


def _pow_partials(a: Expr, b: Expr, y: Expr) -> tuple[Any, ...]:
    by_base = where(eq(b, 0), 0, b * make("pow", a, b - 1))
    by_exponent = where(logical_and(eq(a, 0), ge(b, 0)), 0, y * make("log", a))
    return by_base, by_exponent


_row("pow", _power, "pow({0}, {1})", _pow_partials)
_row("sqrt", np.sqrt, "sqrt({0})", lambda a, y: (0.5 / y,))
_row("rsqrt", _rsqrt, "rsqrt({0})", lambda a, y: (-0.5 * y * y * y,))
_row("reciprocal", np.reciprocal, "(1 / {0})", lambda a, y: (-(y * y),))

# exponentials
_row("exp", np.exp, "exp({0})", lambda a, y: (y,))
_row("exp2", np.exp2, "exp2({0})", lambda a, y: (y * LN2,))
_row("expm1", np.expm1, "expm1({0})", lambda a, y: (y + 1,))
_row("log", np.log, "log({0})", lambda a, y: (1 / a,))
_row("log2", np.log2, "log2({0})", lambda a, y: (1 / (a * LN2),))
_row("log10", np.log10, "log10({0})", lambda a, y: (1 / (a * LN10),))
_row("log1p", np.log1p, "log1p({0})", lambda a, y: (1 / (a + 1),))
_row("sigmoid", _sigmoid, "sigmoid({0})", lambda a, y: ((1 - y) * y,))

# trigonometry
_row("sin", np.sin, "sin({0})", lambda a, y: (make("cos", a),))
_row("cos", np.cos, "cos({0})", lambda a, y: (-make("sin", a),))
_row("tan", np.tan, "tan({0})", lambda a, y: (1 + y * y,))
_row("asin", np.arcsin, "asin({0})", lambda a, y: (make("rsqrt", 1 - a * a),))
_row("acos", np.arccos, "acos({0})", lambda a, y: (-make("rsqrt", 1 - a * a),))
_row("atan", np.arctan, "atan({0})", lambda a, y: (1 / (a * a + 1),))
_row(
    "atan2",
    np.arctan2,
    "atan2({0}, {1})",
    lambda a, b, y: (b / (a * a + b * b), -a / (a * a + b * b)),
)
_row("sinh", np.sinh, "sinh({0})", lambda a, y: (make("cosh", a),))
_row("cosh", np.cosh, "cosh({0})", lambda a, y: (make("sinh", a),))
_row("tanh", np.tanh, "tanh({0})", lambda a, y: (1 - y * y,))
_row("asinh", np.arcsinh, "asinh({0})", lambda a, y: (make("rsqrt", a * a + 1),))
_row("acosh", np.arccosh, "acosh({0})", lambda a, y: (make("rsqrt", a - 1) * make("rsqrt", a + 1),))
_row("atanh", np.arctanh, "atanh({0})", lambda a, y: (1 / (1 - a * a),))

# special functions (scipy.special, by name: loaded at first use)
_row("erf", "erf", "erf({0})", lambda a, y: (TWO_OVER_SQRT_PI * make("exp", -(a * a)),))
_row("erfc", "erfc", "erfc({0})", lambda a, y: (-TWO_OVER_SQRT_PI * make("exp", -(a * a)),))
_row("erfinv", "erfinv", "erfinv({0})", lambda a, y: (HALF_SQRT_PI * make("exp", y * y),))
_row("erfcx", "erfcx", "erfcx({0})", lambda a, y: (2 * a * y - TWO_OVER_SQRT_PI,))
_row("lgamma", special_functions.lgamma, "lgamma({0})", lambda a, y: (make("digamma", a),))
_row("digamma", "psi", "digamma({0})", lambda a, y: (make("polygamma", 1, a),))
_row(
    "polygamma",
    special_functions.polygamma,
    "polygamma({0}, {1})",
    lambda n, a, y: (None, make("polygamma", n + 1, a)),
)
_row(
    "zeta",
    special_functions.zeta,
    "zeta({0}, {1})",
    lambda s, q, y: (None, -s * make("zeta", s + 1, q)),
)
_row("i0", "i0", "i0({0})", lambda a, y: (make("i1", a),))
_row("i0e", "i0e", "i0e({0})", lambda a, y: (make("i1e", a) - make("sign", a) * y,))
_row("i1", "i1", "i1({0})", lambda a, y: (where(eq(a, 0), 0.5, make("i0", a) - y / a),))
_row(
    "i1e",
    "i1e",
    "i1e({0})",
    lambda a, y: (where(eq(a, 0), 0.5, make("i0e", a) - y * (make("sign", a) + 1 / a)),),
)
_row(
    "ndtr",
    "ndtr",
    "ndtr({0})",
    lambda a, y: (make("exp", -0.5 * (a * a)) / math.sqrt(2 * math.pi),),
)
_row(
    "ndtri",
    "ndtri",
    "ndtri({0})",
    lambda a, y: (math.sqrt(2 * math.pi) * make("exp", 0.5 * (y * y)),),
)
_row(
    "log_ndtr",
    "log_ndtr",
    "log_ndtr({0})",
    lambda a, y: (make("exp", -0.5 * (a * a) - y) / math.sqrt(2 * math.pi),),
)
_row(
    "igamma",
    special_functions.igamma,
    "igamma({0}, {1})",
    lambda s, x, y: (None, _gamma_density(s, x)),
)
_row(
    "igammac",
    special_functions.igammac,
    "igammac({0}, {1})",
    lambda s, x, y: (None, -_gamma_density(s, x)),
)
for _name in ("j0", "j1", "y0", "y1", "k0", "k0e", "k1", "k1e"):
    _row(f"bessel_{_name}", _name, f"{_name}({{0}})")
_row("spherical_j0", special_functions.spherical_j0, "spherical_j0({0})")
_row("airy_ai", special_functions.airy_ai, "airy_ai({0})")
for _name in (
    "chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w",
    "hermite_h", "hermite_he", "laguerre_l", "legendre_p",
):  # fmt: skip
    _row(_name, getattr(polynomials, _name), f"{_name}({{0}}, {{1}})")

# choices
_row("maximum", np.maximum, "max_nan({0}, {1})", lambda a, b, y: _share(gt(a, b), a, b))
_row("minimum", np.minimum, "min_nan({0}, {1})", lambda a, b, y: _share(lt(a, b), a, b))
_row("fmax", np.fmax, "fmax({0}, {1})", lambda a, b, y: _keep(ge(a, b) | isnan(b)))
_row("fmin", np.fmin, "fmin({0}, {1})", lambda a, b, y: _keep(le(a, b) | isnan(b)))
_row("where", np.where, "({0} ? {1} : {2})")
_row("stop", None, "{0}")

# comparison and logic
for _name, _numpy, _c in (
    ("lt", np.less, "<"),
    ("le", np.less_equal, "<="),
    ("gt", np.greater, ">"),
    ("ge", np.greater_equal, ">="),
    ("eq", np.equal, "=="),
    ("ne", np.not_equal, "!="),
    ("logical_and", np.logical_and, "&&"),
    ("logical_or", np.logical_or, "||"),
    ("logical_xor", np.logical_xor, "!= 0 ^ 0 !="),
):
    _row(_name, _numpy, f"({{0}} {_c} {{1}})", None, "bool")
_row("logical_not", np.logical_not, "(!{0})", None, "bool")
_row("isnan", np.isnan, "isnan({0})", None, "bool")
_row("isinf", np.isinf, "isinf({0})", None, "bool")
_row("isfinite", np.isfinite, "isfinite({0})", None, "bool")
_row("bitwise_and", np.bitwise_and, "({0} & {1})")
_row("bitwise_or", np.bitwise_or, "({0} | {1})")
_row("bitwise_xor", np.bitwise_xor, "({0} ^ {1})")
_row("bitwise_not", np.invert, "(~{0})")
_row("shift_left", _shift_left, "({0} << {1})")
_row("shift_right", _shift_right, "({0} >> {1})")
_row("gcd", np.gcd, "gcd({0}, {1})")
_row("lcm", np.lcm, "lcm({0}, {1})")

# complex numbers; not holomorphic, so ops over them bring their own gradient
_row("real", np.real, "{0}.x", None, "real")
_row("imag", np.imag, "{0}.y", None, "real")
_row("conj", np.conjugate, "conj({0})", lambda a, y: (None,))
_row("angle", _angle, "angle({0})", None, "real")
_row("turn", _turn, "turn({0})")


def _share(wins: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Partials of a maximum or minimum: half to each of two equal arguments."""
    tie = eq(a, b)
    return where(tie, 0.5, where(wins, 1, 0)), where(tie, 0.5, where(wins, 0, 1))


def _keep(first: Expr) -> tuple[Expr, Expr]:
    return where(first, 1, 0), where(first, 0, 1)


def _gamma_density(s: Expr, x: Expr) -> Expr:
    return make("exp", make("log", x) * (s - 1) - x - make("lgamma", s))


# row programs: values shared by the elements of one row
ROW_REDUCTIONS = {"row_sum": np.add, "row_max": np.maximum, "row_min": np.minimum}


def row_sum(e: Any) -> Expr:
    """The sum of `e` over the row."""
    return make("row_sum", e)


def row_max(e: Any) -> Expr:
    """The greatest `e` of the row (NaN if there is one)."""
    return make("row_max", e)


def row_size() -> Expr:
    """The number of elements of the row."""
    return make("row_size")


def row_mean(e: Any) -> Expr:
    """The mean of `e` over the row."""
    return row_sum(e) / row_size()


def stop(e: Any) -> Expr:
    """`e`, which derivatives treat as a constant."""
    return make("stop", e)


def __getattr__(name: str) -> Callable[..., Expr]:
    if name in TABLE:
        return _function(name)
    raise AttributeError(
        f"the scalar language has no primitive {name!r}; it has {', '.join(sorted(TABLE))}"
    )


__all__ = [
    "TABLE",
    "Primitive",
    "as_expr",
    "row_max",
    "row_mean",
    "row_size",
    "row_sum",
    "stop",
    "where",
]
