"""Elementwise ops, each as its formula."""

from __future__ import annotations

import math
from typing import Any

from ember import dtypes
from ember.core.formula import common, compares, floats, real_part
from ember.core.registry import F, F_INPLACE, FUNCTION, INPLACE, METHOD, OUT, SPECIAL, elementwise
from ember.dtypes import ANY, COMPLEX_TYPES, FLOATING, INEXACT, INTEGERS, REAL
from ember.errors import check
from ember.scalar import primitives as p
from ember.scalar.expr import Expr
from ember.scalar.primitives import where

API = FUNCTION | METHOD | INPLACE | OUT
PLAIN = FUNCTION | METHOD | OUT
BOOL = frozenset({dtypes.bool_})
NO_BOOL_MINUS = (
    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the "
    "`~` or `logical_not()` operator instead."
)
NO_BOOL_NEGATIVE = (
    "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` "
    "or `logical_not()` operator instead."
)
SQRT_HALF = math.sqrt(0.5)
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)

# arithmetic


@elementwise(API)
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input + alpha · other."""
    return input + alpha * other


@elementwise(API, names=("subtract",), accepts=ANY - BOOL, refusal=NO_BOOL_MINUS)
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input - alpha · other."""
    return input - alpha * other


@elementwise(PLAIN, accepts=ANY - BOOL, refusal=NO_BOOL_MINUS)
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """other - alpha · input."""
    return other - alpha * input


@elementwise(API, names=("multiply",))
def mul(input: Any, other: Any) -> Any:
    """input · other."""
    return input * other


@elementwise(promote=floats)
def true_divide(input: Any, other: Any) -> Any:
    """input / other; integers become floats."""
    return input / other


@elementwise(FUNCTION | METHOD | INPLACE | OUT, accepts=ANY - COMPLEX_TYPES)
def floor_divide(input: Any, other: Any) -> Any:
    """floor(input / other)."""
    return p.floor_divide(input, other)


@elementwise(accepts=REAL)
def trunc_divide(input: Any, other: Any) -> Any:
    """input / other, rounded towards zero."""
    return p.trunc(input / other)


@elementwise(API, accepts=ANY - COMPLEX_TYPES)
def remainder(input: Any, other: Any) -> Any:
    """input - other · floor(input / other): the sign of `other`."""
    return p.remainder(input, other)


@elementwise(API, accepts=REAL)
def fmod(input: Any, other: Any) -> Any:
    """input - other · trunc(input / other): the sign of `input`."""
    return p.fmod(input, other)


@elementwise(API, names=("negative",), accepts=ANY - BOOL, refusal=NO_BOOL_NEGATIVE)
def neg(input: Any) -> Any:
    """-input."""
    return -input


@elementwise(PLAIN)
def positive(input: Any) -> Any:
    """+input."""
    return input


@elementwise(API, names=("absolute",), promote=real_part, name="abs", accepts=ANY - BOOL)
def abs_(input: Any) -> Any:
    """|input|."""
    return p.abs(input)


abs_.grad = lambda g, input: (g * p.sign(input),)


@elementwise(API, accepts=ANY - COMPLEX_TYPES)
def sign(input: Any) -> Any:
    """-1, 0 or 1 (NaN stays)."""
    return p.sign(input)


@elementwise(API)
def sgn(input: Any) -> Any:
    """input / |input|; 0 for 0."""
    return p.sign(input)


@elementwise(API, promote=floats)
def reciprocal(input: Any) -> Any:
    """1 / input."""
    return 1 / input


@elementwise(API)
def square(input: Any) -> Any:
    """input²."""
    return input * input


POWERS = (0, 0.5, 1, 2, 3, 4, -0.5, -1, -2, 1.0, 2.0, 3.0, -1.0, -2.0)


@elementwise(literals={"exponent": POWERS}, name="pow")
def power(input: Any, exponent: Any) -> Any:
    """input to the power `exponent`."""
    if not isinstance(exponent, Expr):
        return _literal_power(input, exponent)
    return p.pow(input, exponent)


