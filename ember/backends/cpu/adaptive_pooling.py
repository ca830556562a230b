"""Adaptive pooling: O bins that cover S pixels, bin i from ⌊i·S/O⌋ to ⌈(i + 1)·S/O⌉, in every
spatial dim."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ember.backends.cpu.pooling import plane_blocks

NDArray = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

WIDEST_PRODUCT = 128  # rows up to this long are summed by a matrix product, which is mostly zeros
BIN_COST = 4  # how much dearer a pass over all bins is than one over a pixel of each


def adaptive_average_pool(x: NDArray, output_size: Sizes) -> NDArray:
    """The mean of each bin; x (..., *S), result (..., *O)."""
    lead, sizes = _split(x.shape, output_size)
    out = np.empty((*lead, *output_size), x.dtype)
    if not out.size:
        return out
    if all(o == 1 for o in output_size):
        total = x.reshape(prod(lead), prod(sizes)) @ np.ones(prod(sizes), x.dtype)
        return np.divide(total, x.dtype.type(prod(sizes))).reshape(out.shape)
    total = x
    for dim, (size, count) in enumerate(zip(sizes, output_size), len(lead)):
        total = _bin_sums(total, dim, size, count)
    return np.divide(total, _bin_counts(sizes, output_size).astype(x.dtype), out=out)


def adaptive_average_pool_backward(g: NDArray, input_shape: Sizes) -> NDArray:
    """Each bin's gradient over its size, added to each of its pixels."""
    dims = _pooled_dims(g.shape, input_shape)
    output_size = g.shape[g.ndim - dims :]
    lead, sizes = _split(input_shape, output_size)
    if not g.size:
        return np.zeros(input_shape, g.dtype)
    spread = g / _bin_counts(sizes, output_size).astype(g.dtype)
    for dim, (size, count) in enumerate(zip(sizes, output_size), len(lead)):
        spread = _spread_bins(spread, dim, size, count)
    return np.array(np.broadcast_to(spread, input_shape), order="C")


def adaptive_max_pool(x: NDArray, output_size: Sizes) -> tuple[NDArray, NDArray]:
    """The largest value of each bin and its flat index in its plane, as int64.

    The first of equals is taken; NaN is larger than all, and the last NaN of a bin is taken.
    """
    lead, sizes = _split(x.shape, output_size)
    values = np.empty((prod(lead), *output_size), x.dtype)
    indices = np.empty(values.shape, np.int64)
    if values.size:
        planes = x.reshape(len(values), *sizes)
        edges = [_edges(size, count) for size, count in zip(sizes, output_size)]
        widest = [int((ends - starts).max()) for starts, ends in edges]
        search = _search_bins if prod(output_size) <= BIN_COST * prod(widest) else _search_taps
        for part in plane_blocks(len(values), prod(sizes) * x.itemsize):
            search(planes[part], edges, widest, values[part], indices[part])
    return values.reshape(*lead, *output_size), indices.reshape(*lead, *output_size)


def _split(shape: Sizes, output_size: Sizes) -> tuple[Sizes, Sizes]:
    """Leading and spatial sizes."""
    return shape[: len(shape) - len(output_size)], shape[len(shape) - len(output_size) :]


def _pooled_dims(g_shape: Sizes, input_shape: Sizes) -> int:
    """How many trailing dims may have been pooled: all from the first whose size changed."""
    return next(
        (len(g_shape) - n for n, (a, b) in enumerate(zip(g_shape, input_shape)) if a != b), 0
    )


def _edges(size: int, count: int) -> tuple[NDArray, NDArray]:
    """Where bins start and end."""
    numbers = np.arange(count)
    return numbers * size // count, -(-(numbers + 1) * size // count)


