"""Which bin a value falls into: searchsorted, bincount, histc, histogram, histogramdd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ember.backends.cpu.sort_keys import comparable
from ember.errors import check

NDArray = np.ndarray[Any, Any]
Places = Callable[[NDArray], NDArray]

BLOCK = 1 << 14  # elements that are binned together, in the cache
ROW_SEARCH = 16  # from this many values a row on, rows are searched one by one


def searchsorted(
    sorted_sequence: NDArray, values: NDArray, right: bool = False, sorter: NDArray | None = None
) -> NDArray:
    """Where values go into sequences sorted along the last dim, before equals or (right) after.

    sorted_sequence is a vector, or has the leading dims of values; sorter sorts it. int64.
    """
    sequence, sought = comparable(sorted_sequence), comparable(values)
    if sorter is not None:
        sequence = np.take_along_axis(sequence, sorter, -1)
    common = np.result_type(sequence, sought)
    sequence, sought = sequence.astype(common, copy=False), sought.astype(common, copy=False)
    ordinary = sequence.dtype.kind != "f" or not np.isnan(sequence).any()
    if sequence.ndim == 1 and ordinary:
        found = np.searchsorted(sequence, sought.reshape(-1), "right" if right else "left")
        return found.astype(np.int64, copy=False).reshape(values.shape)
    if ordinary and sought.ndim and sought.shape[-1] >= ROW_SEARCH:
        rows = sequence.reshape(-1, sequence.shape[-1])
        found = np.empty((len(rows), sought.shape[-1]), np.int64)
        for number, row in enumerate(sought.reshape(found.shape)):
            found[number] = np.searchsorted(rows[number], row, "right" if right else "left")
        return found.reshape(values.shape)
    return _bisect(sequence, sought, right)


def bincount(x: NDArray, weights: NDArray | None = None, minlength: int = 0) -> NDArray:
    """How often each of 0, 1, … occurs in a vector, or the sum of weights there."""
    valid = x.ndim == 1 and (not x.size or x.min() >= 0)
    check(valid, RuntimeError, "bincount only supports 1-d non-negative integral inputs.")
    check(minlength >= 0, RuntimeError, "minlength should be >= 0")
    check(
        weights is None or weights.shape == x.shape,
        RuntimeError,
        "weights should be 1-d and have the same length as input",
    )
    if weights is None or not x.size:
        return np.bincount(x.astype(np.int64), None, minlength).astype(np.int64, copy=False)
    sums = np.bincount(x.astype(np.int64), weights.astype(np.float64), minlength)
    return sums.astype(np.float32) if weights.dtype == np.float32 else sums


def histc(x: NDArray, bins: int = 100, min: float = 0, max: float = 0) -> NDArray:
    """How many elements fall into each of `bins` equal bins from min to max, in x's dtype.

    min == max: from the smallest to the largest element. What is outside, or NaN, is not counted.
    """
    check(
        bins > 0,
        RuntimeError,
        f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0",
    )
    check(max >= min, RuntimeError, "torch.histc: max must be larger than min")
    low, high = _limits(x, min, max, "torch.histc", min == max)
    kind = x.dtype.type
    places = _uniform_places(kind(low), kind(high), bins)
    return _sums(x, None, bins, places).astype(x.dtype)


def histogram(
    x: NDArray,
    bins: int | NDArray,
    range: tuple[float, float] | None = None,
    weight: NDArray | None = None,
    density: bool = False,
) -> tuple[NDArray, NDArray]:
    """Counts, or sums of weights, of elements between edges, and the edges; the last bin is closed.

    bins is the edges, or how many equal bins range (by default from smallest to largest) has.
    density divides by the sum and by each bin's width.
    """
    edges, places = _edges_and_places(x, bins, range)
    result = _sums(x, weight, edges.size - 1, places).astype(x.dtype)
    if density:
        result = result / (result.sum() * np.diff(edges))
    return result, edges


def histogramdd(
    x: NDArray,
    bins: Sequence[int | NDArray],
    range: Sequence[float] | None = None,
    weight: NDArray | None = None,
    density: bool = False,
) -> tuple[NDArray, ...]:
    """`histogram` in several dims: x is (..., D), bins one entry for each dim, range D pairs.

    Returns the sums, in D dims, and then the edges of every dim.
    """
    points = x.reshape(-1, len(bins))
    every_edge, shape = [], []
    numbers = np.zeros(len(points), np.int64)
    inside = np.ones(len(points), np.bool_)
    for dim, entry in enumerate(bins):
        pair = None if range is None else (range[2 * dim], range[2 * dim + 1])
        edges, places = _edges_and_places(points[:, dim], entry, pair)
        found = places(points[:, dim])
        inside &= found < edges.size - 1
        numbers = numbers * (edges.size - 1) + found
        every_edge.append(edges)
        shape.append(edges.size - 1)
    shares = None if weight is None else weight.reshape(-1)[inside]
    sums = np.bincount(numbers[inside], shares, prod(shape)).astype(x.dtype).reshape(shape)
    if density:
        sums = sums / sums.sum()
        for dim, edges in enumerate(every_edge):
            sums = sums / np.diff(edges).reshape(-1, *[1] * (len(shape) - 1 - dim))
    return sums, *every_edge


def _edges_and_places(
    x: NDArray, bins: int | NDArray, range: tuple[float, float] | None
) -> tuple[NDArray, Places]:
    """The edges of bins, given or even, and how to find the bin of an element."""
    if isinstance(bins, np.ndarray):
        edges = np.array(bins, order="C")
        return edges, _edge_places(edges)
    low, high = range if range is not None else (0.0, 0.0)
    low, high = _limits(x, low, high, "torch.histogram", range is None)
    edges = _even_edges(x.dtype.type(low), x.dtype.type(high), bins)
    return edges, _corrected_places(edges)


def _bisect(sequence: NDArray, sought: NDArray, right: bool) -> NDArray:
    """A binary search for all values at once, in one sequence or row by row."""
    count = sequence.shape[-1]
    rows = sequence.reshape(-1)
    starts = np.zeros((), np.int64)
    start = np.zeros(sought.shape, np.int64)
    end = np.full(sought.shape, count, np.int64)
    if sequence.ndim > 1 and count:
        starts = np.arange(0, rows.size, count).reshape(*sequence.shape[:-1], 1)
    for _ in range(count.bit_length()):
        middle = (start + end) >> 1
        value = np.take(rows, middle + starts, mode="clip")
        after = ~(value > sought) if right else ~(value >= sought)
        after &= start < end
        start = np.where(after, middle + 1, start)
        end = np.where(after, end, middle)
    return start


def _limits(x: NDArray, low: float, high: float, name: str, from_data: bool) -> tuple[float, float]:
    """The outer edges: as given or those of the data, and never the same."""
    if from_data:
        low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 1.0)
    check(
        np.isfinite(low) and np.isfinite(high),
        RuntimeError,
        f"{name}: range of [{low:g}, {high:g}] is not finite",
    )
    margin = (1.0 if name == "torch.histc" else 0.5) if low == high else 0.0
    return low - margin, high + margin


def _even_edges(low: Any, high: Any, bins: int) -> NDArray:
    """bins + 1 edges at even distances, measured from the nearer end."""
    step = (high - low) / low.dtype.type(bins)
    wide: Any = (
        np.float64 if low.dtype == np.float32 else np.longdouble
    )  # one rounding, as by an FMA
    numbers = np.arange(bins + 1).astype(wide)
    lower, upper = low + numbers * step, high - (bins - numbers) * step
    edges: NDArray = np.where(numbers < (bins + 1) // 2, lower, upper)
    return edges.astype(low.dtype)


def _uniform_places(low: Any, high: Any, bins: int) -> Places:
    """The even bin of each element by arithmetic; `bins` for what is outside."""

    def find(part: NDArray) -> NDArray:
        places = (part - low) * low.dtype.type(bins) / (high - low)
        np.minimum(places, bins - 1, out=places)
        outside = ~((part >= low) & (part <= high))
        np.copyto(places, bins, where=outside)
        return places.astype(np.int64)

    return find


def _corrected_places(edges: NDArray) -> Places:
    """The same, but where rounding put an element beyond an edge, the edge decides."""
    bins = edges.size - 1
    nearly = _uniform_places(edges[0], edges[-1], bins)
    padded = np.append(edges, np.full(1, np.inf, edges.dtype))

    def find(part: NDArray) -> NDArray:
        places = nearly(part)
        inside = places < bins
        down = inside & (places > 0) & (part < padded[places])
        up = inside & (places < bins - 1) & (part >= padded[np.minimum(places + 1, bins)])
        return places - down + up

    return find


def _edge_places(edges: NDArray) -> Places:
    """The bin of each element between given edges; the number of bins for what is outside."""
    bins = edges.size - 1

    def find(part: NDArray) -> NDArray:
        places = np.minimum(np.searchsorted(edges, part, "right") - 1, bins - 1)
        inside = (part >= edges[0]) & (part <= edges[-1])
        return np.where(inside, places, bins)

    return find


def _sums(x: NDArray, weight: NDArray | None, bins: int, find: Places) -> NDArray:
    """How many elements, or which weight, every bin has; block by block."""
    flat = x.reshape(-1)
    shares = None if weight is None else weight.reshape(-1)
    total = np.zeros(bins + 1, np.int64 if shares is None else np.float64)
    for start in range(0, flat.size, BLOCK):
        part = slice(start, start + BLOCK)
        total += np.bincount(find(flat[part]), None if shares is None else shares[part], bins + 1)
    return total[:bins]
