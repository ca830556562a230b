"""The gradient of images by a convolution with strides: one product gives what every tap of every
filter sends back, and what reaches a pixel is added up while it lies in the cache.

Neither operand is unfolded: the gradient of the result is read as it lies.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ember.backends.cpu import threads
from ember.backends.cpu.gathered_convolution import OWN_PIXELS
from ember.backends.cpu.native import builtin
from ember.backends.cpu.panel_text import at, module, sizes
from ember.backends.cpu.products import NOTHING, Gathered, scratch
from ember.backends.cpu.split_products import multiply
from ember.backends.cpu.tile_text import lanes
from ember.kernel.elements import load, store
from ember.kernel.nests import close_loop, open_loop, sum_of_products
from ember.scalar.vectors import Vectors

NDArray = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

BLOCK = 1 << 20  # numbers that taps send back and that are added up together
LONGEST_STEP = 2  # columns between neighbouring results
GRAIN = 1 << 15  # additions that are worth another thread


class Taps(NamedTuple):
    """The taps of a filter in two dims, and how they move."""

    kernel: Sizes
    stride: Sizes
    dilation: Sizes

    def reaching(self, dim: int, phase: int) -> list[tuple[int, int]]:
        """The taps of a dim that reach places stride·u + phase, and how far before u the results
        are that they send back from."""
        step, move = self.stride[dim], self.dilation[dim]
        found = [(r, r * move) for r in range(self.kernel[dim])]
        return [(r, reach // step) for r, reach in found if reach % step == phase]


def fits(kernel: Sizes, stride: Sizes) -> bool:
    """Whether the gradient of images by a convolution is computed here."""
    return len(kernel) == 2 and max(stride) > 1 and stride[1] <= LONGEST_STEP


def _inside(b: Vectors, first: str, bound: str) -> str:
    """The lanes whose numbers, from a first one on, are from 0 to below a bound."""
    kind = f"<{b.lanes} x i64>"
    steps = ", ".join(f"i64 {lane}" for lane in range(b.lanes))
    numbers = b.new(f"add {kind} {b.splat(first, 'i64')}, <{steps}>")
    return b.new(f"icmp ult {kind} {numbers}, {b.splat(bound, 'i64')}")


@lru_cache(maxsize=32)
def _text(taps: Taps, lanes: int) -> str:
    """builtin(found, out, geometry, scratch, begin, end) for planes begin..end of out.

    Geometry: channels, elements from tap to tap of found, height and width of the gradient, height
    and width of out, padding of both dims, vectors' first and last column, and the first and last
    row of every phase.
    """
    b = Vectors("float", lanes)
    step = taps.stride
    table = sizes(b, 10 + 2 * step[0])
    channels, pitch, high, wide, rows, columns, top, left, begin, end = table[:10]
    plane = open_loop(b, "%begin", "%end")
    image = b.new(f"sdiv i64 {plane.index}, {channels}")
    channel = b.new(f"srem i64 {plane.index}, {channels}")
    own = b.new(f"mul i64 {high}, {wide}")
    first = b.new(f"mul i64 {channel}, {prod(taps.kernel)}")
    source = at(b, "%p0", sum_of_products(b, (first, pitch), (image, own)))
    whole = b.new(f"mul i64 {rows}, {columns}")
    target = at(b, "%p1", b.new(f"mul i64 {plane.index}, {whole}"))
    for phase in range(step[0]):
        row = open_loop(b, table[10 + 2 * phase], table[11 + 2 * phase])
        line = b.new(f"add i64 {b.new(f'mul i64 {row.index}, {step[0]}')}, {phase}")
        line = b.new(f"sub i64 {line}, {top}")
        column = open_loop(b, begin, end, lanes)
        reached = taps.reaching(0, phase)
        sums = [
            _sum(b, taps, source, (pitch, high, wide), (row.index, column.index), reached, side)
            for side in range(step[1])
        ]
        place = b.new(f"sub i64 {b.new(f'mul i64 {column.index}, {step[1]}')}, {left}")
        _put(b, sums, at(b, target, sum_of_products(b, (line, columns))), place, columns)
        close_loop(b, column)
        close_loop(b, row)
    close_loop(b, plane)
    return module(b, 2)


def _sum(
    b: Vectors,
    taps: Taps,
    source: str,
    shape: tuple[str, str, str],
    place: tuple[str, str],
    reached: list[tuple[int, int]],
    side: int,
) -> str:
    """What reaches a vector of places of one phase."""
    pitch, high, wide = shape
    total = ""
    for r, up in reached:
        line = b.new(f"sub i64 {place[0]}, {up}")
        there = b.new(f"icmp ult i64 {line}, {high}")
        bound = b.new(f"select i1 {there}, i64 {wide}, i64 0")
        for s, before in taps.reaching(1, side):
            first = b.new(f"sub i64 {place[1]}, {before}")
            tap = str(r * taps.kernel[1] + s)
            offset = sum_of_products(b, (pitch, tap), (line, wide), (first, 1))
            value = load(b, "float", at(b, source, offset), _inside(b, first, bound))
            total = b.add(total, value) if total else value
    return total or b.number(0.0)


def _put(b: Vectors, sums: list[str], line: str, first: str, columns: str) -> None:
    """Store vectors of the phases of a row in turns, what is inside the row."""
    for part in range(len(sums)):
        value = sums[part]
        if len(sums) > 1:
            lanes = b.lanes
            start = part * lanes // 2
            order = ", ".join(f"i32 {start + i // 2 + i % 2 * lanes}" for i in range(lanes))
            both = ", ".join(f"{b.real} {x}" for x in sums)
            value = b.new(f"shufflevector {both}, <{lanes} x i32> <{order}>")
        place = b.new(f"add i64 {first}, {part * b.lanes}")
        store(b, "float", value, at(b, line, place), _inside(b, place, columns))


def input_gradient(
    g: NDArray, w: NDArray, input_shape: Sizes, settings: tuple[Sizes, Sizes, Sizes]
) -> NDArray:
    """The gradient of float32 images of a shape, of g (N, K, H, W) and filters (K, C, R, S)."""
    stride, padding, dilation = settings
    images, made, *sent = g.shape
    channels, pixels = input_shape[1], prod(sent)
    taps = Taps(tuple(w.shape[2:]), tuple(stride), tuple(dilation))
    area = prod(taps.kernel)
    filters = np.ascontiguousarray(w).reshape(made, -1).T
    gradient = np.ascontiguousarray(g)
    out = np.empty(input_shape, g.dtype)
    if pixels >= OWN_PIXELS:
        several = max(1, BLOCK // (area * pixels))
        for image in range(images):
            columns = gradient[image].reshape(made, pixels)
            for first in range(0, channels, several):
                last = min(first + several, channels)
                found = scratch("sent back", (last - first) * area * pixels)
                matrix = found[: (last - first) * area * pixels].reshape(-1, pixels)
                multiply(filters[first * area : last * area], columns, matrix)
                _fold(matrix, out[image : image + 1, first:last], taps, padding, sent)
        return out
    places = (np.arange(images)[:, None] * (made * pixels) + np.arange(pixels)).reshape(-1)
    by_channel = Gathered(gradient.reshape(-1), np.arange(made) * pixels, places)
    matrix = np.empty((channels * area, images * pixels), g.dtype)
    multiply(filters, by_channel, matrix)
    _fold(matrix, out, taps, padding, sent)
    return out


def _fold(found: NDArray, out: NDArray, taps: Taps, padding: Sizes, sent: list[int]) -> None:
    """Add up what taps [(c, r, s), (n, i, j)] send back to pixels; out is dense."""
    images, channels, *whole = out.shape
    ends = [
        (pad // step if dim else -(-max(pad - phase, 0) // step), -(-(n + pad - phase) // step))
        for dim, (pad, step, n) in enumerate(zip(padding, taps.stride, whole, strict=True))
        for phase in range(1 if dim else step)
    ]
    rows, columns = ends[:-1], ends[-1]
    table = [channels, found.shape[1], *sent, *whole, *padding, *columns]
    geometry = np.array([*table, *(n for pair in rows for n in pair)], np.int64)
    kernel = builtin(_text(taps, lanes()))

    def part(begin: int, end: int) -> None:
        kernel(found, out, geometry, NOTHING, begin, end)

    threads.split(part, images * channels, max(1, GRAIN // max(prod(sent) * prod(taps.kernel), 1)))
