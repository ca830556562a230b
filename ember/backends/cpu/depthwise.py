"""Convolutions whose groups have one input channel.

In two dims a row of filter taps is a banded matrix: (rows, columns in) @ (columns in, columns out)
for each channel. BLAS multiplies mostly zeros, and is still faster than one pass for each tap.

Everything else is a sum over taps of shifted planes. Planes are padded and split by stride into
phases (every stride-th row and column), so that what a tap reads is one contiguous slice of a
flattened phase: result rows are as long as phase rows, and cropped at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ember.backends.cpu import planes as in_vectors

NDArray = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

BLOCK_BYTES = 128 << 10  # planes worked on together: they, the sum and a term stay in the cache
BAND_BYTES = 1 << 20  # the same for banded products, which read a plane once for each row of taps
LEAST_BANDED = 64  # pixels
BAND_COLUMNS = 32  # wider results are cut: the share of zeros grows with the width


class Tap(NamedTuple):
    """One tap of the filters: its position, the phase that it reads and where its slice starts."""

    position: Sizes
    phase: Sizes
    start: int


class Frame(NamedTuple):
    """How planes are laid out: sizes of a phase, of the result, and the length of the flattened
    result."""

    phase: Sizes
    sizes: Sizes
    length: int
    taps: list[Tap]


def _frame(kernel: Sizes, stride: Sizes, dilation: Sizes, sizes: Sizes) -> Frame:
    reach = [(k - 1) * d // s for k, s, d in zip(kernel, stride, dilation)]
    phase = tuple(size + r for size, r in zip(sizes, reach))
    pitches = [prod(phase[dim + 1 :]) for dim in range(len(phase))]
    taps = []
    for position in np.ndindex(*kernel):
        parts = [divmod(t * d, s) for t, d, s in zip(position, dilation, stride)]
        start = sum(quotient * pitch for (quotient, _), pitch in zip(parts, pitches))
        taps.append(Tap(position, tuple(remainder for _, remainder in parts), start))
    length = sum((size - 1) * pitch for size, pitch in zip(sizes, pitches)) + 1
    return Frame(phase, sizes, length, taps)


def _blocks(images: int, channels: int, plane_bytes: int) -> Iterator[tuple[slice, slice]]:
    """Slices of images and channels whose planes together stay below BLOCK_BYTES."""
    planes = max(1, BLOCK_BYTES // max(plane_bytes, 1))
    width = min(planes, channels)
    count = max(1, planes // width)
    for image in range(0, images, count):
        for channel in range(0, channels, width):
            yield slice(image, image + count), slice(channel, channel + width)


def _axis_overlap(
    remainder: int, step: int, pad: int, size: int, length: int
) -> tuple[slice, slice]:
    """Where a phase of a padded axis overlaps the axis itself: a slice of the phase and one of the
    axis."""
    first = max(0, -(-(pad - remainder) // step))
    last = min(length, -(-(pad + size - remainder) // step))
    last = max(first, last)
    start = first * step + remainder - pad
    return slice(first, last), slice(
        start, start + (last - first - 1) * step + 1 if last > first else start, step
    )


def _places(
    phase: Sizes, stride: Sizes, padding: Sizes, sizes: Sizes, lengths: Sizes
) -> tuple[Any, Any]:
    """The slices of a phase and of the unpadded planes that hold the same pixels."""
    pairs = [_axis_overlap(*dims) for dims in zip(phase, stride, padding, sizes, lengths)]
    return tuple(p for p, _ in pairs), tuple(a for _, a in pairs)


def _phases(x: NDArray, frame: Frame, stride: Sizes, padding: Sizes) -> dict[Sizes, NDArray]:
    """The padded planes by phase, each (images, channels, flattened phase)."""
    found: dict[Sizes, NDArray] = {}
    for tap in frame.taps:
        if tap.phase not in found:
            planes = np.zeros((*x.shape[:2], *frame.phase), x.dtype)
            inside, source = _places(tap.phase, stride, padding, x.shape[2:], frame.phase)
            planes[:, :, *inside] = x[:, :, *source]
            found[tap.phase] = planes.reshape(*x.shape[:2], prod(frame.phase))
    return found


def _crop(flat: NDArray, frame: Frame) -> NDArray:
    """A view of (..., flattened result of phase-long rows) without what lies between the rows."""
    shape = (*flat.shape[:-1], *frame.sizes)
    pitches = [prod(frame.phase[dim + 1 :]) * flat.itemsize for dim in range(len(frame.phase))]
    return np.lib.stride_tricks.as_strided(flat, shape, (*flat.strides[:-1], *pitches))


def _banded(x: NDArray, w: NDArray, geometry: tuple[Sizes, Sizes, Sizes], sizes: Sizes) -> NDArray:
    """`depthwise` of float planes by banded matrices; NaN or infinity in x spoils whole rows."""
    (row_step, step), (top, left), (row_reach, reach) = geometry
    images, channels, height, width = x.shape
    parts = -(-sizes[1] // BAND_COLUMNS)
    columns = -(-sizes[1] // parts)
    wide = (columns - 1) * step + (w.shape[3] - 1) * reach + 1
    copies = w.shape[0] // channels
    bands = np.zeros((w.shape[2], channels, copies, wide, columns), x.dtype)
    for tap in range(w.shape[3]):
        place = np.arange(columns)
        values = w[:, 0, :, tap].reshape(channels, copies, -1)
        bands[..., place * step + tap * reach, place] = np.moveaxis(values, 2, 0)[..., None]
    rows = sizes[0] + (w.shape[2] - 1) * row_reach // row_step
    pitch = (parts * columns - 1) * step + (w.shape[3] - 1) * reach + 1
    out = np.empty((images, channels, copies, *sizes), x.dtype)
    several = max(1, BAND_BYTES // (images * row_step * rows * pitch * x.itemsize))
    lines = sizes[0] * images
    for first in range(0, channels, several):
        part = slice(first, first + several)
        planes = np.zeros((len(range(channels)[part]), row_step, rows, images, pitch), x.dtype)
        for phase in range(row_step):
            inside, source = _axis_overlap(phase, row_step, top, height, rows)
            across, read = _axis_overlap(0, 1, left, width, pitch)
            planes[:, phase, inside, :, across] = x[:, part, source, read].transpose(1, 2, 0, 3)
        flat = planes.reshape(len(planes), 1, row_step, rows * images, pitch)
        total = np.zeros((len(planes), copies, lines, parts * columns), x.dtype)
        for tap in range(w.shape[2]):
            start, phase = divmod(tap * row_reach, row_step)
            read_rows = flat[:, :, phase, start * images : start * images + lines]
            for number in range(parts):
                begin = number * columns
                target = total[..., begin : begin + columns]
                strip = read_rows[..., begin * step : begin * step + wide]
                target += np.matmul(strip, bands[tap, part])
        ordered = total.reshape(len(planes), copies, sizes[0], images, -1)[..., : sizes[1]]
        out[:, part] = ordered.transpose(3, 0, 1, 2, 4)
    return out.reshape(images, channels * copies, *sizes)


def depthwise(
    x: NDArray, w: NDArray, stride: Sizes, padding: Sizes, dilation: Sizes, sizes: Sizes
) -> NDArray:
    """y[n, c·m + j] = Σ over taps of w[c·m + j, 0, tap]·x[n, c] moved by the tap; x (N, C, *S), w
    (C·m, 1, *R)."""
    if in_vectors.fits(x, w.shape[2:], stride):
        return in_vectors.depthwise(x, w, stride, padding, dilation, sizes)
    images, channels = x.shape[:2]
    if len(sizes) == 2 and x.dtype.kind == "f" and prod(sizes) >= LEAST_BANDED:
        fast = _banded(x, w, (stride, padding, dilation), sizes)
        if np.isfinite(np.add.reduce(fast, None)):
            return fast
    frame = _frame(w.shape[2:], stride, dilation, sizes)
    copies = w.shape[0] // channels
    filters = w.reshape(channels, copies, *w.shape[2:])
    out = np.empty((images, channels, copies, *sizes), x.dtype)
    for image, channel in _blocks(images, channels, prod(frame.phase) * x.itemsize):
        phases = _phases(x[image, channel], frame, stride, padding)
        first = next(iter(phases.values()))
        total = np.empty((*first.shape[:2], frame.length), x.dtype)
        term = np.empty_like(total)
        for copy in range(copies):
            for number, tap in enumerate(frame.taps):
                place: Any = (channel, copy, *tap.position)
                weights = filters[place][:, None]
                read = phases[tap.phase][:, :, tap.start : tap.start + frame.length]
                np.multiply(read, weights, out=term if number else total)
                if number:
                    np.add(total, term, out=total)
            out[image, channel, copy] = _crop(total, frame)
    return out.reshape(images, channels * copies, *sizes)


def depthwise_input(
    g: NDArray, w: NDArray, input_shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> NDArray:
    """The gradient of `depthwise` with respect to x: every tap's product with g, added where the
    tap reads."""
    if in_vectors.fits(g, w.shape[2:], stride):
        return in_vectors.depthwise_input(g, w, input_shape, stride, padding, dilation)
    images, channels = input_shape[:2]
    if w.shape[0] == channels and all(s == 1 for s in stride):
        margins = tuple((k - 1) * d - p for k, d, p in zip(w.shape[2:], dilation, padding))
        sizes = tuple(o + m - p for o, m, p in zip(g.shape[2:], margins, padding))
        if min(margins) >= 0 and sizes == input_shape[2:]:
            turned = np.flip(w, tuple(range(2, w.ndim)))
            return depthwise(g, turned, stride, margins, dilation, sizes)
    frame = _frame(w.shape[2:], stride, dilation, g.shape[2:])
    copies = w.shape[0] // channels
    filters = w.reshape(channels, copies, *w.shape[2:])
    gradients = g.reshape(images, channels, copies, *g.shape[2:])
    out = np.zeros(input_shape, g.dtype)
    for image, channel in _blocks(images, channels, prod(frame.phase) * g.itemsize):
        rows = gradients[image, channel]
        spread = np.zeros((*rows.shape[:3], frame.length), g.dtype)
        _crop(spread, frame)[...] = rows
        term = np.empty((*rows.shape[:2], frame.length), g.dtype)
        sums: dict[Sizes, NDArray] = {}
        for copy in range(copies):
            for tap in frame.taps:
                if tap.phase not in sums:
                    sums[tap.phase] = np.zeros((*rows.shape[:2], prod(frame.phase)), g.dtype)
                place: Any = (channel, copy, *tap.position)
                weights = filters[place][:, None]
                np.multiply(spread[:, :, copy], weights, out=term)
                sums[tap.phase][:, :, tap.start : tap.start + frame.length] += term
        for phase, flat in sums.items():
            planes = flat.reshape(*flat.shape[:2], *frame.phase)
            inside, target = _places(phase, stride, padding, input_shape[2:], frame.phase)
            out[image, channel][:, :, *target] = planes[:, :, *inside]
    return out


def depthwise_weight(
    g: NDArray, x: NDArray, weight_shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> NDArray:
    """The gradient of `depthwise` with respect to w: the dot product of g with every tap's
    slice."""
    if in_vectors.fits(x, weight_shape[2:], stride):
        return in_vectors.depthwise_weight(g, x, weight_shape, stride, padding, dilation)
    images, channels = x.shape[:2]
    frame = _frame(weight_shape[2:], stride, dilation, g.shape[2:])
    copies = weight_shape[0] // channels
    gradients = g.reshape(images, channels, copies, *g.shape[2:])
    total = np.zeros((channels, copies, *weight_shape[2:]), g.dtype)
    for image, channel in _blocks(images, channels, prod(frame.phase) * g.itemsize):
        phases = _phases(x[image, channel], frame, stride, padding)
        rows = gradients[image, channel]
        spread = np.zeros((*rows.shape[:3], frame.length), g.dtype)
        _crop(spread, frame)[...] = rows
        for tap in frame.taps:
            read = phases[tap.phase][:, :, None, tap.start : tap.start + frame.length]
            products = np.matmul(read[..., None, :], spread[..., None])[..., 0, 0]
            place: Any = (channel, slice(None), *tap.position)
            total[place] += products.sum(0)
    return total.reshape(weight_shape)
