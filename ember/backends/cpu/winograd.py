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


def _transformed_filters(w: NDArray, turned: bool) -> tuple[NDArray, int, int]:
    """planes[product, K, C] of filters (K, C, 3, 3), or [product, C, K] of them turned round, and
    the elements from product to product and row to row."""
    made, channels = w.shape[:2]
    w = np.ascontiguousarray(w)
    rows, columns = (channels, made) if turned else (made, channels)
    pitch = -(-columns // lanes()) * lanes() + APART
    plane = rows * pitch + APART
    planes = scratch("filters", PRODUCTS * plane)
    steps = (9, channels * 9) if turned else (channels * 9, 9)
    geometry = np.array([columns, *steps, plane, pitch], np.int64)
    kernel = builtin(filters_text(lanes(), turned))

    def part(begin: int, end: int) -> None:
        kernel(w, planes, geometry, NOTHING, begin, end)

    threads.split(part, rows, max(1, 4096 // columns))
    return planes, plane, pitch


def convolution(
    x: NDArray, w: NDArray, padding: Sizes, sizes: Sizes, *, turned: bool = False
) -> NDArray:
    """The images (N, C, H, W) convolved with filters (K, C, 3, 3); or, `turned`, with the filters
    (C, K, 3, 3) turned round: the gradient of images."""
    images, channels = x.shape[:2]
    made = w.shape[1] if turned else len(w)
    tiles = _tiles(sizes)
    count = images * tiles[0] * tiles[1]
    rows, vectors = tile_for(made, count)
    if rows > MOST_ROWS:
        rows, vectors = 8, 3
    width = vectors * lanes()
    panels = -(-count // width)
    inner, whole = (4 * tiles[0] + 2, 4 * tiles[1] + 2), (4 * tiles[0], 4 * tiles[1])
    source = framed(x, padding, inner)
    found = np.empty((images, made, *whole), x.dtype)
    planes, of_filters, pitch = _transformed_filters(w, turned)
    of_tiles, of_products = channels * width + APART, made * width + APART
    reads = _places(images, channels, tiles, inner, panels * width)
    writes = _places(images, made, tiles, whole, panels * width)
    transform = builtin(tiles_text(6, lanes()))
    product = builtin(products_text(rows, vectors, lanes()))
    back = builtin(output_text(width, lanes()))
    given = np.array([vectors, inner[0] * inner[1], inner[1], of_tiles, width], np.int64)
    between = np.array([channels, made, pitch, of_tiles, of_filters, of_products], np.int64)
    taken = np.array([vectors, whole[0] * whole[1], whole[1], of_products], np.int64)

    def part(begin: int, end: int) -> None:
        seen = scratch("tiles", PRODUCTS * of_tiles)
        made_of = scratch("products", PRODUCTS * of_products)
        for panel in range(begin, end):
            some = slice(panel * width, (panel + 1) * width)
            transform(source, seen, reads[some], given, NOTHING, 0, channels)
            product(seen, planes, made_of, between, NOTHING, 0, PRODUCTS)
            back(made_of, found, writes[some], taken, NOTHING, 0, made)

    threads.split(part, panels, 1)
    if whole == tuple(sizes):
        return found
    out = np.empty((images, made, *sizes), x.dtype)
    frame(found, out, (0, 0), sizes)
    return out


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
