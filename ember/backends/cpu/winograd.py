"""Convolutions of float32 images with 3x3 filters by Winograd's F(4x4, 3x3): 36 products where
summing directly takes 144 (winograd_text.py).

Tiles are taken a panel at a time: transformed, multiplied and transformed back while they are in
the cache. Rounding errors are about three times those of a direct sum.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ember.backends.cpu import threads
from ember.backends.cpu.framing import frame, framed
from ember.backends.cpu.native import builtin
from ember.backends.cpu.products import NOTHING, multiply, scratch
from ember.backends.cpu.tile_text import lanes, tile_for
from ember.backends.cpu.winograd_text import (
    PRODUCTS,
    filter_gradients_text,
    filters_text,
    output_text,
    products_text,
    tiles_text,
)

NDArray = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

APART = 16  # elements between the planes of products, lest all fall into one set of the cache
LEAST_CHANNELS, LEAST_TILES = 32, 24
LEAST_FILTERS = 1 << 12  # pairs of channels, for the gradient of filters
BLOCK = 1 << 21  # transformed elements of tiles that are multiplied together
DEPTH = 64  # tiles whose products are summed together: long sums would lose digits
FEW_PANELS, MANY_FILTERS = 3, 1 << 15  # for filters to be transformed a few rows at a time
ROWS = 32  # of filters at a time
MOST_ROWS = 8  # of a tile of results: filters are read from as many places


def fits(x_shape: Sizes, made: int, sizes: Sizes) -> bool:
    """Whether this is faster than summing directly: enough channels to pay for the transforms of
    tiles, enough tiles to pay for those of filters, and most of their pixels in the result."""
    count = x_shape[0] * prod(_tiles(sizes))
    used = x_shape[0] * prod(sizes) >= 8 * count
    return min(x_shape[1], made) >= LEAST_CHANNELS and count >= LEAST_TILES and used


def _tiles(sizes: Sizes) -> Sizes:
    return -(-sizes[0] // 4), -(-sizes[1] // 4)


@lru_cache(maxsize=64)
def _places(images: int, channels: int, tiles: Sizes, sizes: Sizes, padded: int) -> NDArray:
    """Where tiles start in planes (images, channels, *sizes), repeating the last up to a number."""
    image = np.arange(images)[:, None, None] * (channels * sizes[0] * sizes[1])
    down = np.arange(tiles[0])[:, None] * (4 * sizes[1])
    found = (image + down + np.arange(tiles[1]) * 4).reshape(-1)
    return np.concatenate([found, np.repeat(found[-1:], padded - len(found))]).astype(np.int64)


class _Filters:
    """Filters (K, C, 3, 3), or (C, K, 3, 3) turned round, that are transformed row by row."""

    def __init__(self, w: NDArray, turned: bool):
        self.w, self.turned = np.ascontiguousarray(w).reshape(-1), turned
        self.rows, self.columns = w.shape[:2][:: -1 if turned else 1]
        self.steps = (9, self.rows * 9) if turned else (self.columns * 9, 9)
        self.pitch = -(-self.columns // lanes()) * lanes() + APART
        self.kernel = builtin(filters_text(lanes(), turned))

    def transformed(self, begin: int, end: int) -> tuple[NDArray, int]:
        """[product, row, column] of some rows, and the elements from product to product."""
        plane = (end - begin) * self.pitch + APART
        planes = scratch("filters", PRODUCTS * plane)
        geometry = np.array([self.columns, *self.steps, plane, self.pitch], np.int64)
        source = self.w[begin * self.steps[0] :]

        def part(first: int, last: int) -> None:
            self.kernel(source, planes, geometry, NOTHING, first, last)

        threads.split(part, end - begin, max(1, 4096 // self.columns))
        return planes, plane


class _Panels:
    """Tiles of images and of the result, a panel of them at a time."""

    def __init__(self, x: NDArray, found: NDArray, padding: Sizes, tile: Sizes):
        images, self.channels = x.shape[:2]
        self.made, whole = found.shape[1], found.shape[2:]
        tiles, inner = (whole[0] // 4, whole[1] // 4), (whole[0] + 2, whole[1] + 2)
        self.width = tile[1] * lanes()
        self.vectors, self.found = tile[1], found
        self.count = -(-images * prod(tiles) // self.width)
        self.source = framed(x, padding, inner)
        self.reads = _places(images, self.channels, tiles, inner, self.count * self.width)
        self.writes = _places(images, self.made, tiles, whole, self.count * self.width)
        self.plane = self.channels * self.width + APART
        table = [self.vectors, prod(inner), inner[1], self.plane, self.width]
        self.given = np.array(table, np.int64)
        self.transform = builtin(tiles_text(6, lanes()))
        self.product = builtin(products_text(*tile, lanes()))
        self.back = builtin(output_text(self.width, lanes()))

    def seen(self, panel: int, planes: NDArray) -> None:
        """Transform the tiles of a panel."""
        places = self.reads[panel * self.width :]
        self.transform(self.source, planes, places, self.given, NOTHING, 0, self.channels)

    def put(
        self, panel: int, seen: NDArray, filters: tuple[NDArray, int], pitch: int, rows: Sizes
    ) -> None:
        """Multiply the tiles of a panel by the filters of some rows, and transform back."""
        first, high = rows[0], rows[1] - rows[0]
        plane, whole = high * self.width + APART, self.found.shape[2:]
        made = scratch("products", PRODUCTS * plane)
        table = [self.channels, high, pitch, self.plane, filters[1], plane]
        between = np.array(table, np.int64)
        self.product(seen, filters[0], made, between, NOTHING, 0, PRODUCTS)
        taken = np.array([self.vectors, prod(whole), whole[1], plane], np.int64)
        places = self.writes[panel * self.width :]
        self.back(made, self.found[:, first:], places, taken, NOTHING, 0, high)


def convolution(
    x: NDArray, w: NDArray, padding: Sizes, sizes: Sizes, *, turned: bool = False
) -> NDArray:
    """The images (N, C, H, W) convolved with filters (K, C, 3, 3); or, `turned`, with the filters
    (C, K, 3, 3) turned round: the gradient of images."""
    filters, tiles = _Filters(w, turned), _tiles(sizes)
    found = np.empty((len(x), filters.rows, 4 * tiles[0], 4 * tiles[1]), x.dtype)
    panels = _Panels(x, found, padding, _tile(filters.rows, len(x) * prod(tiles)))
    if panels.count <= FEW_PANELS and filters.rows * filters.columns >= MANY_FILTERS:
        _by_rows(panels, filters)
    else:
        _by_panels(panels, filters)
    if found.shape[2:] == tuple(sizes):
        return found
    out = np.empty((*found.shape[:2], *sizes), x.dtype)
    frame(found, out, (0, 0), sizes)
    return out


def _by_panels(panels: _Panels, filters: _Filters) -> None:
    """All filters are transformed, then each panel of tiles goes through all stages."""
    every, pitch = filters.transformed(0, filters.rows), filters.pitch

    def part(begin: int, end: int) -> None:
        seen = scratch("tiles", PRODUCTS * panels.plane)
        for panel in range(begin, end):
            panels.seen(panel, seen)
            panels.put(panel, seen, every, pitch, (0, filters.rows))

    threads.split(part, panels.count, 1)


def _by_rows(panels: _Panels, filters: _Filters) -> None:
    """All tiles are transformed, then some rows of filters at a time: they stay in the cache, where
    all of them would be written to memory and read again."""
    size = PRODUCTS * panels.plane
    every = scratch("tiles", panels.count * size)
    seen = [every[panel * size :] for panel in range(panels.count)]
    for panel, planes in enumerate(seen):
        panels.seen(panel, planes)
    unit = min(ROWS, filters.rows)

    def part(begin: int, end: int) -> None:
        for first in range(begin * unit, min(end * unit, filters.rows), unit):
            rows = (first, min(first + unit, filters.rows))
            some = filters.transformed(*rows)
            for panel, planes in enumerate(seen):
                panels.put(panel, planes, some, filters.pitch, rows)

    threads.split(part, -(-filters.rows // unit), 1)


def _tile(rows: int, count: int) -> Sizes:
    """Rows and vectors of the tiles of results that are kept in registers."""
    tile = tile_for(rows, count)
    if tile[0] <= MOST_ROWS:
        return tile
    return (8, 2) if count <= 2 * lanes() else (8, 3)


def weight_gradient(g: NDArray, x: NDArray, padding: Sizes) -> NDArray:
    """The gradient of filters (K, C, 3, 3)."""
    images, channels = x.shape[:2]
    made, sizes = g.shape[1], g.shape[2:]
    tiles = _tiles(sizes)
    count = images * tiles[0] * tiles[1]
    inner, whole = (4 * tiles[0] + 2, 4 * tiles[1] + 2), (4 * tiles[0], 4 * tiles[1])
    source = framed(x, padding, inner)
    gradient = np.ascontiguousarray(g) if whole == tuple(sizes) else framed(g, (0, 0), whole)
    most = max(1, BLOCK // (PRODUCTS * (channels + made)) // lanes()) * lanes()
    blocks = -(-count // most)
    length = -(-count // blocks // lanes()) * lanes()
    sides = [
        _Side(6, channels, inner, source, _places(images, channels, tiles, inner, count + length)),
        _Side(4, made, whole, gradient, _places(images, made, tiles, whole, count + length)),
    ]
    pitch = -(-channels // lanes()) * lanes() + APART
    total = scratch("filters", PRODUCTS * (made * pitch + APART))
    plane = made * pitch + APART
    sums = as_strided(total, (PRODUCTS, made, channels), (4 * plane, 4 * pitch, 4))
    for begin in range(0, count, length):
        last = min(begin + length, count) - begin
        pixels, gradients = (side.transformed(begin, length, last) for side in sides)
        _add_products(pixels, gradients, sums, begin > 0)
    out = np.empty((made, channels, 3, 3), x.dtype)
    geometry = np.array([channels, plane, pitch], np.int64)
    kernel = builtin(filter_gradients_text(lanes()))

    def put(begin: int, end: int) -> None:
        kernel(total, out, geometry, NOTHING, begin, end)

    threads.split(put, made, max(1, 4096 // channels))
    return out


def _add_products(pixels: NDArray, gradients: NDArray, sums: NDArray, adds: bool) -> None:
    """sums[product] = gradients[product] · pixels[product]ᵀ, or added to them."""

    def part(begin: int, end: int) -> None:
        for i in range(begin, end):
            multiply(gradients[i], pixels[i].T, sums[i], adds=adds, depth=DEPTH)

    threads.split(part, PRODUCTS, 1)


class _Side(NamedTuple):
    """What is summed over tiles: pixels or gradients, and where their tiles are."""

    size: int
    channels: int
    plane: Sizes
    source: NDArray
    places: NDArray

    def transformed(self, begin: int, length: int, count: int) -> NDArray:
        """[product, channel, tile] of `count` tiles, for which there is room for `length`."""
        pitch = length + APART
        plane = self.channels * pitch + APART
        planes = scratch(f"tiles{self.size}", PRODUCTS * plane)
        vectors = -(-count // lanes())
        table = [vectors, self.plane[0] * self.plane[1], self.plane[1], plane, pitch]
        geometry = np.array(table, np.int64)
        kernel = builtin(tiles_text(self.size, lanes()))
        places = self.places[begin:]

        def part(first: int, end: int) -> None:
            kernel(self.source, planes, places, geometry, NOTHING, first, end)

        threads.split(part, self.channels, max(1, 512 // vectors))
        steps = (4 * plane, 4 * pitch, 4)
        return as_strided(planes, (PRODUCTS, self.channels, count), steps)
