"""Reading by index: gather, index_select, advanced indexing, take, masks, nonzero.

Data only moves here, so every dtype passes, bfloat16 and float8 too.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ember.errors import check

NDArray = np.ndarray[Any, Any]
Shape = tuple[int, ...]
Indices = tuple[NDArray | None, ...]

SELF = "index out of range in self: "  # how PyTorch begins where it names no dim


class IndexRangeError(IndexError, RuntimeError):
    """An index that is not there: PyTorch raises one or the other, by op, dtype and shape."""


def gather(x: NDArray, dim: int, index: NDArray) -> NDArray:
    """y[i, j] = x[i, index[i, j]] for dim 1, and so on; y has the shape of index.

    IndexRangeError for an index out of range, as negative ones are.
    """
    places = flat_places(x.shape, dim, index)
    taken = np.asarray(np.take(words(x).reshape(-1), places, mode="clip"))
    return restored(taken, x.dtype)


def index_select(x: NDArray, dim: int, index: NDArray) -> NDArray:
    """The slices of x along dim that a vector (or a number) of indices names; IndexRangeError."""
    if x.ndim == 0:
        check_range(index, 1, 0, SELF)
        return np.array(x)
    check_range(index, x.shape[dim], dim % x.ndim, SELF)
    taken = np.take(words(x), index.reshape(-1), dim, mode="clip")
    return restored(np.ascontiguousarray(taken), x.dtype)


def index(x: NDArray, indices: Indices) -> NDArray:
    """x[indices]: integer or bool arrays that broadcast together, None for dims taken whole.

    The dims of the indices come where they stand if they stand together, else first. Negative
    indices count from the end. IndexError if out of range or if a mask has another shape.
    """
    key = index_key(x.shape, indices)
    arrays = [entry for entry in key if isinstance(entry, np.ndarray)]
    if not arrays:
        return np.array(x, order="C")
    source = words(x)
    if len(arrays) == 1 and arrays[0].dtype.kind == "i" and arrays[0].ndim:
        taken = np.take(source, arrays[0], len(key) - 1, mode="clip")
    else:
        taken = np.asarray(source[key])
    plain = all(entry.ndim == 0 for entry in arrays)  # NumPy gives a view of x for single numbers
    return restored(np.array(taken, order="C") if plain else np.ascontiguousarray(taken), x.dtype)


def take(x: NDArray, index: NDArray) -> NDArray:
    """x as a vector, at index (of any shape); negative ones count from the end. IndexError."""
    check(x.size or not index.size, IndexError, "take(): tried to take from an empty tensor")
    places = flat_range(index, x.size)
    return restored(np.asarray(np.take(words(x).reshape(-1), places, mode="clip")), x.dtype)


def masked_select(x: NDArray, mask: NDArray) -> NDArray:
    """The elements of x where mask holds, as a vector; the two broadcast."""
    shape = np.broadcast_shapes(x.shape, mask.shape)
    source = np.broadcast_to(words(x), shape)
    return restored(source[np.broadcast_to(mask, shape)], x.dtype)


def nonzero(x: NDArray) -> NDArray:
    """The indices of elements that are not zero, (n, ndim) int64, in order."""
    held = x if x.dtype == np.bool_ else x != 0
    places = np.flatnonzero(held)
    if x.ndim == 1:
        return places.reshape(-1, 1)
    found = np.empty((places.size, x.ndim), np.int64)
    for dim in range(x.ndim - 1, 0, -1):
        places, found[:, dim] = np.divmod(places, max(x.shape[dim], 1))
    if x.ndim:
        found[:, 0] = places
    return found


def words(x: NDArray) -> NDArray:
    """x with a type that NumPy moves fast: bfloat16 and float8 as the integers of their bits."""
    return x.view(f"u{x.itemsize}") if x.dtype.kind == "V" else x


def restored(x: NDArray, dtype: Any) -> NDArray:
    """The inverse of `words`."""
    return x.view(dtype) if x.dtype != dtype else x


def out_of_range(bad: int, dim: int, size: int) -> str:
    """PyTorch's phrase for an index that is not there."""
    return f"index {bad} is out of bounds for dimension {dim} with size {size}"


