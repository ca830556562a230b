"""Sorting and selection along a dim. NaN is larger than every number; values keep their dtype.

Functions that choose elements give (values, int64 indices). A number counts as a vector of one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ember.backends.cpu.indexing import restored, words
from ember.backends.cpu.sort_keys import comparable, smallest_places, sort_keys, stable_order
from ember.errors import check

NDArray = np.ndarray[Any, Any]
Pair = tuple[NDArray, NDArray]


def sort(x: NDArray, dim: int = -1, descending: bool = False, stable: bool = True) -> Pair:
    """x in order along dim, and where its elements were; equals always keep their order."""
    rows = _rows(x, dim)
    order = stable_order(rows, descending)
    return _pair(rows, order, x, dim)


def argsort(x: NDArray, dim: int = -1, descending: bool = False, stable: bool = True) -> NDArray:
    """The indices of `sort`."""
    return _placed(stable_order(_rows(x, dim), descending), x, dim)


BLOCKS = 8  # blocks for each element that is wanted: more leave fewer candidates
SHORTEST_BLOCK = 8  # elements of a block from which that beats a partition


def topk(x: NDArray, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Pair:
    """The k largest (or smallest) elements along dim, in order."""
    if x.ndim == 0:
        return np.array(x), np.zeros((), np.int64)
    rows = _rows(x, dim)
    count = rows.shape[-1]
    check(0 <= k <= count, RuntimeError, "selected index k out of range")
    if k == 0 or not rows.size:
        order: Any = np.zeros((*rows.shape[:-1], k), np.int64)
    elif k == 1:
        order = _first_extreme(rows, largest)[..., None]
    elif k == count:
        order = stable_order(rows, largest)
    else:
        order = _among_few(rows, k, largest, sorted)
        if order is None:
            order = smallest_places(sort_keys(rows, largest), k, sorted)
    return _pair(rows, order, x, dim)


def _among_few(rows: NDArray, k: int, largest: bool, sorted: bool) -> NDArray | None:
    """The places of the k largest (or smallest), looked for only among the elements that are not
    below the k-th of the maxima of blocks; None where that does not pay, or for NaN."""
    count = rows.shape[-1]
    blocks = BLOCKS * k
    size = count // blocks
    if size < SHORTEST_BLOCK or rows.dtype.kind not in "fi" or rows.dtype.itemsize < 4:
        return None
    flat = np.ascontiguousarray(rows).reshape(-1, count)
    head = flat[:, : blocks * size].reshape(len(flat), blocks, size)
    best = head.max(-1) if largest else head.min(-1)
    if rows.dtype.kind == "f" and (
        np.isnan(best).any() or np.isnan(flat[:, blocks * size :]).any()
    ):
        return None
    place = blocks - k if largest else k - 1
    bound = np.partition(best, place, -1)[:, place : place + 1]
    held = np.flatnonzero(flat >= bound if largest else flat <= bound)
    row, column = np.divmod(held, count)
    counts = np.bincount(row, minlength=len(flat))
    widest = int(counts.max())
    if widest > count // 4:
        return None
    # The candidates of each row in order, those of short rows followed by what is never chosen.
    slots = np.arange(len(held)) - np.repeat(np.cumsum(counts) - counts, counts)
    keys = np.full((len(flat), widest), np.iinfo(f"u{rows.dtype.itemsize}").max)
    keys = keys.astype(f"u{rows.dtype.itemsize}")
    keys[row, slots] = sort_keys(flat.reshape(-1)[held], largest)
    places = np.zeros(keys.shape, np.int64)
    places[row, slots] = column
    found = np.take_along_axis(places, smallest_places(keys, k, sorted), -1)
    return found.reshape(*rows.shape[:-1], k)


def kthvalue(x: NDArray, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
    """The k-th smallest element along dim, k from 1."""
    rows = _rows(x, dim)
    check(
        1 <= k <= rows.shape[-1],
        RuntimeError,
        "kthvalue(): selected number k out of range for dimension",
    )
    order = _kth_places(rows, k)
    return _reduced_pair(rows, order, x, dim, keepdim)


def median(x: NDArray, dim: int = -1, keepdim: bool = False) -> Pair:
    """The lower median along dim; NaN, at its first place, if there is one."""
    rows = _rows(x, dim)
    check(rows.shape[-1], IndexError, _no_elements("median", dim))
    order = _kth_places(rows, (rows.shape[-1] + 1) // 2)
    if rows.dtype.kind in "fV":
        nan = np.isnan(comparable(rows))
        order = np.where(nan.any(-1), nan.argmax(-1), order)
    return _reduced_pair(rows, order, x, dim, keepdim)


def nanmedian(x: NDArray, dim: int = -1, keepdim: bool = False) -> Pair:
    """The lower median of the numbers along dim; NaN if there are none."""
    rows = _rows(x, dim)
    check(rows.shape[-1], IndexError, _no_elements("nanmedian", dim))
    if rows.dtype.kind not in "fV":
        return median(x, dim, keepdim)
    held = np.count_nonzero(~np.isnan(comparable(rows)), -1)
    order = stable_order(rows)
    middle = np.maximum(held - 1, 0) // 2
    chosen = np.take_along_axis(order, middle[..., None], -1)[..., 0]
    return _reduced_pair(rows, chosen, x, dim, keepdim)


def median_all(x: NDArray) -> NDArray:
    """The lower median of all elements, without dims; NaN if there are none or one is NaN."""
    return median(x.reshape(-1))[0] if x.size else _nothing(x)


def nanmedian_all(x: NDArray) -> NDArray:
    """The lower median of all numbers, without dims; NaN if there are none."""
    return nanmedian(x.reshape(-1))[0] if x.size else _nothing(x)


def mode(x: NDArray, dim: int = -1, keepdim: bool = False) -> Pair:
    """The most frequent value along dim, the smallest of several, and where it is last."""
    rows = _rows(x, dim)
    check(rows.shape[-1], IndexError, _no_elements("mode", dim))
    order = stable_order(rows)
    ordered = np.take_along_axis(comparable(rows), order, -1)
    places = np.arange(rows.shape[-1])
    starts = np.zeros(order.shape, np.int64)
    starts[..., 1:] = np.where(ordered[..., 1:] != ordered[..., :-1], places[1:], 0)
    lengths = places - np.maximum.accumulate(starts, -1)
    chosen = np.take_along_axis(order, lengths.argmax(-1)[..., None], -1)[..., 0]
    return _reduced_pair(rows, chosen, x, dim, keepdim)


def argmax(x: NDArray, dim: int | None = None, keepdim: bool = False) -> NDArray:
    """Where the largest element along dim (or of all) is first; NaN is largest."""
    return _arg_extreme(x, dim, keepdim, True)


def argmin(x: NDArray, dim: int | None = None, keepdim: bool = False) -> NDArray:
    """Where the smallest element along dim (or of all) is first; NaN is smallest."""
    return _arg_extreme(x, dim, keepdim, False)


def aminmax(x: NDArray, dim: int | None = None, keepdim: bool = False) -> Pair:
    """The smallest and largest element along dim (or of all); NaN if one is NaN."""
    numbers = comparable(x)
    axis = dim if x.ndim else None
    low = np.asarray(numbers.min(axis, keepdims=keepdim))
    high = np.asarray(numbers.max(axis, keepdims=keepdim))
    if numbers.dtype == x.dtype:
        return low, high
    if x.dtype == np.bool_:
        return low.view(np.bool_), high.view(np.bool_)
    return low.astype(x.dtype), high.astype(x.dtype)


def _rows(x: NDArray, dim: int) -> NDArray:
    """x with dim last; a number as a vector."""
    return np.moveaxis(x, dim, -1) if x.ndim else x.reshape(1)


def _placed(rows: NDArray, x: NDArray, dim: int) -> NDArray:
    """Results along the last axis back at dim, dense."""
    return np.ascontiguousarray(np.moveaxis(rows, -1, dim)) if x.ndim else rows.reshape(())


def _picked(rows: NDArray, order: NDArray) -> NDArray:
    """The elements of rows at places along the last axis."""
    if not order.size:
        return np.empty(order.shape, rows.dtype)
    source = words(rows)
    if order.ndim == 1:
        return restored(source[order], rows.dtype)
    starts = np.arange(0, source.size, rows.shape[-1]).reshape(*rows.shape[:-1], 1)
    return restored(np.take(source.reshape(-1), order + starts, mode="clip"), rows.dtype)


def _pair(rows: NDArray, order: NDArray, x: NDArray, dim: int) -> Pair:
    return _placed(_picked(rows, order), x, dim), _placed(order, x, dim)


def _reduced_pair(rows: NDArray, order: NDArray, x: NDArray, dim: int, keepdim: bool) -> Pair:
    """One element of each row and its place, with or without the dim."""
    values, places = _pair(rows, order[..., None], x, dim)
    if keepdim or not x.ndim:
        return values, places
    return values.squeeze(dim), places.squeeze(dim)


def _kth_places(rows: NDArray, k: int) -> NDArray:
    """Where the k-th smallest element of each row is."""
    if not rows.size:
        return np.zeros(rows.shape[:-1], np.int64)
    return smallest_places(sort_keys(rows), k, False)[..., -1]


def _first_extreme(rows: NDArray, largest: bool) -> NDArray:
    """Where the largest or smallest element of each row is; NaN is the largest there is."""
    if largest:
        return comparable(rows).argmax(-1)
    return sort_keys(rows).argmin(-1)


def _arg_extreme(x: NDArray, dim: int | None, keepdim: bool, largest: bool) -> NDArray:
    numbers = comparable(x)
    if numbers.dtype == np.float16:
        numbers = numbers.astype(np.float32)
    if x.ndim == 0:
        return np.zeros((), np.int64)
    find = np.argmax if largest else np.argmin
    return np.asarray(find(numbers, dim, keepdims=keepdim))


def _no_elements(name: str, dim: int) -> str:
    return f"{name}(): Expected reduction dim {dim} to have non-zero size."


def _nothing(x: NDArray) -> NDArray:
    """The median of nothing: NaN, or what the processor makes of NaN as an integer."""
    if x.dtype.kind in "fV":
        return np.asarray(np.nan, x.dtype)
    return np.asarray(np.iinfo(x.dtype).min if x.dtype.itemsize >= 4 else 0, x.dtype)
