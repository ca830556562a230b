"""Convolutions of float32 images without unfolding: the taps of a filter are rows of one buffer
that overlap (tile_text.py).

Padded planes lie flat, split by stride into phases, so that what a tap reads for all places of the
result is one stretch of the buffer. Results get the buffer's row length; what lies between their
rows is cut out at the end. Without strides, neighbouring rows share the zeros between them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ember.backends.cpu import threads
from ember.backends.cpu.native import builtin
from ember.backends.cpu.tile_text import dots_text, dots_tile, lanes, rows_text, tile_for

NDArray = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

SPARE = 512  # elements behind the last plane: vectors read past the end
LEAST_WORK = 1 << 21  # multiplications
GRADIENT_BYTES = 1 << 19  # of gradients that are summed up together, in the cache
LEAST_CHANNELS = 4  # of the result: fewer leave most of a tile unused
LEAST_ROW = 4  # half the places of a phase's row, with strides
MOST_WASTE = 1.35  # places computed for one that is used


class Buffer(NamedTuple):
    """Where the planes of an image lie: elements of a plane, of a row, and for each tap where it
    starts to read; `shared` if rows share their borders."""

    plane: int
    pitch: int
    offsets: NDArray
    phase: Sizes
    shared: bool


def _buffer(sizes: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> Buffer:
    moves = [[tap * reach for tap in range(k)] for k, reach in zip(kernel, dilation, strict=True)]
    high, wide = (n + 2 * pad for n, pad in zip(sizes, padding, strict=True))
    if stride == (1, 1):
        pitch = sizes[1] + padding[1]
        offsets = [r * pitch + s for r, s in product(*moves)]
        return Buffer(high * pitch + padding[1], pitch, np.array(offsets), (high, pitch), True)
    phase = tuple(-(-n // step) for n, step in zip((high, wide), stride, strict=True))
    offsets = []
    for r, s in product(*moves):
        (row, a), (column, b) = divmod(r, stride[0]), divmod(s, stride[1])
        offsets.append((a * stride[1] + b) * prod(phase) + row * phase[1] + column)
    plane = prod(phase) * prod(stride)
    return Buffer(plane, phase[1], np.array(offsets), phase, False)


def _filled(x: NDArray, buffer: Buffer, stride: Sizes, padding: Sizes) -> NDArray:
    """The images as (N, C · plane) of a buffer with elements to spare."""
    images, channels = x.shape[:2]
    flat = np.zeros(images * channels * buffer.plane + SPARE, x.dtype)
    size = x.itemsize
    outer = (channels * buffer.plane * size, buffer.plane * size)
    if buffer.shared:
        start = padding[0] * buffer.pitch + padding[1]
        as_strided(flat[start:], x.shape, (*outer, buffer.pitch * size, size))[...] = x
    else:
        for a, b in product(range(stride[0]), range(stride[1])):
            # Rows a, a + step, ... of the padded plane that are rows of x, and columns likewise.
            first = [-(-max(pad - r, 0) // s) for pad, r, s in zip(padding, (a, b), stride)]
            begin = [f * s + r - pad for f, r, s, pad in zip(first, (a, b), stride, padding)]
            part = x[:, :, begin[0] :: stride[0], begin[1] :: stride[1]]
            start = (a * stride[1] + b) * prod(buffer.phase) + first[0] * buffer.pitch + first[1]
            steps = (*outer, buffer.pitch * size, size)
            as_strided(flat[start:], part.shape, steps)[...] = part
    return flat[: images * channels * buffer.plane].reshape(images, -1)


def _waste(buffer: Buffer, sizes: Sizes, tile: int) -> float:
    places = sizes[0] * buffer.pitch
    return -(-places // tile) * tile / prod(sizes)


def fits(
    x: NDArray, made: int, kernel: Sizes, sizes: Sizes, settings: tuple[Sizes, Sizes, Sizes]
) -> bool:
    """Whether a convolution, or its gradient by the filters, is computed here: two dims, enough to
    compute, and little of it between the rows of the result."""
    stride, padding, dilation = settings
    if len(kernel) != 2 or x.dtype != np.float32 or made < LEAST_CHANNELS:
        return False
    if len(x) * made * prod(sizes) * x.shape[1] * prod(kernel) < LEAST_WORK:
        return False
    if any(pad > reach * (k - 1) for pad, reach, k in zip(padding, dilation, kernel, strict=True)):
        return False
    if stride == (1, 1) and kernel == (1, 1):
        return False  # a plain product
    buffer = _buffer(x.shape[2:], kernel, stride, padding, dilation)
    return _waste(buffer, sizes, tile_for(made)[1] * lanes()) <= MOST_WASTE


def fits_input(
    g: NDArray, w_shape: Sizes, input_shape: Sizes, settings: tuple[Sizes, Sizes, Sizes]
) -> bool:
    """Whether the gradient by the input of a convolution with strides is computed here."""
    work = g.size * prod(w_shape[1:])
    return (
        len(w_shape) == 4
        and g.dtype == np.float32
        and w_shape[1] >= LEAST_CHANNELS
        and work >= LEAST_WORK
        and min(input_shape[2:]) >= 2 * max(settings[0]) * LEAST_ROW
    )


def _reads(buffer: Buffer, channels: int) -> NDArray:
    """Where every (channel, tap) starts to read in an image."""
    starts = np.arange(channels, dtype=np.int64)[:, None] * buffer.plane
    return (starts + buffer.offsets).reshape(-1)


def _blocked(w: NDArray, rows: int) -> NDArray:
    """Filters (K, J) as (blocks, J, rows), zeros after the last."""
    made, count = w.shape
    blocks = -(-made // rows)
    padded = np.zeros((blocks * rows, count), w.dtype)
    padded[:made] = w
    return np.ascontiguousarray(padded.reshape(blocks, rows, count).swapaxes(1, 2))


def convolution(
    x: NDArray, w: NDArray, settings: tuple[Sizes, Sizes, Sizes], sizes: Sizes
) -> NDArray:
    """The images (N, C, H, W) convolved with filters (K, C, R, S)."""
    stride, padding, dilation = settings
    buffer = _buffer(x.shape[2:], tuple(w.shape[2:]), stride, padding, dilation)
    source, offsets = _filled(x, buffer, stride, padding), _reads(buffer, x.shape[1])
    out = np.empty((len(x), len(w), *sizes), x.dtype)

    def put(image: int, found: NDArray) -> None:
        out[image] = found

    _rows(source, w.reshape(len(w), -1), offsets, (sizes[0], sizes[1], buffer.pitch), put)
    return out


def _rows(
    source: NDArray,
    w: NDArray,
    offsets: NDArray,
    places: tuple[int, int, int],
    put: Callable[[int, NDArray], None],
) -> None:
    """w (K, J) times the rows of each image of a source: put(image, result (K, height, width));
    `places` are height, width and the distance from row to row."""
    height, width, pitch = places
    rows, vectors = tile_for(len(w))
    filters, tile = _blocked(w, rows), vectors * lanes()
    kernel = builtin(rows_text(rows, vectors, lanes()))
    columns = -(-height * pitch // tile)
    geometry = np.array([len(offsets), len(filters), columns * tile], np.int64)
    scratch = np.empty(1)

    def part(begin: int, end: int) -> None:
        found = np.empty((len(filters) * rows, columns * tile), source.dtype)
        steps = (found.strides[0], pitch * found.itemsize, found.itemsize)
        shown = as_strided(found, (len(w), height, width), steps)
        for image in range(begin, end):
            kernel(source[image], filters, found, offsets, geometry, scratch, 0, columns)
            put(image, shown)

    threads.split(part, len(source), 1)


def input_gradient(
    g: NDArray, w: NDArray, input_shape: Sizes, settings: tuple[Sizes, Sizes, Sizes]
) -> NDArray:
    """The gradient of images of a shape: each phase of them (every stride-th row and column) is a
    convolution of g with the taps that reach it."""
    stride, padding, dilation = settings
    kernel, sizes = w.shape[2:], input_shape[2:]
    # Padded place i = stride·u + phase is read by tap r of result u − (r·dilation − phase)/stride.
    phase = [-(-(n + 2 * p) // s) for n, p, s in zip(sizes, padding, stride, strict=True)]
    above = [(k - 1) * d // s for k, d, s in zip(kernel, dilation, stride, strict=True)]
    high, pitch = (reach + max(n, m) for reach, n, m in zip(above, phase, g.shape[2:], strict=True))
    flat = np.zeros(g.shape[0] * g.shape[1] * high * pitch + SPARE, g.dtype)
    source = flat[: g.shape[0] * g.shape[1] * high * pitch].reshape(*g.shape[:2], high, pitch)
    inside = tuple(slice(a, a + n) for a, n in zip(above, g.shape[2:], strict=True))
    source[:, :, *inside] = g
    out = np.zeros(input_shape, g.dtype)
    images = source.reshape(len(g), -1)
    for place in product(range(stride[0]), range(stride[1])):
        taps = [
            [r for r in range(k) if r * d % s == a]
            for k, d, s, a in zip(kernel, dilation, stride, place, strict=True)
        ]
        moves = [
            [reach - (r * d - a) // s for r in rows]
            for reach, rows, d, s, a in zip(above, taps, dilation, stride, place, strict=True)
        ]
        starts = np.array([i * pitch + j for i, j in product(*moves)], np.int64)
        if not len(starts):
            continue
        offsets = np.arange(g.shape[1], dtype=np.int64)[:, None] * (high * pitch) + starts
        filters = w[:, :, taps[0]][..., taps[1]].swapaxes(0, 1).reshape(w.shape[1], -1)
        first = [-(-max(p - a, 0) // s) for p, a, s in zip(padding, place, stride)]
        begin = [f * s + a - p for f, s, a, p in zip(first, stride, place, padding)]
        target = out[:, :, begin[0] :: stride[0], begin[1] :: stride[1]]
        _rows(images, filters, offsets.reshape(-1), (*phase, pitch), _putting(target, first))
    return out


def _putting(target: NDArray, first: list[int]) -> Callable[[int, NDArray], None]:
    """Write what is found from a first row and column on."""
    (top, left), (height, width) = first, target.shape[2:]

    def put(image: int, found: NDArray) -> None:
        target[image] = found[:, top : top + height, left : left + width]

    return put


def weight_gradient(
    g: NDArray, x: NDArray, shape: Sizes, settings: tuple[Sizes, Sizes, Sizes]
) -> NDArray:
    """The gradient of filters of a shape."""
    stride, padding, dilation = settings
    made, channels, *kernel = shape
    sizes = g.shape[2:]
    buffer = _buffer(x.shape[2:], tuple(kernel), stride, padding, dilation)
    source, offsets = _filled(x, buffer, stride, padding), _reads(buffer, channels)
    rows, columns = dots_tile()
    count, blocks, groups = len(offsets), -(-len(offsets) // columns), -(-made // rows)
    offsets = np.concatenate([offsets, np.repeat(offsets[-1:], blocks * columns - count)])
    length = -(-sizes[0] * buffer.pitch // lanes()) * lanes()
    call = builtin(dots_text(rows, columns, lanes()))
    several = max(1, GRADIENT_BYTES // (groups * rows * length * x.itemsize))
    scratch, totals = np.empty(1), []

    def part(begin: int, end: int) -> None:
        total = np.zeros((groups * rows, blocks * columns), x.dtype)
        most = min(several, end - begin)
        spread = np.zeros((most, groups * rows, length), x.dtype)
        steps = (*spread.strides[:2], buffer.pitch * x.itemsize, x.itemsize)
        places = as_strided(spread, (most, made, *sizes), steps)
        for image in range(begin, end, most):
            last = min(image + most, end)
            places[: last - image] = g[image:last]
            table = [length, groups, blocks * columns, last - image, source.shape[1]]
            geometry = np.array(table, np.int64)
            call(source[image:], spread, total, offsets, geometry, scratch, 0, blocks)
        totals.append(total)

    threads.split(part, len(x), 1)
    total = totals[0]
    for other in totals[1:]:
        total += other
    return np.ascontiguousarray(total[:made, :count]).reshape(shape)
