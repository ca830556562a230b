"""Max and average pooling over windows, for any number of spatial dims.

Shapes: x (..., *S), result (..., *O); kernel, stride, padding and dilation have one entry for each
spatial dim. O is given: with ceil_mode windows may reach past the right padding, where nothing is
taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ember.backends.cpu import pooling_text, threads
from ember.backends.cpu.native import builtin
from ember.backends.cpu.tile_text import lanes

NDArray = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

WORTH_COMPILING = 1 << 13  # elements from which compiled functions pay
GRAIN = 1 << 18  # elements of windows that are worth a thread
NOTHING = np.empty(1, np.float32)
BLOCK_BYTES = (
    512 << 10
)  # planes worked on together, so that every pass over them finds them in the cache


class Windows(NamedTuple):
    """What the windows of a max pooling read, for planes of one size."""

    after: Sizes  # how far windows reach past each dim, padding included
    taps: list[
        Any
    ]  # for each tap, the slices of a padded plane that hold its pixel of every window
    offsets: NDArray  # for each tap, how far its flat index is from its window's origin
    origins: NDArray  # the flat index at which each window starts, which padding may make negative
    first: NDArray  # the number of each window's first tap that is not padding


def max_pool(
    x: NDArray,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    output_size: Sizes,
    outs: tuple[NDArray, NDArray] | None = None,
) -> tuple[NDArray, NDArray]:
    """The largest value of each window and its flat index in its plane, as int64; into `outs`,
    dense, if they are given.

    The first of equals is taken; NaN is larger than all, and the last NaN of a window is taken.
    """
    dims, sizes = len(kernel), x.shape[x.ndim - len(kernel) :]
    lead = x.shape[: x.ndim - dims]
    shape = (prod(lead), *output_size)
    if outs is None:
        outs = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    values, indices = (out.reshape(shape) for out in outs)
    how = (kernel, stride, padding)
    if values.size and dims <= 2 and set(dilation) == {1} and _is_compiled(x, stride):
        _largest_compiled(x.reshape(len(values), *sizes), how, values, indices)
    elif values.size:
        windows = _windows(sizes, kernel, stride, padding, dilation, output_size)
        planes = x.reshape(len(values), *sizes)
        plane_bytes = max(prod(sizes), prod(kernel) * prod(output_size)) * x.itemsize
        for part in plane_blocks(len(values), plane_bytes):
            source = surrounded(planes[part], padding, windows.after, lowest(x.dtype))
            _largest_taps(source, windows, values[part], indices[part])
        if (windows.origins + windows.offsets[windows.first]).max() >= prod(sizes):
            # Windows that fall between pixels, all padding.
            np.minimum(indices, prod(sizes) - 1, out=indices)
    return values.reshape(*lead, *output_size), indices.reshape(*lead, *output_size)


def max_pool_backward(
    g: NDArray, indices: NDArray, input_shape: Sizes, dims: int, out: NDArray | None = None
) -> NDArray:
    """g added at the indices that a max pooling over the last `dims` dims found; into `out`, dense,
    if it is given."""
    if out is None:
        out = np.empty(input_shape, g.dtype)
    plane = prod(input_shape[len(input_shape) - dims :])
    if g.size >= WORTH_COMPILING and g.dtype == np.float32:
        _put_back_compiled(g, indices, out, plane)
        return out
    out.fill(0)
    if g.size:
        windows = prod(g.shape[g.ndim - dims :])
        places = indices.reshape(-1, windows) + np.arange(g.size // windows)[:, None] * plane
        np.add.at(out.reshape(-1), places.reshape(-1), g.reshape(-1))
    return out


def _is_compiled(x: NDArray, stride: Sizes) -> bool:
    large = x.dtype == np.float32 and x.size >= WORTH_COMPILING
    return large and stride[-1] in pooling_text.STEPS and x[:1].size < 1 << 31


def _largest_compiled(
    planes: NDArray, how: tuple[Sizes, Sizes, Sizes], values: NDArray, indices: NDArray
) -> None:
    """The greatest of all windows of one or two dims, compiled."""
    kernel, stride, padding = ((*(first,) * (2 - len(sizes)), *sizes) for first, sizes in zip(
        (1, 1, 0), how
    ))  # fmt: skip
    shape, made = ((*(1,) * (3 - a.ndim), *a.shape[1:]) for a in (planes, values))
    code = builtin(pooling_text.max_pool_text(lanes(), stride[-1]))
    table = [*shape, *made, *kernel, stride[0], *padding]
    given = np.ascontiguousarray(planes), values, indices, np.array(table, np.int64)
    work = prod(made) * prod(kernel)
    threads.split(lambda *part: code(*given, NOTHING, *part), len(planes), max(1, GRAIN // work))


def _put_back_compiled(g: NDArray, indices: NDArray, out: NDArray, plane: int) -> None:
    planes = out.size // plane
    table = np.array([g.size // planes, plane], np.int64)
    code = builtin(pooling_text.put_back_text(lanes()))
    given = np.ascontiguousarray(g), np.ascontiguousarray(indices), out, table
    threads.split(lambda *part: code(*given, NOTHING, *part), planes, max(1, GRAIN // plane))


def average_pool(
    x: NDArray,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    output_size: Sizes,
    count_include_pad: bool,
    divisor: int | None,
) -> NDArray:
    """The mean of each window: its sum over `divisor`, or over how many pixels (or also zeros) it
    has.

    Integers are divided towards zero.
    """
    dims, sizes = len(kernel), x.shape[x.ndim - len(kernel) :]
    lead = x.shape[: x.ndim - dims]
    out = np.empty((prod(lead), *output_size), x.dtype)
    if out.size:
        counts = _counts(kernel, stride, padding, sizes, output_size, count_include_pad, divisor)
        reaches = zip(output_size, stride, kernel, padding, sizes)
        after = tuple(max(0, (o - 1) * s + k - p - size) for o, s, k, p, size in reaches)
        planes = x.reshape(len(out), *sizes)
        for part in plane_blocks(len(out), prod(sizes) * x.itemsize):
            total = surrounded(planes[part], padding, after, 0)
            for dim in range(dims):
                total = _sum_taps(total, dim + 1, kernel[dim], stride[dim], output_size[dim])
            _divide(total, counts, out[part])
    return out.reshape(*lead, *output_size)


def average_pool_backward(
    g: NDArray,
    input_shape: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    count_include_pad: bool,
    divisor: int | None,
) -> NDArray:
    """Each window's gradient, divided as the window was, added to each of its pixels."""
    dims = len(kernel)
    sizes, output_size = input_shape[len(input_shape) - dims :], g.shape[g.ndim - dims :]
    planes = prod(input_shape[: len(input_shape) - dims])
    out = np.zeros((planes, *sizes), g.dtype)
    if not g.size:
        return out.reshape(input_shape)
    counts = _counts(kernel, stride, padding, sizes, output_size, count_include_pad, divisor)
    gradients = g.reshape(planes, *output_size)
    inside = tuple(slice(p, p + size) for p, size in zip(padding, sizes))
    for part in plane_blocks(planes, prod(sizes) * g.itemsize):
        spread = gradients[part] / counts.astype(g.dtype)
        for dim in reversed(range(dims)):
            length = max(
                sizes[dim] + padding[dim], (output_size[dim] - 1) * stride[dim] + kernel[dim]
            )
            spread = _spread_taps(spread, dim + 1, kernel[dim], stride[dim], length)
        out[part] = spread[:, *inside]
    return out.reshape(input_shape)


