"""Orthogonal polynomials of an array of degrees at an array of places, by their three-term
recurrences in the dtype of the places (Abramowitz and Stegun, 1964, chapter 22).

Where |x| < 1 Chebyshev's are cosines and sines for all but small degrees. The value is 0 for a
degree below 0, and NaN once the recurrence meets infinities of both signs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Vector = np.ndarray[Any, Any]
MANY = 1000
HERMITE_LIMIT = {"float32": 128, "float64": 512}  # what lies beyond overflows nearly everywhere


def _operands(x: Any, n: Any) -> tuple[Vector, Vector, tuple[int, ...]]:
    """Places and whole degrees, broadcast and laid out flat, and their shape."""
    x, n = np.broadcast_arrays(np.asarray(x), np.asarray(n))
    return x.ravel(), np.trunc(n).astype(np.int64).ravel(), x.shape


def _recurrence(
    x: Vector, n: Vector, first: Vector, step: Callable[..., Any], beyond: str = ""
) -> Vector:
    """step(k, x, p_k, p_k-1) gives p_k+1, from p_0 = 1 and p_1 = `first`; up to the degree n of
    each place, or to the first NaN. `beyond` is SciPy's function for many steps."""
    result = np.where(n == 0, np.ones_like(x), np.where(n < 0, np.zeros_like(x), first))
    places = np.flatnonzero((n > 1) & ~np.isnan(first))
    x, n, before, last = x[places], n[places], np.ones_like(x[places]), first[places]
    k = 1
    while places.size and not (beyond and k > MANY):
        before, last = last, step(k, x, last, before)
        k += 1
        going = (n > k) & ~np.isnan(last)
        if not going.all():
            result[places[~going]] = last[~going]
            places, x, n, before, last = (a[going] for a in (places, x, n, before, last))
    if places.size:
        import scipy.special

        result[places] = getattr(scipy.special, beyond)(n, x.astype(np.float64))
    return result


def _chebyshev_step(k: int, x: Vector, last: Vector, before: Vector) -> Vector:
    return (x + x) * last - before


def _chebyshev(
    x: Any, n: Any, *, first: Any, least: int, inside: Any, at_one: Any, at_minus_one: Any
) -> Vector:
    """Chebyshev polynomials of one kind: `inside` by the angle acos(x) for degrees above `least`,
    and the values at 1 and -1."""
    x, n, shape = _operands(x, n)
    degree = n.astype(x.dtype)
    sign = np.where(n % 2 == 0, 1, -1).astype(x.dtype)
    by_angle = (n > least) & (np.abs(x) < 1)
    at_end = (np.abs(x) == 1) & (n >= 0)
    result = _recurrence(x, np.where(by_angle | at_end, 0, n), first(x), _chebyshev_step)
    result = np.where(by_angle, inside(np.arccos(x), degree, x), result)
    ends = np.where(x > 0, at_one(degree), sign * at_minus_one(degree))
    return np.where(at_end, ends, result).astype(x.dtype).reshape(shape)


def _one(n: Any) -> Any:
    return np.ones_like(n)


def _next(n: Any) -> Any:
    return n + 1


def _odd(n: Any) -> Any:
    return n + n + 1


def chebyshev_t(x: Any, n: Any) -> Vector:
    """cos(n·θ) at x = cos(θ)."""
    return _chebyshev(
        x, n, first=lambda x: x, least=6, inside=lambda angle, n, x: np.cos(n * angle),
        at_one=_one, at_minus_one=_one,
    )  # fmt: skip


def chebyshev_u(x: Any, n: Any) -> Vector:
    """sin((n + 1)·θ) / sin(θ)."""

    def inside(angle: Vector, n: Vector, x: Vector) -> Vector:
        sine, turned = np.sin(angle), (n + 1) * angle
        found: Vector = np.where(sine != 0, np.sin(turned) / sine, (n + 1) * np.cos(turned) / x)
        return found

    return _chebyshev(
        x, n, first=lambda x: x + x, least=8, inside=inside, at_one=_next, at_minus_one=_next
    )


def chebyshev_v(x: Any, n: Any) -> Vector:
    """cos((n + 1/2)·θ) / cos(θ / 2)."""

    def inside(angle: Vector, n: Vector, x: Vector) -> Vector:
        half = angle / 2
        found: Vector = np.cos((n + x.dtype.type(0.5)) * angle) / np.cos(half)
        return found

    return _chebyshev(
        x, n, first=lambda x: x + x - 1, least=8, inside=inside, at_one=_one, at_minus_one=_odd
    )


def chebyshev_w(x: Any, n: Any) -> Vector:
    """sin((n + 1/2)·θ) / sin(θ / 2)."""

    def inside(angle: Vector, n: Vector, x: Vector) -> Vector:
        half = angle / 2
        found: Vector = np.sin((n + x.dtype.type(0.5)) * angle) / np.sin(half)
        return found

    return _chebyshev(
        x, n, first=lambda x: x + x + 1, least=8, inside=inside, at_one=_odd, at_minus_one=_one
    )


def _hermite(x: Any, n: Any, times: int) -> Vector:
    x, n, shape = _operands(x, n)
    limit = HERMITE_LIMIT[x.dtype.name]
    result = _recurrence(
        x,
        np.minimum(n, limit),
        times * x,
        lambda k, x, last, before: times * x * last - x.dtype.type(times * k) * before,
    )
    return np.where(n > limit, np.nan, result).astype(x.dtype).reshape(shape)


def hermite_h(x: Any, n: Any) -> Vector:
    """The physicists' Hermite polynomials."""
    return _hermite(x, n, 2)


def hermite_he(x: Any, n: Any) -> Vector:
    """The probabilists' Hermite polynomials."""
    return _hermite(x, n, 1)


def _fused(a: Vector, b: Vector, c: Vector) -> Vector:
    """a·b + c, rounded once if of single precision."""
    if a.dtype == np.float32:
        return (a.astype(np.float64) * b + c).astype(np.float32)
    return a * b + c


def laguerre_l(x: Any, n: Any) -> Vector:
    """Laguerre polynomials."""
    x, n, shape = _operands(x, n)
    result = _recurrence(
        x,
        np.where((x == 0) & (n > 0), 0, n),
        1 - x,
        lambda k, x, last, before: _fused(k + k + (1 - x), last, -k * before) / (k + 1),
        beyond="eval_laguerre",
    )
    return result.reshape(shape)


def legendre_p(x: Any, n: Any) -> Vector:
    """Legendre polynomials."""
    x, n, shape = _operands(x, n)
    at_end = (np.abs(x) == 1) & (n >= 0)
    result = _recurrence(
        x,
        np.where(at_end, 0, n),
        x,
        lambda k, x, last, before: _fused((k + k + 1) * x, last, -k * before) / (k + 1),
        beyond="eval_legendre",
    )
    ends = np.where((x > 0) | (n % 2 == 0), 1, -1)
    return np.where(at_end, ends, result).astype(x.dtype).reshape(shape)
