"""Writing by index: scatter, index_add and its kin, index_put, put, masked_scatter.

Every function returns a new array. Where an index occurs twice, the last value stays, or all are
accumulated. Data only moves in the plain forms, so every dtype passes there.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ember.backends.cpu import threads
from ember.backends.cpu.indexing import (
    SELF,
    Indices,
    check_range,
    flat_places,
    flat_range,
    index_key,
    out_of_range,
    restored,
    words,
)
from ember.backends.cpu.native import builtin
from ember.backends.cpu.row_sums_text import UNROLLED, row_sums_text
from ember.backends.cpu.tile_text import lanes
from ember.errors import check

NDArray = np.ndarray[Any, Any]
Shape = tuple[int, ...]

SPARSE_ELEMENTS = 1 << 18  # adding more than this to rows is worth importing scipy.sparse
DENSE = 4  # with less than one new row in so many, all rows are added
ROUNDS_WIDTH = 32  # rows as long as this are added whole, shorter ones element by element
SHORTEST_COMPILED, WORTH_COMPILING = 8, 1 << 13  # elements of a row, and of all that are added
GRAIN = 1 << 17  # additions that are worth a thread
NOTHING = np.empty(1, np.float32)
HEAVY = 8  # a row with more terms than this is summed by itself


def scatter(
    x: NDArray,
    dim: int,
    index: NDArray,
    src: Any,
    reduce: str | None = None,
    include_self: bool = True,
) -> NDArray:
    """out[i, index[i, j]] = src[i, j] for dim 1, and so on: `gather` turned round.

    src is an array at least as large as index, or a number. With `reduce` ("add" or "sum",
    "multiply" or "prod", "mean", "amax", "amin") values are combined, also with x's unless
    include_self is False. IndexRangeError.
    """
    places = flat_places(x.shape, dim, index).reshape(-1)
    values = src
    if isinstance(src, np.ndarray) and src.ndim:
        values = src[tuple(slice(count) for count in index.shape)].reshape(-1)
    return _combine_flat(x, places, values, reduce, include_self)


def index_add(
    x: NDArray,
    dim: int,
    index: NDArray,
    source: NDArray,
    alpha: Any = 1,
    out: NDArray | None = None,
) -> NDArray:
    """x with alpha·source's slices along dim added at index, in `out`, dense, if it is given.
    IndexRangeError."""
    check_range(index, *_size_along(x.shape, dim), SELF)
    if alpha != 1:
        source = source * source.dtype.type(alpha)
    if out is None:
        out = np.empty(x.shape, x.dtype)
    np.copyto(out, x)
    if x.ndim == 0:
        np.add.at(out.reshape(1), index.reshape(-1), source.reshape(-1))
        return out
    dim %= x.ndim
    if prod(x.shape[:dim]) == 1:
        rows = out.reshape(x.shape[dim], prod(x.shape[dim + 1 :]))
        accumulate_rows(rows, index.reshape(-1), source.reshape(index.size, rows.shape[1]))
    else:
        np.add.at(out.reshape(-1), _slice_places(x.shape, dim, index), source.reshape(-1))
    return out


def index_copy(x: NDArray, dim: int, index: NDArray, source: NDArray) -> NDArray:
    """x with source's slices along dim at index. IndexRangeError."""
    check_range(index, *_size_along(x.shape, dim), "index_copy_(): ")
    out = np.array(x, order="C")
    target = words(out)
    if x.ndim == 0:
        target.reshape(1)[index.reshape(-1)] = words(source).reshape(-1)
    else:
        target[(slice(None),) * (dim % x.ndim) + (index.reshape(-1),)] = words(source)
    return out


def index_fill(x: NDArray, dim: int, index: NDArray, value: Any) -> NDArray:
    """x with a number in its slices along dim at index; negative ones count from the end.
    IndexError."""
    size, dim = _size_along(x.shape, dim)
    low, high = (index.min(), index.max()) if index.size else (0, -1)
    bad = high if high >= size else low
    check(-size <= low and high < size, IndexError, out_of_range(bad, dim, size))
    out = np.array(x, order="C")
    target = out.reshape(1) if x.ndim == 0 else out
    target[(slice(None),) * dim + (index.reshape(-1),)] = value
    return out


def index_reduce(
    x: NDArray,
    dim: int,
    index: NDArray,
    source: NDArray,
    reduce: str,
    include_self: bool = True,
) -> NDArray:
    """x with source's slices along dim combined at index by "prod", "mean", "amax" or "amin"."""
    shape = x.shape or (1,)
    dim %= len(shape)
    check_range(index, shape[dim], dim, SELF)
    places = _slice_places(shape, dim, index)
    return _combine_flat(x, places, source.reshape(-1), reduce, include_self)


