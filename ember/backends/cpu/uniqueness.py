"""Distinct values: unique, unique_consecutive, isin."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ember.backends.cpu.sort_keys import comparable, stable_order
from ember.errors import check

NDArray = np.ndarray[Any, Any]
Triple = tuple[NDArray, NDArray, NDArray]


def unique(
    x: NDArray,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Triple:
    """The distinct elements (or slices along dim) in order, where each went, and how often each is.

    Of equals the first is kept; NaN equals nothing. What was not asked for is empty.
    """
    if dim is not None and x.ndim:
        return _unique_slices(x, dim, return_inverse, return_counts, consecutive=False)
    flat = x.reshape(-1)
    if flat.dtype.kind in "iu" and not return_inverse:
        ordered = np.sort(flat)
        starts = _run_starts(ordered[1:] != ordered[:-1], ordered.size)
        return ordered[starts], _none(), _run_lengths(starts, flat.size, return_counts)
    order = stable_order(flat)
    ordered = flat[order]
    numbers = comparable(ordered)
    starts = _run_starts(numbers[1:] != numbers[:-1], flat.size)
    inverse = _numbers_of(starts, order).reshape(x.shape) if return_inverse else _none()
    return ordered[starts], inverse, _run_lengths(starts, flat.size, return_counts)


def unique_consecutive(
    x: NDArray,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Triple:
    """The first of every run of equal elements (or slices along dim); else as `unique`."""
    if dim is not None and x.ndim:
        return _unique_slices(x, dim, return_inverse, return_counts, consecutive=True)
    flat = np.array(x).reshape(-1)
    numbers = comparable(flat)
    starts = _run_starts(numbers[1:] != numbers[:-1], flat.size)
    inverse = _none()
    if return_inverse:
        inverse = _numbers_of(starts, np.arange(flat.size)).reshape(x.shape)
    return flat[starts], inverse, _run_lengths(starts, flat.size, return_counts)


def isin(elements: NDArray, test_elements: NDArray, invert: bool = False) -> NDArray:
    """Whether each element is among test_elements; NaN is not."""
    found = np.isin(comparable(elements), comparable(test_elements), invert=invert)
    return np.asarray(found)


def _unique_slices(
    x: NDArray, dim: int, return_inverse: bool, return_counts: bool, consecutive: bool
) -> Triple:
    """Distinct slices along dim, ordered by their first elements, then their second, and so on."""
    count = x.shape[dim]
    width = prod(x.shape) // count if count else 0
    moved = np.moveaxis(x, dim, 0)
    if not count:
        check(
            all(size for place, size in enumerate(x.shape) if place != dim % x.ndim),
            RuntimeError,
            "Number of zero sized dimensions is more than one, so unique cannot be applied ",
        )
        return np.array(x, order="C"), _none(), _none()
    check(
        width,
        RuntimeError,
        "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied",
    )
    rows = comparable(moved.reshape(count, width))
    order = np.arange(count) if consecutive else _row_order(rows)
    ordered = rows[order]
    starts = _run_starts((ordered[1:] != ordered[:-1]).any(1), count)
    inverse = _numbers_of(starts, order) if return_inverse else _none()
    chosen = np.ascontiguousarray(np.moveaxis(moved[order[starts]], 0, dim))
    return chosen, inverse, _run_lengths(starts, count, return_counts)


def _row_order(rows: NDArray) -> NDArray:
    """The stable lexicographic order of rows: ranks are refined column by column while rows tie."""
    order = stable_order(rows[:, 0])
    runs = np.zeros(len(rows), np.int64)
    for column in range(rows.shape[1]):
        ordered = rows[order, column]
        if column:
            # Within runs of equal rows so far, by this column.
            inner = stable_order(ordered)
            place = inner[np.argsort(runs[inner], kind="stable")]
            order, ordered = order[place], ordered[place]
        fresh = ordered[1:] != ordered[:-1]
        fresh |= runs[1:] != runs[:-1]
        runs[1:] = np.cumsum(fresh)
        if fresh.all():
            break
    return order


def _none() -> NDArray:
    return np.empty(0, np.int64)


def _run_starts(fresh: NDArray, count: int) -> NDArray:
    """Where runs start, from whether each element but the first differs from the one before."""
    if not count:
        return _none()
    return np.concatenate([np.zeros(1, np.int64), np.flatnonzero(fresh) + 1])


def _run_lengths(starts: NDArray, count: int, wanted: bool) -> NDArray:
    return np.diff(starts, append=count) if wanted else _none()


def _numbers_of(starts: NDArray, order: NDArray) -> NDArray:
    """The number of the run that each element is in, in the elements' own order."""
    marks = np.zeros(order.size, np.int64)
    marks[starts[1:]] = 1
    numbers = np.empty(order.size, np.int64)
    numbers[order] = np.cumsum(marks)
    return numbers
