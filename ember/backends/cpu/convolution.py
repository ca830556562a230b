"""Convolutions of any number of dims as matrix products over unfolded input, block by block.

Shapes: x (N, C, *S), w (K, C/groups, *R), result (N, K, *O); stride, padding and dilation have one
entry for each spatial dim, and O = (S + 2·padding − dilation·(R − 1) − 1) // stride + 1.

The taps of the first spatial dim need no unfolding: with the rows of all images of a block side by
side, moving by one row is moving by one slice of the same buffer, so there is one product for each
of them, three times less to copy for 3×3 filters ("sliding"). Where channels are few, that many
small products cost more than the copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ember.backends import cpu
from ember.backends.cpu import direct_convolution, folding, gathered_convolution, winograd
from ember.backends.cpu.depthwise import depthwise, depthwise_input, depthwise_weight
from ember.backends.cpu.matmul import matmul

NDArray = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

BLOCK_BYTES = 8 << 20  # what a block of unfolded input may take
BLOCK_COLUMNS = 1024  # small images are put together until a product has this many columns
LEAST_POSITIONS = (
    128  # an image of this many pixels is worth a product of its own without unfolding
)


class Geometry(NamedTuple):
    """The integers of one convolution; `extents` is how many input pixels a filter spans in each
    dim."""

    kernel: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes
    groups: int
    extents: Sizes

    @classmethod
    def of(
        cls, w_shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
    ) -> Geometry:
        """The geometry of filters of a shape."""
        extents = tuple(d * (k - 1) + 1 for k, d in zip(w_shape[2:], dilation))
        return cls(tuple(w_shape[2:]), stride, padding, dilation, groups, extents)

    def output_sizes(self, sizes: Sizes) -> Sizes:
        """The spatial sizes of the result."""
        dims = zip(sizes, self.padding, self.extents, self.stride)
        return tuple((size + 2 * pad - extent) // step + 1 for size, pad, extent, step in dims)

    def slides(self, channels: int, made: int) -> bool:
        """Whether one product for each tap of the first dim costs less than unfolding those
        taps."""
        inner = channels // self.groups * prod(self.kernel[1:])
        return self.kernel[0] > 1 and inner >= 32 and 2 * inner >= 3 * made // self.groups

    def is_winograd(self, x: NDArray, made: int, sizes: Sizes) -> bool:
        """Whether images are convolved with `made` filters by Winograd's products."""
        if not cpu.allow_winograd or self.groups != 1 or x.dtype != np.float32:
            return False
        if self.kernel != (3, 3) or set(self.stride) != {1} or set(self.dilation) != {1}:
            return False
        return winograd.fits(x.shape, made, sizes)

    def is_gathered(
        self, x: NDArray, made: int, sizes: Sizes, settings: tuple[Sizes, Sizes, Sizes]
    ) -> bool:
        """Whether images are convolved with `made` filters by products of gathered panels: with
        strides, in few pixels or one at a time."""
        if self.groups != 1 or not gathered_convolution.fits(x, made, self.kernel, sizes):
            return False
        steps = set(self.stride) != {1}
        return steps or not direct_convolution.fits(x, made, self.kernel, sizes, settings)


class Block(NamedTuple):
    """Images first..last and rows top..bottom of the result that are computed together."""

    first: int
    last: int
    top: int
    bottom: int


