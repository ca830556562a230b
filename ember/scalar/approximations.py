"""Functions of float32 in vectors: polynomials after a reduction of the argument, since LLVM does
not vectorise the C library's.

Each is within 2 ulp of the exact value over the whole range, with infinities, NaN, signed zeros and
denormals right (docs/accuracy.md has the measured table). The coefficients are minimax fits made by
tools/fit_polynomials.py. Reductions of the argument: W. J. Cody and W. Waite, Software Manual for
the Elementary Functions (1980).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ember.scalar.vectors import Vectors

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = (
    0.693359375,
    -2.12194440054690581e-4,
)  # the first has few bits: n times it is exact
HALF_PI = (1.57079637050628662109375, -4.37113900018624283e-8, -1.71512451e-15)  # its parts, summed
EXP = (0.49999993452, 0.166665206906, 0.0416683873129, 0.00836870975315, 0.00138146155573)
EXPM1 = (
    0.500000004636,
    0.16666666817,
    0.0416663548529,
    0.00833327307552,
    0.00139409939544,
    0.000199141550784,
)
LOG = (
    0.333333105972,
    -0.249999865582,
    0.200022181785,
    -0.166692483256,
    0.142188012192,
    -0.123844565708,
    0.118721374818,
    -0.117889482993,
    0.0691610796336,
)
TANH = (-0.333332839265, 0.133314913127, -0.0537434998676, 0.0206505923516, -0.00571705008397)
ERF = (
    1.12837916591,
    -0.376126271361,
    0.112836001773,
    -0.0268544446437,
    0.0051895354492,
    -0.000802084233173,
    7.88912324642e-5,
)
ERFC = (  # of -log(erfc(x)), for 1 <= x <= 4
    -0.0001937053076,
    1.12960732616,
    0.633156531674,
    0.10849649337,
    -0.0252670077052,
    0.00423236420327,
    -0.000449396609135,
    2.29952801003e-5,
    -9.10319891971e-8,
)
SIN = (-0.166666666415, 0.00833332937414, -0.000198393310022, 2.71827451477e-6)
COS = (0.0416666666227, -0.00138888837381, 2.47995159157e-5, -2.72098947993e-7)


def _power_of_two(b: Vectors, n: str) -> str:
    """2 to the integer n, which must be a normal number's exponent."""
    biased = b.on_bits("add", n, b.integer(127))
    return b.from_bits(b.on_bits("shl", biased, b.integer(23)))


HAS_SCALING = [False]  # whether the processor scales whole vectors, as those of 512 bits do


def _scaled(b: Vectors, x: str, n: str) -> str:
    """x times 2 to the integer n, in two steps so that each power is a normal number, or by an
    instruction of its own."""
    if HAS_SCALING[0] and b.lanes * b.bits == 512:
        name = f"llvm.ldexp.v{b.lanes}f{b.bits}.v{b.lanes}i{b.bits}"
        b.declarations.add(f"declare {b.real} @{name}({b.real}, {b.whole})")
        return b.new(f"call {b.real} @{name}({b.real} {x}, {b.whole} {n})")
    half = b.on_bits("ashr", n, b.integer(1))
    rest = b.on_bits("sub", n, half)
    return b.mul(b.mul(x, _power_of_two(b, half)), _power_of_two(b, rest))


def _reduced(b: Vectors, x: str) -> tuple[str, str]:
    """n and r with x = n ln 2 + r, |r| <= ln 2 / 2."""
    n = b.intrinsic("rint", b.mul(x, b.number(LOG2_E)))
    r = b.fma(n, b.number(-LN2_HIGH), x)
    return n, b.fma(n, b.number(-LN2_LOW), r)


def _safe_integer(b: Vectors, x: str) -> str:
    """A whole number as integer, 0 for NaN."""
    return b.to_integer(b.select(b.unordered(x, x), b.number(0.0), x))


def exp(b: Vectors, x: str) -> str:
    """e to the x: 2^n (1 + r + r² q(r))."""
    clamped = b.at_least(b.at_most(x, 89.0), -105.0)
    n, r = _reduced(b, clamped)
    tail = b.fma(b.mul(r, r), b.polynomial(r, EXP), r)
    return _scaled(b, b.add(tail, b.number(1.0)), _safe_integer(b, n))


def expm1(b: Vectors, x: str) -> str:
    """e to the x, minus 1: 2^n (r + r² q(r)) + (2^n - 1)."""
    clamped = b.at_least(b.at_most(x, 89.0), -25.0)
    n, r = _reduced(b, clamped)
    tail = b.fma(b.mul(r, r), b.polynomial(r, EXPM1), r)
    whole = _safe_integer(b, n)
    power = _power_of_two(
        b, b.on_bits("sub", whole, b.integer(1))
    )  # half of it: 2^128 is too large
    half = b.fma(power, tail, b.sub(power, b.number(0.5)))
    result = b.add(half, half)
    return b.select(b.compare("eq", x, b.number(0.0)), x, result)