def _literal_power(input: Any, exponent: Any) -> Any:
    if exponent == 0.5:
        return p.sqrt(input)
    if exponent == -0.5:
        return p.rsqrt(input)
    if exponent == 3:
        return input * input * input
    if exponent == -1:
        return 1 / input
    if exponent == -2:
        return 1 / (input * input)
    return p.pow(input, exponent)


# rounding


def _rounding(name: str, doc: str) -> Any:
    def formula(input: Any) -> Any:
        return getattr(p, name)(input)

    formula.__name__, formula.__doc__ = name, doc
    return elementwise(API, accepts=ANY - COMPLEX_TYPES - BOOL)(formula)


floor = _rounding("floor", "The greatest integer not above input.")
ceil = _rounding("ceil", "The least integer not below input.")
trunc = _rounding("trunc", "input without its fraction.")
OPS_FIX = elementwise(API, accepts=ANY - COMPLEX_TYPES - BOOL, name="fix")(lambda input: p.trunc(input))


@elementwise(API, accepts=FLOATING)
def frac(input: Any) -> Any:
    """input - trunc(input)."""
    return input - p.trunc(input)


# exponentials, trigonometry, special functions


def _floating(name: str, doc: str, primitive: str = "", names: tuple[str, ...] = (), accepts: Any = INEXACT, export: int = API) -> Any:
    def formula(input: Any) -> Any:
        return getattr(p, primitive or name)(input)

    formula.__name__, formula.__doc__ = name, doc
    return elementwise(export, names=names, promote=floats, accepts=accepts)(formula)


exp = _floating("exp", "e to the power input.")
exp2 = _floating("exp2", "2 to the power input.", export=API | SPECIAL)
expm1 = _floating("expm1", "exp(input) - 1, exact near 0.", export=API | SPECIAL)
log = _floating("log", "The natural logarithm.")
log2 = _floating("log2", "The logarithm to base 2.")
log10 = _floating("log10", "The logarithm to base 10.")
log1p = _floating("log1p", "log(1 + input), exact near 0.", export=API | SPECIAL)
sqrt = _floating("sqrt", "The square root.")
rsqrt = _floating("rsqrt", "1 / sqrt(input).")
sin = _floating("sin", "The sine of an angle in radians.")
cos = _floating("cos", "The cosine of an angle in radians.")
tan = _floating("tan", "The tangent of an angle in radians.")
asin = _floating("asin", "The inverse of sine.", names=("arcsin",))
acos = _floating("acos", "The inverse of cosine.", names=("arccos",))
atan = _floating("atan", "The inverse of tangent.", names=("arctan",))
sinh = _floating("sinh", "The hyperbolic sine.")
cosh = _floating("cosh", "The hyperbolic cosine.")
asinh = _floating("asinh", "The inverse of sinh.", names=("arcsinh",))
acosh = _floating("acosh", "The inverse of cosh.", names=("arccosh",))
atanh = _floating("atanh", "The inverse of tanh.", names=("arctanh",))
tanh = _floating("tanh", "The hyperbolic tangent.", export=API | F)
sigmoid = _floating("sigmoid", "1 / (1 + exp(-input)).", export=API | F)
erf = _floating("erf", "2/√π ∫₀ˣ exp(-t²) dt.", accepts=FLOATING, export=API | SPECIAL)
erfc = _floating("erfc", "1 - erf(input), exact where it is small.", accepts=FLOATING, export=API | SPECIAL)
erfinv = _floating("erfinv", "The inverse of erf.", accepts=FLOATING, export=API | SPECIAL)
lgamma = _floating("lgamma", "log |Γ(input)|.", accepts=FLOATING)
digamma = _floating("digamma", "The derivative of lgamma.", accepts=FLOATING, names=(), export=API | SPECIAL)


@elementwise(API, names=("arctan2",), promote=floats, accepts=FLOATING)
def atan2(input: Any, other: Any) -> Any:
    """The angle of the point (other, input)."""
    return p.atan2(input, other)


@elementwise(API, promote=floats, accepts=FLOATING)
def hypot(input: Any, other: Any) -> Any:
    """sqrt(input² + other²)."""
    return p.sqrt(input * input + other * other)