def _bin_counts(sizes: Sizes, output_size: Sizes) -> NDArray:
    """How many pixels each bin has."""
    counts = np.ones((1,) * len(sizes), np.int64)
    for dim, (size, count) in enumerate(zip(sizes, output_size)):
        starts, ends = _edges(size, count)
        counts = counts * (ends - starts).reshape(-1, *[1] * (len(sizes) - 1 - dim))
    return counts


def _bin_sums(x: NDArray, dim: int, size: int, count: int) -> NDArray:
    """Sums over the bins of one dim."""
    if size == count:
        return x
    if size % count == 0:
        return x.reshape(*x.shape[:dim], count, size // count, *x.shape[dim + 1 :]).sum(dim + 1)
    starts, ends = _edges(size, count)
    if dim == x.ndim - 1 and size <= WIDEST_PRODUCT:
        pixels = np.arange(size)[:, None]
        sums = x @ ((pixels >= starts) & (pixels < ends)).astype(x.dtype)
        if np.isfinite(np.add.reduce(sums, None)):  # zero times infinity would spoil other bins
            return sums
    out = np.empty((*x.shape[:dim], count, *x.shape[dim + 1 :]), x.dtype)
    before: tuple[Any, ...] = (slice(None),) * dim
    if count <= int((ends - starts).max()):
        for number, (start, end) in enumerate(zip(starts, ends)):
            np.add.reduce(x[*before, start:end], dim, out=out[(*before, number)])
        return out
    out[...] = np.take(x, starts, dim)
    for tap in range(1, int((ends - starts).max())):
        wide = np.flatnonzero(starts + tap < ends)
        out[(*before, wide)] += np.take(x, starts[wide] + tap, dim)
    return out


def _spread_bins(g: NDArray, dim: int, size: int, count: int) -> NDArray:
    """The adjoint of `_bin_sums`; a single bin is left to be broadcast."""
    if count in (size, 1):
        return g
    if size % count == 0:
        return np.repeat(g, size // count, dim)
    starts, ends = _edges(size, count)
    out = np.zeros((*g.shape[:dim], size, *g.shape[dim + 1 :]), g.dtype)
    before = (slice(None),) * dim
    for number, (start, end) in enumerate(zip(starts, ends)):
        out[*before, start:end] += g[*before, number : number + 1]
    return out


def _search_bins(
    planes: NDArray, edges: list[Any], widest: list[int], values: NDArray, indices: NDArray
) -> None:
    """Bin by bin: few and large ones."""
    sizes = planes.shape[1:]
    numbers = np.arange(prod(sizes)).reshape(sizes)
    for place in np.ndindex(*values.shape[1:]):
        box = tuple(slice(edge[0][p], edge[1][p]) for edge, p in zip(edges, place))
        flat = planes[:, *box].reshape(len(planes), -1)
        best = flat.argmax(1)
        found = np.take_along_axis(flat, best[:, None], 1)[:, 0]
        if found.dtype.kind == "f" and np.isnan(found).any():
            last = flat.shape[1] - 1 - np.isnan(flat)[:, ::-1].argmax(1)
            best = np.where(np.isnan(found), last, best)
        values[:, *place] = found
        indices[:, *place] = numbers[box].reshape(-1)[best]


def _search_taps(
    planes: NDArray, edges: list[Any], widest: list[int], values: NDArray, indices: NDArray
) -> None:
    """Pixel by pixel of all bins at once: many and small ones. Narrow bins see their last pixels
    again."""
    sizes = planes.shape[1:]
    numbers = np.arange(prod(sizes)).reshape(sizes)
    for number, tap in enumerate(np.ndindex(*widest)):
        places = np.ix_(
            *(np.minimum(starts + t, ends - 1) for (starts, ends), t in zip(edges, tap))
        )
        candidate = planes[:, *places]
        if number == 0:
            values[...], indices[...] = candidate, numbers[places]
            continue
        larger = candidate > values
        if values.dtype.kind == "f":
            larger |= np.isnan(candidate)
        np.copyto(values, candidate, where=larger)
        np.copyto(indices, numbers[places], where=larger)