def index_put(x: NDArray, indices: Indices, values: NDArray, accumulate: bool = False) -> NDArray:
    """x with values (broadcast) at x[indices], or added there: `index` turned round."""
    key = index_key(x.shape, indices)
    out = np.array(x, order="C")
    shape = _indexed_shape(x.shape, key)
    try:
        spread = np.broadcast_to(words(values), shape)
    except ValueError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to "
            f"indexing result of shape {list(shape)}"
        ) from None
    if accumulate and any(isinstance(entry, np.ndarray) for entry in key):
        _add_at_key(out, key, restored(spread, x.dtype))
    elif accumulate:
        out += spread
    else:
        words(out)[key] = spread
    return out


def put(x: NDArray, index: NDArray, source: NDArray, accumulate: bool = False) -> NDArray:
    """x, seen as a vector, with source's elements at index, or added there. IndexError."""
    check(
        source.size == index.size,
        IndexError,
        "put_(): Expected source and index to have the same number of elements, but got "
        f"source.numel() = {source.size}, index.numel() = {index.size}",
    )
    places = flat_range(index, x.size).reshape(-1)
    out = np.array(x, order="C")
    if accumulate:
        np.add.at(out.reshape(-1), places, source.reshape(-1))
    else:
        words(out).reshape(-1)[places] = words(source).reshape(-1)
    return out


def masked_scatter(x: NDArray, mask: NDArray, source: NDArray) -> NDArray:
    """x with source's elements, in order, where mask holds; x and mask broadcast. RuntimeError."""
    shape = np.broadcast_shapes(x.shape, mask.shape)
    out = np.array(np.broadcast_to(x, shape), order="C")
    spread = np.broadcast_to(mask, shape)
    count = int(np.count_nonzero(spread))
    check(
        count <= source.size,
        RuntimeError,
        f"Number of elements of source < number of ones in mask: {source.size} < {count}",
    )
    words(out)[spread] = words(source).reshape(-1)[:count]
    return out


def _size_along(shape: Shape, dim: int) -> tuple[int, int]:
    """The size of a dim and the dim counted from the first; a number has one dim of 1."""
    shape = shape or (1,)
    return shape[dim], dim % len(shape)


def accumulate_rows(out: NDArray, rows: NDArray, source: NDArray) -> None:
    """out[rows[i]] += source[i] for all i, in place; (n, width), (m,), (m, width).

    The gradient of an embedding is this, so it has four ways: compiled, for float32; a sparse
    product where SciPy is there and the work is large; whole rows, in rounds in which no row occurs
    twice; elements.
    """
    width = out.shape[1]
    if source.size >= WORTH_COMPILING and _is_compiled(out, rows, source):
        _add_compiled(out, rows, source)
        return
    if source.size >= SPARSE_ELEMENTS and out.dtype.kind in "fc":
        try:
            from scipy.sparse import csr_array
        except ImportError:
            pass
        else:
            ones, starts = np.ones(len(rows), out.dtype), np.arange(len(rows) + 1)
            if out.size <= DENSE * source.size:
                out += csr_array((ones, rows, starts), shape=(len(rows), len(out))).T @ source
            else:
                used, rows = np.unique(rows, return_inverse=True)
                picks = csr_array((ones, rows, starts), shape=(len(rows), len(used)))
                out[used] += picks.T @ source
            return
    if width >= ROUNDS_WIDTH:
        _add_in_rounds(out, rows, source)
    else:
        places = rows[:, None] * width + np.arange(width)
        np.add.at(out.reshape(-1), places.reshape(-1), source.reshape(-1))


def _is_compiled(out: NDArray, rows: NDArray, source: NDArray) -> bool:
    return bool(
        out.dtype == np.float32
        and source.dtype == np.float32
        and out.shape[1] >= SHORTEST_COMPILED
        and out.flags.c_contiguous
        and source.strides[1] == source.itemsize
        and rows.min() >= 0
        and rows.max() < len(out)
    )