@elementwise(PLAIN, promote=floats, accepts=FLOATING)
def logaddexp(input: Any, other: Any) -> Any:
    """log(exp(input) + exp(other)), without overflow."""
    high, low = p.maximum(input, other), p.minimum(input, other)
    return where(p.isinf(input) & p.eq(input, other), input, high + p.log1p(p.exp(low - high)))


# comparisons and logic


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


def _bitwise(name: str, doc: str) -> Any:
    def formula(input: Any, other: Any) -> Any:
        return getattr(p, name)(input, other)

    formula.__name__, formula.__doc__ = name, doc
    return elementwise(API, accepts=INTEGERS | BOOL)(formula)


bitwise_and = _bitwise("bitwise_and", "The bits set in both.")
bitwise_or = _bitwise("bitwise_or", "The bits set in one or both.")
bitwise_xor = _bitwise("bitwise_xor", "The bits set in just one.")


@elementwise(API, accepts=INTEGERS | BOOL)
def bitwise_not(input: Any) -> Any:
    """Every bit flipped; logical not for bools."""
    return p.bitwise_not(input)


@elementwise(API, accepts=INTEGERS)
def bitwise_left_shift(input: Any, other: Any) -> Any:
    """input · 2 to the power other, as bits."""
    return p.shift_left(input, other)


@elementwise(API, accepts=INTEGERS)
def bitwise_right_shift(input: Any, other: Any) -> Any:
    """input shifted right by `other` bits."""
    return p.shift_right(input, other)


@elementwise(FUNCTION | METHOD, promote=compares)
def isnan(input: Any) -> Any:
    """Whether the element is not a number."""
    return p.ne(input, input)


# choices


@elementwise(keeps=("condition",), name="where")
def where_(condition: Any, input: Any, other: Any) -> Any:
    """input where the condition holds, else other."""
    return where(condition, input, other)


@elementwise(PLAIN, accepts=ANY - COMPLEX_TYPES)
def maximum(input: Any, other: Any) -> Any:
    """The greater of two; NaN if one is."""
    return p.maximum(input, other)


@elementwise(PLAIN, accepts=ANY - COMPLEX_TYPES)
def minimum(input: Any, other: Any) -> Any:
    """The smaller of two; NaN if one is."""
    return p.minimum(input, other)


@elementwise(PLAIN, accepts=ANY - COMPLEX_TYPES)
def fmax(input: Any, other: Any) -> Any:
    """The greater of two; the number where one is NaN."""
    return p.fmax(input, other)


@elementwise(PLAIN, accepts=ANY - COMPLEX_TYPES)
def fmin(input: Any, other: Any) -> Any:
    """The smaller of two; the number where one is NaN."""
    return p.fmin(input, other)


@elementwise(API, names=("clip",), accepts=ANY - COMPLEX_TYPES)
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """input held between min and max (either may be None); NaN stays."""
    check(
        min is not None or max is not None,
        RuntimeError,
        "torch.clamp: At least one of 'min' or 'max' must not be None",
    )
    value = input
    if min is not None:
        value = p.maximum(value, min)
    if max is not None:
        value = p.minimum(value, max)
    return value


def _clamp_gradient(g: Any, input: Any, min: Any, max: Any) -> tuple[Any, ...]:
    """A bound itself counts as inside; a tensor bound gets the gradient where it holds."""
    inside = g
    if min is not None:
        inside = where(p.ge(input, min), inside, 0)
    if max is not None:
        inside = where(p.le(input, max), inside, 0)
    by_max = None if max is None else where(p.gt(input, max), g, 0)
    if min is None:
        return inside, None, by_max
    below = p.lt(input, min)
    if max is not None:
        below = p.logical_and(below, p.lt(min, max))
        by_max = where(p.logical_or(p.gt(input, max), p.lt(max, min)), g, 0)
    return inside, where(below, g, 0), by_max


clamp.grad = _clamp_gradient


# activations

ACTIVATION = F | F_INPLACE


@elementwise(FUNCTION | METHOD | INPLACE, accepts=REAL)
def relu(input: Any) -> Any:
    """max(input, 0); NaN stays, the slope at 0 is 0."""
    return where(p.le(input, 0), 0, input)