def plane_blocks(planes: int, plane_bytes: int) -> Iterator[slice]:
    """Slices of the planes, each of about BLOCK_BYTES."""
    several = max(1, BLOCK_BYTES // max(plane_bytes, 1))
    for first in range(0, planes, several):
        yield slice(first, first + several)


def lowest(dtype: Any) -> Any:
    """What no value of a type is below."""
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def surrounded(x: NDArray, before: Sizes, after: Sizes, value: Any) -> NDArray:
    """(planes, *S) with a value around it; x itself if there is nothing to add."""
    if not any(before) and not any(after):
        return x
    sizes = [b + size + a for b, size, a in zip(before, x.shape[1:], after)]
    out = np.full((len(x), *sizes), value, x.dtype)
    out[:, *(slice(b, b + size) for b, size in zip(before, x.shape[1:]))] = x
    return out


@lru_cache(256)
def _windows(
    sizes: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    output_size: Sizes,
) -> Windows:
    reaches = zip(output_size, stride, kernel, dilation, padding, sizes)
    after = tuple(
        max(0, (o - 1) * s + (k - 1) * d + 1 - p - size) for o, s, k, d, p, size in reaches
    )
    taps = []
    for tap in np.ndindex(*kernel):
        starts = [t * d for t, d in zip(tap, dilation)]
        places = zip(starts, output_size, stride)
        taps.append(tuple(slice(a, a + (o - 1) * s + 1, s) for a, o, s in places))
    return Windows(
        after,
        taps,
        _tap_offsets(kernel, dilation, sizes),
        _window_origins(stride, padding, sizes, output_size),
        _first_taps(kernel, stride, padding, dilation, output_size),
    )


def _pitches(sizes: Sizes) -> list[int]:
    """The steps of a flat index for each dim of a plane."""
    return [prod(sizes[dim + 1 :]) for dim in range(len(sizes))]


def _tap_offsets(kernel: Sizes, dilation: Sizes, sizes: Sizes) -> NDArray:
    steps = [d * pitch for d, pitch in zip(dilation, _pitches(sizes))]
    offsets = sum(
        np.arange(k).reshape(-1, *[1] * (len(kernel) - 1 - dim)) * steps[dim]
        for dim, k in enumerate(kernel)
    )
    return np.asarray(offsets).reshape(-1).astype(np.int64)


def _window_origins(stride: Sizes, padding: Sizes, sizes: Sizes, output_size: Sizes) -> NDArray:
    origins = np.zeros(output_size, np.int64)
    for dim, (step, pad, pitch) in enumerate(zip(stride, padding, _pitches(sizes))):
        starts = np.arange(output_size[dim]) * step - pad
        origins += (starts * pitch).reshape(-1, *[1] * (len(stride) - 1 - dim))
    return origins


def _first_taps(
    kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, output_size: Sizes
) -> NDArray:
    first = np.zeros(output_size, np.intp)
    for dim, count in enumerate(output_size):
        starts = np.arange(count) * stride[dim] - padding[dim]
        skipped = np.maximum(-(starts // dilation[dim]), 0)
        number = skipped * prod(kernel[dim + 1 :])
        first += number.reshape(-1, *[1] * (len(kernel) - 1 - dim))
    return first


def _largest_taps(source: NDArray, windows: Windows, values: NDArray, indices: NDArray) -> None:
    """Largest values of windows, and where they are, without branches.

    The number of a window's tap is how many taps before it are not the largest value.
    """
    dense = windows.taps[0][-1].step == 1
    taps = [
        source[:, *tap] if dense else np.ascontiguousarray(source[:, *tap]) for tap in windows.taps
    ]
    values[...] = taps[0]
    for tap in taps[1:]:
        np.maximum(values, tap, out=values)
    ties_with_padding = any(windows.after) or windows.first.any()
    if (values.dtype.kind == "f" and np.isnan(values.max())) or (
        ties_with_padding and values.min() == lowest(values.dtype)
    ):
        _search_taps(taps, windows, values, indices)
        return
    before = np.ones(values.shape, np.bool_)
    differs = np.empty(values.shape, np.bool_)
    number: NDArray = np.zeros(values.shape, np.uint8 if len(taps) <= 256 else np.int32)
    for tap in taps[:-1]:
        np.not_equal(tap, values, out=differs)
        np.logical_and(before, differs, out=before)
        np.add(number, before, out=number, casting="unsafe")
    np.take(windows.offsets, number, out=indices, mode="clip")
    np.add(indices, windows.origins, out=indices)


def _search_taps(taps: list[NDArray], windows: Windows, values: NDArray, indices: NDArray) -> None:
    """The same where NaN or the lowest value, which is what padding holds, are among the
    largest."""
    values.fill(lowest(values.dtype))
    number = np.broadcast_to(windows.first, values.shape)
    for tap, candidate in enumerate(taps):
        larger = candidate > values
        if values.dtype.kind == "f":
            larger |= np.isnan(candidate)
        np.copyto(values, candidate, where=larger)
        number = np.where(larger, tap, number)
    np.add(windows.offsets[number], windows.origins, out=indices)


def _counts(
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    sizes: Sizes,
    output_size: Sizes,
    count_include_pad: bool,
    divisor: int | None,
) -> NDArray:
    """What each window's sum is divided by."""
    if divisor is not None:
        return np.asarray(divisor)
    counts = np.ones((1,) * len(kernel), np.int64)
    for dim, k in enumerate(kernel):
        starts = np.arange(output_size[dim]) * stride[dim] - padding[dim]
        ends = np.minimum(starts + k, sizes[dim] + padding[dim])
        if not count_include_pad:
            starts, ends = np.maximum(starts, 0), np.minimum(ends, sizes[dim])
        counts = counts * (ends - starts).reshape(-1, *[1] * (len(kernel) - 1 - dim))
    return counts.reshape(-1)[:1] if (counts == counts.flat[0]).all() else counts


def _along(dim: int, place: slice) -> tuple[slice, ...]:
    return (slice(None),) * dim + (place,)


def _sum_taps(x: NDArray, dim: int, kernel: int, stride: int, count: int) -> NDArray:
    """Sums of `kernel` neighbours along a dim, at every `stride`-th of `count` places."""
    reach = (count - 1) * stride + 1
    total = x[_along(dim, slice(0, reach, stride))]
    if kernel == 1:
        return total
    total = total + x[_along(dim, slice(1, 1 + reach, stride))]
    for tap in range(2, kernel):
        total += x[_along(dim, slice(tap, tap + reach, stride))]
    return total


def _spread_taps(g: NDArray, dim: int, kernel: int, stride: int, length: int) -> NDArray:
    """The adjoint of `_sum_taps`: every value added at its `kernel` places along a dim of a given
    length."""
    out = np.zeros((*g.shape[:dim], length, *g.shape[dim + 1 :]), g.dtype)
    reach = (g.shape[dim] - 1) * stride + 1
    for tap in range(kernel):
        place = _along(dim, slice(tap, tap + reach, stride))
        if kernel <= stride:
            out[place] = g
        else:
            out[place] += g
    return out


def _divide(total: NDArray, counts: NDArray, out: NDArray) -> None:
    if total.dtype.kind == "f":
        np.divide(total, counts.astype(total.dtype), out=out)
    else:
        out[...] = np.sign(total) * (np.abs(total) // np.abs(counts)) * np.sign(counts)
