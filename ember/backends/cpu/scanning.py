"""Running sums, products, extremes and log-sums along a dim; results have the dtype of x.

float32 and complex64 are accumulated in double precision and rounded at every place, as PyTorch's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ember.backends.cpu import threads
from ember.backends.cpu.native import builtin, vector_bytes
from ember.backends.cpu.scan_text import scan_text

NDArray = np.ndarray[Any, Any]

WIDER = {"f": np.float64, "F": np.complex128}
BLOCK_BYTES = 256 << 10  # rows that are scanned together in double precision, in the cache
LARGE = 1 << 14  # elements from which the compiled form pays
GRAIN = 1 << 16  # elements that are worth another thread
COMPILED = {np.add: "fadd", np.multiply: "fmul"}
LEAST_SLICE = 128  # slices of this many elements are worth a step of their own


def cumsum(x: NDArray, dim: int) -> NDArray:
    """y[i] = x[0] + … + x[i] along dim."""
    return _scan(np.add, x, dim)


def cumprod(x: NDArray, dim: int) -> NDArray:
    """y[i] = x[0] · … · x[i] along dim."""
    return _scan(np.multiply, x, dim)


def logcumsumexp(x: NDArray, dim: int) -> NDArray:
    """y[i] = log(exp(x[0]) + … + exp(x[i])) along dim, without overflow."""
    if x.dtype.kind == "c":
        return _complex_logcumsumexp(x, dim)
    return _scan(np.logaddexp, x, dim)


def cummax(x: NDArray, dim: int) -> tuple[NDArray, NDArray]:
    """The largest element so far along dim and where it was last; NaN is larger than all."""
    return _running_extreme(np.maximum, x, dim)


def cummin(x: NDArray, dim: int) -> tuple[NDArray, NDArray]:
    """The smallest element so far along dim and where it was last; NaN is smaller than all."""
    return _running_extreme(np.minimum, x, dim)


def _scan(ufunc: np.ufunc, x: NDArray, dim: int) -> NDArray:
    """The running result of a ufunc along dim."""
    if x.ndim == 0 or not x.size:
        return np.array(x, order="C")
    dim %= x.ndim
    wide = np.dtype(WIDER.get(x.dtype.char, x.dtype))
    out = np.empty(x.shape, x.dtype)
    if ufunc in COMPILED and dim == x.ndim - 1 and x.dtype == np.float32 and x.size >= LARGE:
        _scan_rows(COMPILED[ufunc], np.ascontiguousarray(x), out)
        return out
    rows, results = np.moveaxis(x, dim, -1), np.moveaxis(out, dim, -1)
    if dim < x.ndim - 1 and x.size // x.shape[dim] >= LEAST_SLICE:
        state = rows[..., 0].astype(wide)
        results[..., 0] = state
        for place in range(1, x.shape[dim]):
            ufunc(state, rows[..., place], out=state)
            results[..., place] = state
    elif wide == x.dtype:
        ufunc.accumulate(x, dim, out=out)
    else:
        rows = rows.reshape(-1, x.shape[dim])
        flat = out if dim == x.ndim - 1 else np.empty(results.shape, x.dtype)
        targets = flat.reshape(rows.shape)
        several = max(1, BLOCK_BYTES // (x.shape[dim] * wide.itemsize))
        for first in range(0, len(rows), several):
            part = slice(first, first + several)
            block = rows[part].astype(wide)
            targets[part] = ufunc.accumulate(block, 1, out=block)
        if flat is not out:
            results[...] = flat
    return out


def _scan_rows(op: str, x: NDArray, out: NDArray) -> None:
    """Scan the last dim, compiled."""
    kernel = builtin(scan_text(op, vector_bytes() // 8))
    count = x.shape[-1]
    geometry, scratch = np.array([count], np.int64), np.empty(1)

    def part(begin: int, end: int) -> None:
        kernel(x, out, geometry, scratch, begin, end)

    threads.split(part, x.size // count, max(1, GRAIN // count))


def _running_extreme(ufunc: np.ufunc, x: NDArray, dim: int) -> tuple[NDArray, NDArray]:
    """Running extremes and where they were last."""
    if x.ndim == 0 or not x.size:
        return np.array(x, order="C"), np.zeros(x.shape, np.int64)
    dim %= x.ndim
    values = _scan(ufunc, x, dim)
    held = x == values
    if x.dtype.kind in "fV":
        held |= np.isnan(x)
    shape = [1] * x.ndim
    shape[dim] = x.shape[dim]
    places = np.arange(x.shape[dim]).reshape(shape)
    return values, _scan(np.maximum, np.where(held, places, 0), dim)


def _complex_logcumsumexp(x: NDArray, dim: int) -> NDArray:
    """`logcumsumexp` slice by slice; the larger real part is taken out of the exponentials."""
    if x.ndim == 0 or not x.size:
        return np.array(x, order="C")
    out = np.empty(x.shape, x.dtype)
    rows, results = np.moveaxis(x, dim, 0), np.moveaxis(out, dim, 0)
    state = rows[0].astype(np.complex128)
    results[0] = state
    for place in range(1, len(rows)):
        row = rows[place]
        larger = np.where(state.real >= row.real, state, row)
        smaller = np.where(state.real >= row.real, row, state)
        added = larger + np.log1p(np.exp(smaller - larger))
        # Where one is infinitely larger, or both vanish, there is nothing to add.
        alone = np.isinf(larger.real) | np.isneginf(smaller.real)
        added = np.where(alone, larger, added)
        missing = np.isnan(state) | np.isnan(row)
        state = np.where(missing, complex(np.nan, np.nan), added)
        results[place] = state
    return out