relu.grad = lambda g, result: (where(p.le(result, 0), 0, g),)


@elementwise(accepts=FLOATING)
def gelu(input: Any, approximate: str = "none") -> Any:
    """x·Φ(x), with Φ the normal CDF; "tanh" takes its tanh fit. Hendrycks and Gimpel 2016."""
    if approximate == "tanh":
        inner = SQRT_2_OVER_PI * (input + 0.044715 * (input * input * input))
        return 0.5 * input * (1 + p.tanh(inner))
    check(approximate == "none", RuntimeError, f"approximate argument must be either none or tanh, got {approximate!r}")
    return input * 0.5 * (1 + p.erf(input * SQRT_HALF))


@elementwise(accepts=INEXACT)
def silu(input: Any) -> Any:
    """x · sigmoid(x)."""
    return input * p.sigmoid(input)


@elementwise(F, accepts=FLOATING)
def logsigmoid(input: Any) -> Any:
    """log(sigmoid(x)), without overflow."""
    return p.minimum(input, 0) - p.log1p(p.exp(-p.abs(input)))


logsigmoid.grad = lambda g, input: (g * p.sigmoid(-input),)


@elementwise(accepts=FLOATING)
def softplus(input: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    """log(1 + exp(beta·x)) / beta; x itself where beta·x exceeds the threshold."""
    scaled = input * beta
    return where(p.gt(scaled, threshold), input, p.log1p(p.exp(scaled)) / beta)


@elementwise(accepts=FLOATING)
def elu(input: Any, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Any:
    """x where x > 0, else alpha · (exp(x) - 1)."""
    return where(p.gt(input, 0), input * scale, scale * alpha * p.expm1(input * input_scale))


@elementwise(accepts=FLOATING)
def leaky_relu(input: Any, negative_slope: Any = 0.01) -> Any:
    """x where x > 0, else negative_slope · x."""
    return where(p.gt(input, 0), input, negative_slope * input)


@elementwise(accepts=REAL)
def hardtanh(input: Any, min_val: Any = -1.0, max_val: Any = 1.0) -> Any:
    """x held between two bounds; the slope at a bound is 0."""
    return where(p.le(input, min_val), min_val, where(p.ge(input, max_val), max_val, input))


@elementwise(accepts=FLOATING)
def hardsigmoid(input: Any) -> Any:
    """x/6 + 1/2 held between 0 and 1."""
    return where(p.le(input, -3), 0, where(p.ge(input, 3), 1, (input + 3) / 6))


@elementwise(accepts=FLOATING)
def hardswish(input: Any) -> Any:
    """x · hardsigmoid(x). Howard et al. 2019."""
    return where(p.le(input, -3), 0, where(p.ge(input, 3), input, input * (input + 3) / 6))


@elementwise(accepts=FLOATING)
def mish(input: Any) -> Any:
    """x · tanh(softplus(x)). Misra 2019."""
    soft = where(p.gt(input, 20), input, p.log1p(p.exp(input)))
    return input * p.tanh(soft)


@elementwise(F, accepts=FLOATING)
def hardshrink(input: Any, lambd: Any = 0.5) -> Any:
    """x where |x| > lambd, else 0."""
    return where(p.ge(input, -lambd) & p.le(input, lambd), 0, input)


@elementwise(F, accepts=FLOATING)
def softshrink(input: Any, lambd: Any = 0.5) -> Any:
    """x moved by lambd towards 0, and 0 between."""
    return where(p.gt(input, lambd), input - lambd, where(p.lt(input, -lambd), input + lambd, input * 0))


@elementwise(F, accepts=ANY - BOOL)
def softsign(input: Any) -> Any:
    """x / (1 + |x|)."""
    return input / (p.abs(input) + 1)


@elementwise(F, accepts=ANY - BOOL)
def tanhshrink(input: Any) -> Any:
    """x - tanh(x)."""
    return input - p.tanh(input)


@elementwise(accepts=REAL, name="threshold")
def threshold_(input: Any, threshold: Any, value: Any) -> Any:
    """x where x > threshold, else value."""
    return where(p.le(input, threshold), value, input)


__all__ = ["common"]
