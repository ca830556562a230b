"""Order as unsigned integers, with the index in the low bits: one fast unstable sort is then a
stable one.

NumPy sorts 32- and 64-bit integers with vector instructions, several times faster than it sorts
indices stably. So values become integers of the same order (NaN largest, −0 equal to 0), the
position goes below them in one word, and what is sorted is that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

NDArray = np.ndarray[Any, Any]

FEW = 256  # so few elements are sorted before they are packed


def sort_keys(x: NDArray, descending: bool = False) -> NDArray:
    """Unsigned integers in the order of x (or the reverse): NaN is largest, equal values are
    equal."""
    x = comparable(x)
    width = x.itemsize * 8
    unsigned = f"u{x.itemsize}"
    if x.dtype.kind == "f":
        bits = np.add(x, 0, order="C").view(f"i{x.itemsize}")  # -0 + 0 is 0
        # Negative floats grow with their bits, positive ones do not.
        keys = (bits ^ ((bits >> (width - 1)) & np.iinfo(bits.dtype).max)).view(unsigned)
        keys ^= keys.dtype.type(1 << (width - 1))
        nan = np.isnan(x)
        if nan.any():
            keys[nan] = np.iinfo(keys.dtype).max
    elif x.dtype.kind == "i":
        keys = np.ascontiguousarray(x).view(unsigned) ^ np.dtype(unsigned).type(1 << (width - 1))
    else:
        keys = np.array(x, order="C").view(unsigned)
    return np.invert(keys, out=keys) if descending else keys


def comparable(x: NDArray) -> NDArray:
    """x in a type that NumPy compares: bfloat16 and float8 as float32, bool as uint8."""
    if x.dtype.kind == "V":
        return x.astype(np.float32)
    return x.view(np.uint8) if x.dtype.kind == "b" else x


def packed(keys: NDArray) -> tuple[NDArray, int] | None:
    """Keys with their place along the last axis in the low bits, and how many those are.

    None if 64 bits do not hold both.
    """
    places = max(keys.shape[-1] - 1, 1).bit_length()
    width = keys.itemsize * 8
    if width == 64 and keys.size:
        keys = keys - keys.min()
        width = int(keys.max()).bit_length()
    if width + places > 64:
        return None
    word = np.uint32 if width + places <= 32 else np.uint64
    words: NDArray = keys.astype(word)
    np.left_shift(words, word(places), out=words)
    np.bitwise_or(words, np.arange(keys.shape[-1], dtype=word), out=words)
    return words, places


def unpacked(words: NDArray, places: int) -> NDArray:
    """The places of packed keys, as int64."""
    return (words & words.dtype.type((1 << places) - 1)).astype(np.int64)


def stable_order(x: NDArray, descending: bool = False) -> NDArray:
    """The places of x's elements in order along the last axis, equals in their own order."""
    if x.size <= FEW:
        numbers = comparable(x)
        if not descending:
            return np.argsort(numbers, -1, kind="stable")
        backwards = np.argsort(numbers[..., ::-1], -1, kind="stable")[..., ::-1]
        return x.shape[-1] - 1 - backwards
    keys = sort_keys(x, descending)
    pair = packed(keys)
    if pair is not None:
        words, places = pair
        words.sort(-1)
        return unpacked(words, places)
    order = np.argsort(keys, -1)
    ordered = np.take_along_axis(keys, order, -1)
    fresh = ordered[..., 1:] != ordered[..., :-1]
    if fresh.all():
        return order
    # Equals came in any order: sort them again by (number of the run, place).
    runs = np.zeros(keys.shape, np.uint64)
    np.cumsum(fresh, -1, out=runs[..., 1:])
    places = (keys.shape[-1] - 1).bit_length()
    runs <<= np.uint64(places)
    runs |= order.astype(np.uint64)
    runs.sort(-1)
    return unpacked(runs, places)


def smallest_places(keys: NDArray, k: int, ordered: bool) -> NDArray:
    """The places of the k smallest keys along the last axis; the last of them is the k-th.

    Of equals the first are taken.
    """
    pair = packed(keys)
    if pair is not None:
        words, places = pair
        words.partition(k - 1, -1)
        chosen = words[..., :k]
        if ordered:
            chosen.sort(-1)
        return unpacked(chosen, places)
    # All that are smaller than the k-th, and as many of its equals, from the first, as are missing.
    bound = np.partition(keys, k - 1, -1)[..., k - 1 : k]
    smaller, equal = keys < bound, keys == bound
    missing = k - np.count_nonzero(smaller, -1, keepdims=True)
    held = smaller | (equal & (np.cumsum(equal, -1) <= missing))
    chosen = np.nonzero(held)[-1].reshape(*keys.shape[:-1], k)
    values = np.take_along_axis(keys, chosen, -1)
    return np.take_along_axis(chosen, np.argsort(values, -1, kind="stable"), -1)