def exp2(b: Vectors, x: str) -> str:
    """2 to the x."""
    clamped = b.at_least(b.at_most(x, 129.0), -151.0)
    n = b.intrinsic("rint", clamped)
    f = b.sub(clamped, n)
    high = b.mul(f, b.number(math.log(2)))
    low = b.fma(f, b.number(math.log(2)), b.neg(high))  # what the product lost
    low = b.fma(f, b.number(math.log(2) - 0.693147182464599609375), low)
    tail = b.add(b.fma(b.mul(high, high), b.polynomial(high, EXP), low), high)
    return _scaled(b, b.add(tail, b.number(1.0)), _safe_integer(b, n))


def _split(b: Vectors, x: str) -> tuple[str, str]:
    """e and f with x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), for positive x, denormals too."""
    small = b.compare("lt", x, b.number(2.0**-126))
    x = b.select(small, b.mul(x, b.number(2.0**23)), x)
    bits = b.as_bits(x)
    moved = b.on_bits("sub", bits, b.integer(0x3F3504F3))  # the bits of sqrt(1/2)
    e = b.on_bits("ashr", moved, b.integer(23))
    m = b.from_bits(b.on_bits("sub", bits, b.on_bits("shl", e, b.integer(23))))
    exponent = b.to_real(e)
    exponent = b.select(small, b.sub(exponent, b.number(23.0)), exponent)
    return exponent, b.sub(m, b.number(1.0))


def _edges(b: Vectors, x: str, value: str) -> str:
    """A logarithm's values at 0, infinity, NaN and below 0."""
    value = b.select(b.compare("eq", x, b.number(math.inf)), x, value)
    value = b.select(b.compare("eq", x, b.number(0.0)), b.number(-math.inf), value)
    wrong = b.logic("or", b.compare("lt", x, b.number(0.0)), b.unordered(x, x))
    return b.select(wrong, b.number(math.nan), value)


def _log_parts(b: Vectors, f: str) -> tuple[str, str]:
    """log(1 + f) as f plus a small part."""
    square = b.mul(f, f)
    cubed = b.mul(b.mul(square, f), b.polynomial(f, LOG))
    return f, b.fma(square, b.number(-0.5), cubed)


def log(b: Vectors, x: str) -> str:
    """The natural logarithm: e ln 2 + f - f²/2 + f³ p(f)."""
    e, f = _split(b, x)
    high, low = _log_parts(b, f)
    low = b.fma(e, b.number(LN2_LOW), low)
    value = b.fma(e, b.number(LN2_HIGH), b.add(low, high))
    return _edges(b, x, value)


def log1p(b: Vectors, x: str) -> str:
    """log(1 + x), with what 1 + x loses put back."""
    one = b.number(1.0)
    u = b.add(x, one)
    bigger = b.compare("ge", b.intrinsic("fabs", x), one)
    lost = b.select(bigger, b.sub(one, b.sub(u, x)), b.sub(x, b.sub(u, one)))
    e, f = _split(b, u)
    high, low = _log_parts(b, f)
    low = b.add(low, b.div(lost, u))
    low = b.fma(e, b.number(LN2_LOW), low)
    value = b.fma(e, b.number(LN2_HIGH), b.add(low, high))
    value = _edges(b, u, value)
    tiny = b.compare("lt", b.intrinsic("fabs", x), b.number(1e-5))
    series = b.fma(b.mul(x, x), b.number(-0.5), x)
    return b.select(tiny, b.select(b.compare("eq", x, b.number(0.0)), x, series), value)


def _log_of_base(base: float) -> Callable[[Vectors, str], str]:
    high = cut_to_bits(1 / math.log(base), 12)
    low = 1 / math.log(base) - high

    def apply(b: Vectors, x: str) -> str:
        e, f = _split(b, x)
        part, rest = _log_parts(b, f)
        bits = b.on_bits("and", b.as_bits(part), b.integer(-4096))  # 12 bits: products are exact
        top = b.from_bits(bits)
        below = b.add(b.sub(part, top), rest)
        value = b.mul(b.add(top, below), b.number(low))
        value = b.fma(below, b.number(high), value)
        if base == 2:
            return _edges(b, x, b.add(b.fma(top, b.number(high), value), e))
        share = math.log10(2)
        big = cut_to_bits(share, 12)
        value = b.fma(e, b.number(share - big), value)
        value = b.fma(top, b.number(high), value)
        return _edges(b, x, b.fma(e, b.number(big), value))

    return apply