def convolution(
    x: NDArray,
    w: NDArray,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> NDArray:
    """y[n, k, o] = Σ over c, r of x[n, c, o·stride + r·dilation − padding]·w[k, c, r], zero outside
    of x."""
    geometry = Geometry.of(w.shape, stride, padding, dilation, groups)
    sizes = geometry.output_sizes(x.shape[2:])
    if not prod(sizes) or not x.shape[0] or not w.size:
        return np.zeros((x.shape[0], w.shape[0], *sizes), x.dtype)
    if w.shape[1] == 1 and groups > 1:
        return depthwise(x, w, stride, padding, dilation, sizes)
    settings = (stride, padding, dilation)
    if geometry.is_winograd(x, len(w), sizes):
        return winograd.convolution(x, w, padding, sizes)
    if groups == 1:
        if geometry.is_gathered(x, len(w), sizes, settings):
            return gathered_convolution.convolution(x, w, sizes, settings)
        if direct_convolution.fits(x, len(w), geometry.kernel, sizes, settings):
            return direct_convolution.convolution(x, w, settings, sizes)
    out = np.empty((x.shape[0], w.shape[0], *sizes), x.dtype)
    if _is_pointwise(geometry) and prod(sizes) >= LEAST_POSITIONS:
        matrix = w.reshape(groups, w.shape[0] // groups, w.shape[1])
        images = np.ascontiguousarray(x).reshape(len(x), groups, w.shape[1], prod(sizes))
        _product(matrix, images, out.reshape(len(x), groups, matrix.shape[1], prod(sizes)))
        return out
    slides = geometry.slides(x.shape[1], w.shape[0])
    filters = _filter_matrices(w, groups, slides)
    for block, source in _blocks(x, geometry, sizes, slides):
        _convolve_block(source, filters, geometry, block, out)
    return out


def convolution_input(
    g: NDArray,
    w: NDArray,
    input_shape: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> NDArray:
    """The gradient with respect to x (and the forward of a transposed convolution): g sent back
    through w."""
    geometry = Geometry.of(w.shape, stride, padding, dilation, groups)
    if not g.size or not w.size or not prod(input_shape):
        return np.zeros(input_shape, g.dtype)
    if w.shape[1] == 1 and groups > 1:
        return depthwise_input(g, w, input_shape, stride, padding, dilation)
    margins = tuple(e - 1 - p for e, p in zip(geometry.extents, padding))
    full = geometry.output_sizes(input_shape[2:]) == g.shape[2:]
    if full and all(s == 1 for s in stride) and min(margins) >= 0:
        # Stride 1: a convolution of g with the filters turned round.
        if geometry.is_winograd(g, input_shape[1], input_shape[2:]):
            return winograd.convolution(g, w, margins, tuple(input_shape[2:]), turned=True)
        settings = (stride, margins, dilation)
        if geometry.is_gathered(g, input_shape[1], input_shape[2:], settings):
            given = (stride, padding, dilation)
            return gathered_convolution.input_gradient(g, w, input_shape, given)
        turned = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
        turned = np.flip(turned, tuple(range(3, turned.ndim)))
        turned = turned.reshape(input_shape[1], w.shape[0] // groups, *w.shape[2:])
        return convolution(g, turned, stride, margins, dilation, groups)
    settings = (stride, padding, dilation)
    if groups == 1 and gathered_convolution.fits(g, input_shape[1], geometry.kernel, g.shape[2:]):
        by = folding if folding.fits(geometry.kernel, stride) else gathered_convolution
        return by.input_gradient(g, w, input_shape, settings)
    if groups == 1 and direct_convolution.fits_input(g, w.shape, input_shape, settings):
        return direct_convolution.input_gradient(g, w, input_shape, settings)
    return _fold_back(g, w, input_shape, geometry)


def convolution_weight(
    g: NDArray,
    x: NDArray,
    weight_shape: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> NDArray:
    """The gradient with respect to w: Σ over n, o of g[n, k, o]·x[n, c, o·stride + r·dilation −
    padding]."""
    geometry = Geometry.of(weight_shape, stride, padding, dilation, groups)
    if not g.size or not x.size or not prod(weight_shape):
        return np.zeros(weight_shape, g.dtype)
    if weight_shape[1] == 1 and groups > 1:
        return depthwise_weight(g, x, weight_shape, stride, padding, dilation)
    made, channels, *_ = weight_shape
    sizes, settings = g.shape[2:], (stride, padding, dilation)
    if geometry.is_winograd(x, made, sizes) and channels * made >= winograd.LEAST_FILTERS:
        return winograd.weight_gradient(g, x, padding)
    if groups == 1 and gathered_convolution.fits(x, made, geometry.kernel, sizes):
        return gathered_convolution.weight_gradient(g, x, weight_shape, settings)
    if groups == 1 and direct_convolution.fits(x, made, geometry.kernel, sizes, settings):
        return direct_convolution.weight_gradient(g, x, weight_shape, settings)
    slides = geometry.kernel[0] > 1 and channels * prod(geometry.kernel[1:]) >= 16
    taps = geometry.kernel[0] if slides else 1
    inner = channels * prod(geometry.kernel) // taps
    total = np.zeros((taps, groups, made // groups, inner), g.dtype)
    for block, source in _blocks(x, geometry, sizes, slides):
        gradient = _gradient_matrix(g, groups, block)
        for tap, columns in enumerate(_tap_columns(source, geometry, block, sizes, slides)):
            total[tap] += matmul(gradient, columns.swapaxes(1, 2))
    first = (geometry.kernel[0],) if slides else ()
    rest = geometry.kernel[1:] if slides else geometry.kernel
    total = total.reshape(*first, made, channels, *rest)
    return np.ascontiguousarray(np.moveaxis(total, 0, 2) if slides else total)


def _is_pointwise(geometry: Geometry) -> bool:
    ones = all(k == s == 1 for k, s in zip(geometry.kernel, geometry.stride))
    return ones and not any(geometry.padding)


def _product(a: NDArray, b: NDArray, out: NDArray) -> None:
    """a @ b into out."""
    if a.dtype.kind in "fc":
        np.matmul(a, b, out=out)
    else:
        out[...] = matmul(a, b)


def padded(x: NDArray, padding: Sizes) -> NDArray:
    """x with zeros around its spatial dims; x itself if there is nothing to add."""
    if not any(padding):
        return x
    sizes = tuple(size + 2 * pad for size, pad in zip(x.shape[2:], padding))
    out = np.zeros((*x.shape[:2], *sizes), x.dtype)
    inside = tuple(slice(pad, pad + size) for size, pad in zip(x.shape[2:], padding))
    out[:, :, *inside] = x
    return out


def _filter_matrices(w: NDArray, groups: int, slides: bool) -> list[NDArray]:
    """The filters as (groups, K/groups, inner) matrices: one for each tap of the first dim, or one
    for all."""
    split = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    if not slides:
        return [split.reshape(*split.shape[:2], -1)]
    return [split[:, :, :, tap].reshape(*split.shape[:2], -1) for tap in range(w.shape[2])]


def _blocks(
    x: NDArray, geometry: Geometry, sizes: Sizes, slides: bool
) -> Iterator[tuple[Block, NDArray]]:
    """The blocks of a result, each with the padded part of x that it reads."""
    taps = prod(geometry.kernel[1:]) if slides else prod(geometry.kernel)
    row_bytes = x.shape[1] * taps * prod(sizes[1:]) * x.itemsize
    rows = min(sizes[0], max(1, BLOCK_BYTES // row_bytes))
    images = 1
    if rows == sizes[0]:
        images = min(-(-BLOCK_COLUMNS // prod(sizes)), max(1, BLOCK_BYTES // (row_bytes * rows)))
    step, extent = geometry.stride[0], geometry.extents[0]
    for first in range(0, len(x), images):
        last = min(first + images, len(x))
        source = padded(x[first:last], geometry.padding)
        for top in range(0, sizes[0], rows):
            bottom = min(top + rows, sizes[0])
            part = source[:, :, top * step : (bottom - 1) * step + extent]
            yield Block(first, last, top, bottom), part


def _tap_columns(
    source: NDArray, geometry: Geometry, block: Block, sizes: Sizes, slides: bool
) -> Iterator[NDArray]:
    """Unfolded input, (groups, inner, rows·images·rest): for each tap of the first dim, or once for
    all taps."""
    if not slides:
        yield _unfold(source, geometry, 0)
        return
    step, reach = geometry.stride[0], geometry.dilation[0]
    row = (block.last - block.first) * prod(sizes[1:])
    rows = block.bottom - block.top
    phases: dict[int, NDArray] = {}
    for tap in range(geometry.kernel[0]):
        start, phase = divmod(tap * reach, step)
        if phase not in phases:
            phases[phase] = _unfold(source[:, :, phase::step], geometry, 1)
        yield phases[phase][:, :, start * row : (start + rows) * row]


def _unfold(source: NDArray, geometry: Geometry, kept: int) -> NDArray:
    """(groups, C/groups · taps, rows · images · rest) of (images, C, rows, *rest); taps not in the
    first `kept` dims."""
    count, channels = source.shape[:2]
    inner = channels // geometry.groups
    image_step, channel_step, *steps = source.strides
    rest = [
        (size - extent) // step + 1
        for size, extent, step in zip(
            source.shape[2 + kept :], geometry.extents[kept:], geometry.stride[kept:]
        )
    ]
    taps, sizes = geometry.kernel[kept:], [*source.shape[2 : 2 + kept], *rest]
    tap_steps = [step * reach for step, reach in zip(steps[kept:], geometry.dilation[kept:])]
    strides = steps[:kept] + [
        step * move for step, move in zip(steps[kept:], geometry.stride[kept:])
    ]
    windows = as_strided(
        source,
        (geometry.groups, inner, *taps, sizes[0], count, *sizes[1:]),
        (inner * channel_step, channel_step, *tap_steps, strides[0], image_step, *strides[1:]),
    )
    return windows.reshape(geometry.groups, inner * prod(taps), prod(sizes) * count)


def _convolve_block(
    source: NDArray, filters: list[NDArray], geometry: Geometry, block: Block, out: NDArray
) -> None:
    """One block of the result."""
    groups, made = filters[0].shape[:2]
    sizes = out.shape[2:]
    rest = prod(sizes[1:])
    images = block.last - block.first
    if images == 1:
        whole = out[block.first].reshape(groups, made, prod(sizes))
        target = whole[:, :, block.top * rest : block.bottom * rest]
    else:
        target = np.empty((groups, made, images * prod(sizes)), out.dtype)
    columns = _tap_columns(source, geometry, block, sizes, len(filters) > 1)
    _product(filters[0], next(columns), target)
    if len(filters) > 1:
        term = np.empty(target.shape, out.dtype)
        for matrix, shifted in zip(filters[1:], columns):
            _product(matrix, shifted, term)
            np.add(target, term, out=target)
    if images > 1:
        rows_first = target.reshape(groups * made, sizes[0], images, *sizes[1:])
        out[block.first : block.last] = np.moveaxis(rows_first, 2, 0)


def _gradient_matrix(g: NDArray, groups: int, block: Block) -> NDArray:
    """A block of the result's gradient as (groups, K/groups, rows·images·rest)."""
    part = np.moveaxis(g[block.first : block.last, :, block.top : block.bottom], 0, 2)
    return part.reshape(groups, g.shape[1] // groups, -1)


def _fold_back(g: NDArray, w: NDArray, input_shape: Sizes, geometry: Geometry) -> NDArray:
    """Every tap's product with g, added where the tap reads: any stride."""
    groups, made = geometry.groups, w.shape[0] // geometry.groups
    filters = w.reshape(groups, made, -1).swapaxes(1, 2)
    images, channels = input_shape[:2]
    steps = zip(g.shape[2:], geometry.stride, geometry.extents)
    reached = [(size - 1) * step + extent for size, step, extent in steps]
    sizes = tuple(
        max(size + 2 * p, r) for size, p, r in zip(input_shape[2:], geometry.padding, reached)
    )
    whole = np.zeros((images, channels, *sizes), g.dtype)
    row_bytes = channels * prod(geometry.kernel) * prod(g.shape[3:]) * g.itemsize
    rows = min(g.shape[2], max(1, BLOCK_BYTES // row_bytes))
    count = 1
    if rows == g.shape[2]:
        count = min(
            -(-BLOCK_COLUMNS // prod(g.shape[2:])), max(1, BLOCK_BYTES // (row_bytes * rows))
        )
    for first in range(0, images, count):
        for top in range(0, g.shape[2], rows):
            block = Block(first, min(first + count, images), top, min(top + rows, g.shape[2]))
            _add_taps(
                matmul(filters, _gradient_matrix(g, groups, block)), whole, geometry, block, g.shape
            )
    inside = tuple(slice(p, p + size) for size, p in zip(input_shape[2:], geometry.padding))
    return np.ascontiguousarray(whole[:, :, *inside])


def _add_taps(
    products: NDArray, whole: NDArray, geometry: Geometry, block: Block, shape: Sizes
) -> None:
    """Add (groups, C/groups·taps, rows·images·rest) into the padded input that the taps read."""
    rows, images = block.bottom - block.top, block.last - block.first
    taps = products.reshape(-1, *geometry.kernel, rows, images, *shape[3:])
    for tap in np.ndindex(*geometry.kernel):
        starts = [t * d for t, d in zip(tap, geometry.dilation)]
        starts[0] += block.top * geometry.stride[0]
        lengths = (rows, *shape[3:])
        places = tuple(
            slice(start, start + (length - 1) * step + 1, step)
            for start, length, step in zip(starts, lengths, geometry.stride)
        )
        whole[block.first : block.last, :, *places] += np.moveaxis(taps[:, *tap], 2, 0)
