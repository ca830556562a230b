"""Matrices of float32 turned round, 16 by 16 in registers: images with channels last become images
with channels first, and the other way round."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ember.backends.cpu import threads
from ember.backends.cpu.native import builtin
from ember.backends.cpu.panel_text import at, module, sizes, turned
from ember.backends.cpu.tile_text import lanes
from ember.kernel.elements import load, mask_below, store
from ember.kernel.nests import close_loop, open_loop, sum_of_products
from ember.scalar.vectors import Vectors

NDArray = np.ndarray[Any, Any]

GRAIN = 1 << 16  # elements that are worth another thread
NOTHING = np.empty(1, np.float32)


def _row(b: Vectors, first: str, number: int, last: str) -> str:
    """The number of a row, at most that of the last."""
    row = b.new(f"add i64 {first}, {number}")
    past = b.new(f"icmp sgt i64 {row}, {last}")
    return b.new(f"select i1 {past}, i64 {last}, i64 {row}")


@lru_cache(maxsize=4)
def _text(lanes: int) -> str:
    """builtin(source, out, geometry, scratch, begin, end): out[m, j, i] = source[m, i, j] for
    strips begin..end, each some rows of a matrix.

    Geometry: strips, rows and columns of a matrix of the source.
    """
    b = Vectors("float", lanes)
    strips, rows, columns = sizes(b, 3)
    last_row, last_column = (b.new(f"sub i64 {n}, 1") for n in (rows, columns))
    whole = b.new(f"mul i64 {rows}, {columns}")
    strip = open_loop(b, "%begin", "%end")
    start = b.new(f"mul i64 {b.new(f'sdiv i64 {strip.index}, {strips}')}, {whole}")
    source, target = at(b, "%p0", start), at(b, "%p1", start)
    row = b.new(f"mul i64 {b.new(f'srem i64 {strip.index}, {strips}')}, {lanes}")
    down = mask_below(b, row, rows)
    numbers = [_row(b, row, i, last_row) for i in range(lanes)]
    lines = [at(b, source, b.new(f"mul i64 {number}, {columns}")) for number in numbers]
    column = open_loop(b, "0", columns, lanes)
    across = mask_below(b, column.index, columns)
    square = turned(b, [load(b, "float", at(b, line, column.index), across) for line in lines])
    for i in reversed(range(lanes)):  # rows after the last are written where it then goes
        number = _row(b, column.index, i, last_column)
        place = at(b, target, sum_of_products(b, (number, rows), (row, 1)))
        store(b, "float", square[i], place, down)
    close_loop(b, column)
    close_loop(b, strip)
    return module(b, 2)


def _turn(source: NDArray, out: NDArray, rows: int, columns: int) -> None:
    """Every matrix of a dense array turned round, into another."""
    strips = -(-rows // lanes())
    kernel = builtin(_text(lanes()))
    geometry = np.array([strips, rows, columns], np.int64)

    def part(begin: int, end: int) -> None:
        kernel(source, out, geometry, NOTHING, begin, end)

    matrices = source.size // (rows * columns)
    threads.split(part, matrices * strips, max(1, GRAIN // (lanes() * columns)))


def channels_first(x: NDArray) -> NDArray | None:
    """Images (N, C, ...) with channels last, as a dense array; None for others."""
    source = np.moveaxis(x, 1, -1)
    if x.dtype != np.float32 or not x.size or not source.flags.c_contiguous:
        return None
    out = np.empty(x.shape, x.dtype)
    _turn(source, out, prod(x.shape[2:]), x.shape[1])
    return out


def put_channels_last(x: NDArray, out: NDArray) -> bool:
    """Write dense images (N, C, ...) to an array of their shape whose channels lie last; False,
    with nothing done, for others."""
    if x.dtype != np.float32 or out.dtype != x.dtype or out.shape != x.shape or not x.size:
        return False
    target = np.moveaxis(out, 1, -1)
    if not x.flags.c_contiguous or not target.flags.c_contiguous:
        return False
    _turn(x, target, x.shape[1], prod(x.shape[2:]))
    return True