def cut_to_bits(value: float, bits: int) -> float:
    """A number cut to its first `bits` binary digits."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.floor(mantissa * 2**bits) / 2**bits, exponent)


def sigmoid(b: Vectors, x: str) -> str:
    """1 / (1 + exp(-x)), from the exponential that does not overflow."""
    one = b.number(1.0)
    z = exp(b, b.neg(b.intrinsic("fabs", x)))
    whole = b.div(one, b.add(z, one))
    share = b.mul(z, whole)
    falling = b.fma(b.neg(z), share, z)  # z / (1 + z) as z - z share: the division's error is small
    return b.select(b.compare("lt", x, b.number(0.0)), falling, whole)


def tanh(b: Vectors, x: str) -> str:
    """x + x³ p(x²) near 0, else 1 - 2 / (exp(2 |x|) + 1) with the sign of x."""
    size = b.intrinsic("fabs", x)
    square = b.mul(x, x)
    near = b.fma(b.mul(square, x), b.polynomial(square, TANH), x)
    e = exp(b, b.add(size, size))
    far = b.sub(b.number(1.0), b.div(b.number(2.0), b.add(e, b.number(1.0))))
    far = b.intrinsic("copysign", far, x)
    near = b.intrinsic("copysign", near, x)
    return b.select(b.compare("lt", size, b.number(0.625)), near, far)


def erf(b: Vectors, x: str) -> str:
    """x + x (p(x²) - 1) for |x| < 1, else 1 - exp(-q(|x|)) with the sign of x."""
    size = b.at_most(b.intrinsic("fabs", x), 4.0)
    square = b.mul(x, x)
    near = b.fma(x, b.polynomial(square, (ERF[0] - 1, *ERF[1:])), x)
    e = exp(b, b.neg(b.polynomial(size, ERFC)))
    far = b.intrinsic("copysign", b.sub(b.number(1.0), e), x)
    return b.select(b.compare("lt", size, b.number(1.0)), near, far)


def _sine(shift: int) -> Callable[[Vectors, str], str]:
    """sin(x + shift pi / 2): the quadrant chooses between two polynomials of the rest."""
    name = "cosf" if shift else "sinf"

    def apply(b: Vectors, x: str) -> str:
        n = b.intrinsic("rint", b.mul(x, b.number(2 / math.pi)))
        r = x
        for part in HALF_PI:
            r = b.fma(n, b.number(-part), r)
        near = b.compare("lt", b.intrinsic("fabs", x), b.number(LARGEST_ANGLE))
        n = b.select(near, n, b.number(0.0))
        quadrant = b.on_bits("add", b.to_integer(n), b.integer(shift))
        square = b.mul(r, r)
        sine = b.fma(b.mul(square, r), b.polynomial(square, SIN), r)
        tail = b.mul(b.mul(square, square), b.polynomial(square, COS))
        cosine = b.add(b.fma(square, b.number(-0.5), tail), b.number(1.0))
        odd = b.on_bits("shl", quadrant, b.integer(b.bits - 1))
        is_odd = b.new(f"icmp ne {b.whole} {odd}, zeroinitializer")
        value = b.select(is_odd, cosine, sine)
        sign = b.on_bits("shl", b.on_bits("lshr", quadrant, b.integer(1)), b.integer(31))
        value = b.from_bits(b.on_bits("xor", b.as_bits(value), sign))
        if not shift:
            value = b.select(b.compare("eq", x, b.number(0.0)), x, value)
        return _by_the_library(b, name, x, near, value)

    return apply


LARGEST_ANGLE = 30000.0


def _by_the_library(b: Vectors, name: str, x: str, near: str, value: str) -> str:
    """`value` where `near` holds in all lanes; else the C library's function, lane by lane."""
    b.declarations.add(f"declare float @{name}(float)")
    check, slow, done = b.label("check"), b.label("slow"), b.label("done")
    b.go(check)
    b.begin(check)
    flat = b.new(f"bitcast {b.truth} {near} to i{b.lanes}")
    b.branch(b.new(f"icmp eq i{b.lanes} {flat}, -1"), done, slow)
    b.begin(slow)
    exact = "poison"
    for lane in range(b.lanes):
        one = b.new(f"extractelement {b.real} {x}, i64 {lane}")
        found = b.new(f"call float @{name}(float {one})")
        exact = b.new(f"insertelement {b.real} {exact}, float {found}, i64 {lane}")
    chosen = b.select(near, value, exact)
    b.go(done)
    b.begin(done)
    return b.new(f"phi {b.real} [ {value}, %{check} ], [ {chosen}, %{slow} ]")


FUNCTIONS: dict[str, Callable[[Vectors, str], str]] = {
    "exp": exp,
    "expm1": expm1,
    "exp2": exp2,
    "log": log,
    "log1p": log1p,
    "log2": _log_of_base(2),
    "log10": _log_of_base(10),
    "sigmoid": sigmoid,
    "tanh": tanh,
    "erf": erf,
    "sin": _sine(0),
    "cos": _sine(1),
}
