"""Running sums, products, extremes and log-sums along a dim."""

from __future__ import annotations

from typing import Any

import numpy as np

NDArray = np.ndarray[Any, Any]


def cumsum(x: NDArray, dim: int) -> NDArray:
    """Sums of the elements up to each along a dim, in the dtype of x."""
    return np.cumsum(x, axis=dim, dtype=x.dtype)


def cumprod(x: NDArray, dim: int) -> NDArray:
    """Products of the elements up to each along a dim, in the dtype of x."""
    return np.cumprod(x, axis=dim, dtype=x.dtype)


def logcumsumexp(x: NDArray, dim: int) -> NDArray:
    """log of the sums of exp of the elements up to each along a dim, without overflow.

    Real: each sum from the one before by logaddexp. Complex: relative to the running greatest real part.
    """
    if x.dtype.kind != "c":
        return np.logaddexp.accumulate(x, axis=dim)
    made = np.array(x)
    rows = np.moveaxis(made, dim, 0)
    for i in range(1, len(rows)):
        top = np.maximum(rows[i - 1].real, rows[i].real)
        top = np.where(np.isfinite(top), top, 0)
        rows[i] = top + np.log(np.exp(rows[i - 1] - top) + np.exp(rows[i] - top))
    return made


def cummax(x: NDArray, dim: int) -> tuple[NDArray, NDArray]:
    """The greatest element up to each along a dim, and the index of its last place; NaN is the greatest."""
    return _extremes(x, dim, np.greater_equal)


def cummin(x: NDArray, dim: int) -> tuple[NDArray, NDArray]:
    """The smallest element up to each along a dim, and the index of its last place; NaN is the smallest."""
    return _extremes(x, dim, np.less_equal)


def _extremes(x: NDArray, dim: int, wins: Any) -> tuple[NDArray, NDArray]:
    values = np.array(np.moveaxis(x, dim, 0))
    places = np.zeros(values.shape, np.int64)
    wide = values.astype(np.float32) if values.dtype.kind not in "biufc" else values
    for i in range(1, len(values)):
        taken = wins(wide[i], wide[i - 1]) | (wide[i] != wide[i])
        if wide is not values:
            wide[i] = np.where(taken, wide[i], wide[i - 1])
        values[i] = np.where(taken, values[i], values[i - 1])
        places[i] = np.where(taken, i, places[i - 1])
    return (
        np.ascontiguousarray(np.moveaxis(values, 0, dim)),
        np.ascontiguousarray(np.moveaxis(places, 0, dim)),
    )