def _add_compiled(out: NDArray, rows: NDArray, source: NDArray) -> None:
    """Each thread adds a part of all rows."""
    width, block = out.shape[1], UNROLLED * lanes()
    kernel = builtin(row_sums_text(lanes()))
    table = [len(rows), width, source.strides[0] // source.itemsize]
    given = source, out, np.ascontiguousarray(rows, np.int64), np.array(table, np.int64)

    def part(begin: int, end: int) -> None:
        kernel(*given, NOTHING, begin, end)

    threads.split(part, -(-width // block), max(1, GRAIN // (len(rows) * block)))


def _add_in_rounds(out: NDArray, rows: NDArray, source: NDArray) -> None:
    """Round k adds the k-th term of every row, so that no row occurs twice in a round."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    counts = np.diff(starts, append=len(rows))
    targets = ordered[starts]
    heavy = counts > HEAVY
    for start, count, row in zip(starts[heavy], counts[heavy], targets[heavy]):
        terms = source[order[start : start + count]]
        out[row] += np.add.reduce(terms, 0, dtype=out.dtype)
    starts, counts, targets = starts[~heavy], counts[~heavy], targets[~heavy]
    done = 0
    while len(starts):
        out[targets] += source[order[starts + done]]
        done += 1
        left = counts > done
        starts, counts, targets = starts[left], counts[left], targets[left]


def _slice_places(shape: Shape, dim: int, index: NDArray) -> NDArray:
    """Where the slices of an array along dim that index names are in it seen as a vector."""
    after = prod(shape[dim + 1 :])
    before = np.arange(prod(shape[:dim])) * (shape[dim] * after)
    places = before[:, None, None] + (index.reshape(-1) * after)[:, None] + np.arange(after)
    return places.reshape(-1)


def _combine_flat(
    x: NDArray, places: NDArray, values: Any, reduce: str | None, include_self: bool
) -> NDArray:
    """x with values at places of x seen as a vector, combined by name."""
    out = np.array(x, order="C")
    flat = out.reshape(-1)
    if reduce is None:
        stored = np.asarray(values, x.dtype)
        words(flat)[places] = words(stored)
        return out
    name = {"add": "sum", "multiply": "prod"}.get(reduce, reduce)
    if not include_self:
        flat[places] = _identity(name, x.dtype)
    COMBINE[name].at(flat, places, x.dtype.type(values) if np.isscalar(values) else values)
    if name == "mean":
        counts = np.full(flat.shape, int(include_self), np.int64)
        np.add.at(counts, places, 1)
        np.maximum(counts, 1, out=counts)
        divide = np.floor_divide if x.dtype.kind in "iu" else np.divide
        divide(flat, counts.astype(x.dtype), out=flat)
    return out


COMBINE = {
    "sum": np.add,
    "mean": np.add,
    "prod": np.multiply,
    "amax": np.maximum,
    "amin": np.minimum,
}


def _identity(name: str, dtype: Any) -> Any:
    """What changes nothing when combined."""
    if dtype.kind == "V":
        return np.asarray(_identity(name, np.dtype(np.float32)), dtype)
    if name in ("sum", "mean", "prod"):
        return dtype.type(name == "prod")
    if dtype.kind == "b":
        return name == "amin"
    if dtype.kind == "f":
        return np.inf if name == "amin" else -np.inf
    limits = np.iinfo(dtype)
    return limits.max if name == "amin" else limits.min


def _as_numbers(key: tuple[Any, ...]) -> list[Any]:
    """A key with masks replaced by the indices of what they hold."""
    plain: list[Any] = []
    for entry in key:
        is_mask = isinstance(entry, np.ndarray) and entry.dtype == np.bool_
        plain.extend(np.nonzero(entry) if is_mask and entry.ndim else [entry])
    return plain


def _layout_of(plain: list[Any]) -> tuple[list[int], int]:
    """Which dims a key without masks indexes by arrays, and where their broadcast dims go."""
    dims = [dim for dim, entry in enumerate(plain) if isinstance(entry, np.ndarray)]
    together = dims == list(range(dims[0], dims[0] + len(dims)))
    return dims, dims[0] if together else 0


def _indexed_shape(shape: Shape, key: tuple[Any, ...]) -> Shape:
    """The shape of x[key], without reading x."""
    if _has_number_mask(key):
        return np.broadcast_to(np.empty((), np.bool_), shape)[key].shape
    plain = _as_numbers(key)
    if not plain:
        return shape
    dims, place = _layout_of(plain)
    rest = tuple(size for dim, size in enumerate(shape) if dim not in dims)
    count = np.broadcast_shapes(*(plain[dim].shape for dim in dims))
    return rest[:place] + count + rest[place:]


def _has_number_mask(key: tuple[Any, ...]) -> bool:
    """Whether a mask without dims is in a key: it takes no dim and adds one."""
    return any(isinstance(e, np.ndarray) and e.ndim == 0 and e.dtype == np.bool_ for e in key)


def _add_at_key(out: NDArray, key: tuple[Any, ...], values: NDArray) -> None:
    """out[key] += values, with repeated indices adding up, in place."""
    if _has_number_mask(key):
        np.add.at(out, key, values)  # a mask without dims: nothing can occur twice
        return
    plain = _as_numbers(key)
    dims, place = _layout_of(plain)
    arrays = np.broadcast_arrays(*(plain[dim] for dim in dims))
    rest = [dim for dim in range(out.ndim) if dim not in dims]
    count = arrays[0].ndim
    moved = np.moveaxis(values, range(place, place + count), range(count))
    rows = np.zeros(arrays[0].shape, np.int64)
    for dim, entry in zip(dims, arrays):
        rows = rows * out.shape[dim] + entry
    height = prod(out.shape[dim] for dim in dims)
    width = prod(out.shape[dim] for dim in rest)
    source = moved.reshape(rows.size, width)
    if dims == list(range(len(dims))):
        accumulate_rows(out.reshape(height, width), rows.reshape(-1), source)
        return
    order = dims + rest
    turned = np.ascontiguousarray(out.transpose(order))
    accumulate_rows(turned.reshape(height, width), rows.reshape(-1), source)
    out[...] = turned.transpose(np.argsort(order))
