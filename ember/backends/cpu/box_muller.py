"""Uniform bits to normal numbers by the Box-Muller transform, rounded as PyTorch does.

Two uniforms (u, v) in [0, 1) give two independent normals: √(−2·log(1−u)) times cos(2πv) and
sin(2πv). In float32 the logarithm, sine and cosine are the Cephes library's polynomials (Moshier,
1989) with fused multiply-adds, which is what PyTorch's vectorised CPU code computes: results agree
bit for bit, and they are the same on every machine. In float64 they are NumPy's functions, which
agree to the last bit or two.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Vector = np.ndarray[Any, Any]

BLOCK = 16  # normals come in blocks: 8 uniforms for the radius, then 8 for the angle
PIECE = 8192  # elements at a time, so that the steps' temporaries stay in the cache

_single, _double = np.float32, np.float64
LOG = tuple(
    float(_single(c))
    for c in (
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    )
)
SINE = tuple(float(_single(c)) for c in (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1))
COSINE = tuple(
    float(_single(c)) for c in (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
)
LN2_HIGH, LN2_LOW = _single(0.693359375), _single(-2.12194440e-4)
QUARTER_PI = tuple(
    _single(c) for c in (0.78515625, 2.4187564849853515625e-4, 3.77489497744594108e-8)
)
SQRT_HALF_BITS = 0x3F3504F3  # √½ as float32
TWO_PI = _single(2 * math.pi)


def fused(a: Any, b: Any, c: Any) -> Any:
    """a·b + c of float32 numbers, rounded once: the product is exact in float64."""
    return (np.multiply(a, b, dtype=_double) + c).astype(_single)


def fused_double(a: Vector, b: float, c: float) -> Vector:
    """a·b + c of float64 numbers, rounded once: both steps' errors are added (Dekker, 1971)."""
    out = np.empty_like(a)
    for start in range(0, len(a), PIECE):
        piece = a[start : start + PIECE]
        (a_high, a_low), (b_high, b_low) = _halves(piece), _halves(b)
        product = piece * b
        product_error = (
            (a_high * b_high - product) + a_high * b_low + a_low * b_high
        ) + a_low * b_low
        total = product + c
        virtual = total - product
        total_error = (product - (total - virtual)) + (c - virtual)
        np.add(total, product_error + total_error, out=out[start : start + PIECE])
    return out


def _halves(x: Any) -> Any:
    """A float64 number as the sum of two with half as many digits."""
    scaled = x * 134217729.0  # 2²⁷ + 1
    high = scaled - (scaled - x)
    return high, x - high


def _polynomial(x: Vector, wide: Vector, coefficients: tuple[float, ...]) -> Vector:
    """Horner's rule with fused steps, in place in `x`; `wide` is its variable in float64."""
    step = wide * coefficients[0]
    for c in coefficients[1:-1]:
        step += c
        np.copyto(x, step, casting="same_kind")
        np.multiply(x, wide, out=step)
    step += coefficients[-1]
    np.copyto(x, step, casting="same_kind")
    return x


def _radius(u: Vector) -> Vector:
    """√(−2·log u) of float32 numbers in (0, 1]."""
    bits = u.view(np.int32)
    exponent = (bits - SQRT_HALF_BITS) >> 23
    x = (bits - (exponent << 23)).view(_single) - _single(1)  # u = (1 + x)·2^exponent
    power = exponent.astype(_single)
    y = _polynomial(np.empty_like(x), x.astype(_double), LOG)
    y *= x
    square = x * x
    y = fused(y, square, power * LN2_LOW)
    y -= square * _single(0.5)
    x += y
    x += power * LN2_HIGH
    x *= _single(-2)
    return np.asarray(np.sqrt(x, out=x))


def _cosine_and_sine(angle: Vector) -> tuple[Vector, Vector]:
    """cos and sin of float32 numbers in [0, 2π]."""
    octant = (angle * _single(4 / math.pi)).astype(np.int32)
    octant += 1
    octant &= -2
    turns = octant.astype(_single)
    x = angle - turns * QUARTER_PI[0]
    x -= turns * QUARTER_PI[1]
    x -= turns * QUARTER_PI[2]
    square = x * x
    wide = square.astype(_double)
    cosine = _polynomial(np.empty_like(x), wide, COSINE)
    cosine *= square
    cosine = fused(cosine, square, square * _single(-0.5))
    cosine += _single(1)
    sine = _polynomial(np.empty_like(x), wide, SINE)
    sine *= square
    sine = fused(sine, x, x)
    swapped = (octant & 2) != 0
    return (
        _signed(np.where(swapped, sine, cosine), (octant + 2) & 4),
        _signed(np.where(swapped, cosine, sine), octant & 4),
    )


def _signed(x: Vector, negative: Vector) -> Vector:
    """`x` with its sign turned where bit 2 of `negative` is set."""
    x.view(np.int32)[...] ^= negative << 29
    return x


def _single_piece(words: Vector) -> Vector:
    """Normals of whole blocks of words, shaped (blocks, 16)."""
    uniform = (words & np.uint32(0xFFFFFF)).view(np.int32).astype(_single)
    uniform *= _single(2.0**-24)
    radius = _radius((_single(1) - uniform[:, :8]).reshape(-1))
    cosine, sine = _cosine_and_sine((uniform[:, 8:] * TWO_PI).reshape(-1))
    cosine *= radius
    sine *= radius
    return np.concatenate((cosine.reshape(-1, 8), sine.reshape(-1, 8)), axis=1)


def normal_blocks(words: Vector) -> Vector:
    """Float32 normals of whole blocks of 16 random words: the low 24 bits of each are its uniform.

    Words 0..7 of a block are its u, words 8..15 its v; results 0..7 are the cosine parts, 8..15 the
    sine parts.
    """
    out = np.empty(words.size, _single)
    rows, results = words.reshape(-1, BLOCK), out.reshape(-1, BLOCK)
    step = 2 * PIECE // BLOCK
    for start in range(0, len(rows), step):
        results[start : start + step] = _single_piece(rows[start : start + step])
    return out


def normal_blocks_double(uniform: Vector) -> Vector:
    """Float64 normals of whole blocks of 16 uniforms in [0, 1), laid out as in `normal_blocks`."""
    rows = uniform.reshape(-1, BLOCK)
    out = np.empty_like(rows)
    step = 2 * PIECE // BLOCK
    for start in range(0, len(rows), step):
        piece = rows[start : start + step]
        _pairs(
            piece[:, :8], piece[:, 8:], out[start : start + step, :8], out[start : start + step, 8:]
        )
    return out.reshape(-1)


def normal_pairs(uniform: Vector) -> Vector:
    """Float64 normals of an even number of uniforms: of each two the first is the angle."""
    out = np.empty_like(uniform)
    for start in range(0, len(uniform), 2 * PIECE):
        piece, result = uniform[start : start + 2 * PIECE], out[start : start + 2 * PIECE]
        _pairs(piece[1::2], piece[0::2], result[0::2], result[1::2])
    return out


def _pairs(u: Vector, v: Vector, cosine: Vector, sine: Vector) -> None:
    radius = np.log(1 - u)
    radius *= -2
    np.sqrt(radius, out=radius)
    angle = 2 * math.pi * v
    np.multiply(radius, np.cos(angle), out=cosine)
    np.multiply(radius, np.sin(angle), out=sine)