def check_range(index: NDArray, size: int, dim: int, prefix: str = "") -> None:
    """IndexRangeError unless 0 ≤ index < size everywhere."""
    if index.size and (index.min() < 0 or index.max() >= size):
        bad = int(index[(index < 0) | (index >= size)].flat[0]) if index.ndim else int(index)
        raise IndexRangeError(prefix + out_of_range(bad, dim, size))


def flat_places(shape: Shape, dim: int, index: NDArray) -> NDArray:
    """Where `index` along dim points in an array of `shape` seen as a vector; IndexRangeError."""
    if not shape:
        check_range(index, 1, 0)
        return index
    dim %= len(shape)
    check_range(index, shape[dim], dim)
    pitch = prod(shape[dim + 1 :])
    places = index * pitch if pitch > 1 else index
    for other, count in enumerate(index.shape):
        pitch = prod(shape[other + 1 :])
        if other != dim and count > 1:
            steps = np.arange(0, count * pitch, pitch) if pitch else np.zeros(count, np.int64)
            places = places + steps.reshape(-1, *[1] * (index.ndim - 1 - other))
    return places


def flat_range(index: NDArray, size: int) -> NDArray:
    """Indices into a vector of a size, made positive; IndexError."""
    if not index.size:
        return index
    low, high = index.min(), index.max()
    if low < -size or high >= size:
        bad = high if high >= size else low
        raise IndexError(
            f"out of range: tried to access index {bad} on a tensor of {size} elements."
        )
    return np.where(index < 0, index + size, index) if low < 0 else index


def index_key(shape: Shape, indices: Indices) -> tuple[Any, ...]:
    """A NumPy key of slices, positive int64 arrays and masks that fit an array of `shape`."""
    key: list[Any] = []
    dim = 0
    for entry in indices:
        if entry is None:
            key.append(slice(None))
            dim += 1
            continue
        is_mask = entry.dtype in (np.bool_, np.uint8)
        width = entry.ndim if is_mask else 1
        check(
            dim + width <= len(shape),
            IndexError,
            f"too many indices for tensor of dimension {len(shape)} (got {_width(indices)})",
        )
        if is_mask:
            _check_mask(entry, shape, dim)
            key.append(entry.astype(np.bool_, copy=False))
        else:
            key.append(_positive(entry, shape[dim], dim))
        dim += width
    while key and isinstance(key[-1], slice):
        key.pop()
    _check_broadcast(key)
    return tuple(key)


def _width(indices: Indices) -> int:
    """How many dims indices take."""
    masks = (np.bool_, np.uint8)
    return sum(1 if i is None or i.dtype not in masks else i.ndim for i in indices)


def _check_mask(mask: NDArray, shape: Shape, dim: int) -> None:
    for offset, size in enumerate(mask.shape):
        check(
            size == shape[dim + offset],
            IndexError,
            f"The shape of the mask {list(mask.shape)} at index {offset} does not match the shape "
            f"of the indexed tensor {list(shape)} at index {dim + offset}",
        )


def _positive(index: NDArray, size: int, dim: int) -> NDArray:
    """Indices along a dim, counted from its start; IndexError."""
    index = index.astype(np.int64, order="C", copy=False)
    if not index.size:
        return index
    check(size, IndexError, "index is out of bounds for dimension with size 0")
    low, high = index.min(), index.max()
    if low < -size or high >= size:
        bad = index[(index < -size) | (index >= size)].flat[0] if index.ndim else index
        raise IndexError(out_of_range(int(bad), dim, size))
    return np.where(index < 0, index + size, index) if low < 0 else index


def _check_broadcast(key: list[Any]) -> None:
    """IndexError unless index arrays broadcast together; a mask is as long as it has True."""
    shapes = []
    for entry in key:
        if isinstance(entry, np.ndarray):
            shapes.append((int(np.count_nonzero(entry)),) if entry.dtype == bool else entry.shape)
    if len(shapes) < 2:
        return
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise IndexError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes "
            + ", ".join(str(list(shape)) for shape in shapes)
        ) from None
