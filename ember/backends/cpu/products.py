"""Products of float32 matrices by kernels of the project's own: operands are packed block by block
into panels that stay in the caches, and multiplied there (panel_text.py).

After Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008.
"""

from __future__ import annotations

from _thread import _local
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ember.backends.cpu import threads
from ember.backends.cpu.native import builtin
from ember.backends.cpu.panel_text import (
    ADDED,
    BIASED,
    ZERO,
    gather_text,
    pack_text,
    product_text,
)
from ember.backends.cpu.tile_text import lanes, tile_for

NDArray = np.ndarray[Any, Any]

DEPTH = 256  # terms of a sum that are added together
COLUMNS, ROWS = 1536, 384  # of a block of the right operand and of the left
GRAIN = 1 << 20  # multiplications that are worth a thread
SPARE = 128  # elements behind packed panels: whole vectors are written
PACK_LEFT, PACK_RIGHT, MULTIPLY = range(3)
MOST_KEPT = 1 << 22  # numbers in memory that a thread keeps for the next call
MOST_KNOWN = 10_000
NOTHING = np.empty(1, np.float32)


def suits(x: NDArray) -> bool:
    """Whether a matrix can be packed as it lies: rows or columns of neighbours."""
    (high, wide), (down, along) = x.shape, x.strides
    return x.dtype == np.float32 and (
        (along == 4 and (down >= 4 or high == 1)) or (down == 4 and (along >= 4 or wide == 1))
    )


_kept = _local()


def scratch(name: str, count: int) -> NDArray:
    """Memory of this thread's for so many numbers, at a multiple of 64 bytes: fresh memory costs
    the kernel as much as what is done with it."""
    found: NDArray | None = _kept.__dict__.get(name)
    if found is None or len(found) < count:
        whole = np.empty(count + 16, np.float32)
        start = -whole.ctypes.data % 64 // 4
        found = whole[start : start + count]
        if count <= MOST_KEPT:
            _kept.__dict__[name] = found
    return found


class Gathered(NamedTuple):
    """A matrix whose element [i, j] is source[rows[i] + columns[j]]."""

    source: NDArray
    rows: NDArray
    columns: NDArray

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.columns)

    def operand(self, across: int) -> tuple[NDArray, ...]:
        """What a kernel reads whose vectors lie along rows (0) or columns (1)."""
        wide, along = (self.rows, self.columns) if across == 0 else (self.columns, self.rows)
        room = np.repeat(wide[-1:], 2 * SPARE)
        return self.source, np.concatenate([wide, room]).astype(np.int32), along


Matrix = NDArray | Gathered


class Steps(NamedTuple):
    """A product, or a part of it that one thread computes: how much memory its panels take, and the
    kernels to call with their geometries. What a step does: pack the right operand, pack the left,
    or multiply."""

    left: int
    right: int
    calls: list[tuple[int, Any, NDArray, int]]

    def run(
        self, a: tuple[NDArray, ...], b: tuple[NDArray, ...], out: NDArray, bias: NDArray
    ) -> None:
        """Compute it."""
        left, right = scratch("left", self.left), scratch("right", self.right)
        for what, kernel, geometry, count in self.calls:
            if what == MULTIPLY:
                kernel(right, left, out, bias, geometry, NOTHING, 0, count)
            else:
                given, panels = (b, right) if what == PACK_RIGHT else (a, left)
                kernel(given[0], panels, *given[1:], geometry, NOTHING, 0, count)


def multiply(
    a: Matrix,
    b: Matrix,
    out: NDArray,
    bias: NDArray | None = None,
    *,
    adds: bool = False,
    depth: int = DEPTH,
) -> None:
    """out = a b + bias, or out += a b, for matrices that suit; rows of out are dense. Sums are of
    parts of `depth` terms: the fewer, the smaller their rounding errors."""
    start = ADDED if adds else ZERO if bias is None else BIASED
    workers = 1 if threads.is_inside() else threads.count()
    key = _described(a), _described(b), out.strides, start, workers, depth
    pieces = _known.get(key)
    if pieces is None:
        if len(_known) > MOST_KNOWN:
            _known.clear()
        pieces = _known[key] = _pieces(a, b, out, start, workers, depth)
    added = NOTHING if bias is None else bias
    left = a.operand(0) if isinstance(a, Gathered) else (a,)
    right = b.operand(1) if isinstance(b, Gathered) else (b,)
    if len(pieces) == 1:
        pieces[0].run(left, right, out, added)
        return

    def part(begin: int, end: int) -> None:
        for piece in pieces[begin:end]:
            piece.run(left, right, out, added)

    threads.split(part, len(pieces), 1)


def _described(x: Matrix) -> Any:
    return (x.shape, None) if isinstance(x, Gathered) else (x.shape, x.strides)


_known: dict[Any, list[Steps]] = {}


def _pieces(
    a: Matrix, b: Matrix, out: NDArray, start: str, workers: int, depth: int
) -> list[Steps]:
    """The parts of a product for each thread: columns of the result, or rows where it has more."""
    made, columns = out.shape
    tile = tile_for(made, columns)
    unit, size = (tile[1] * lanes(), columns) if columns >= made else (tile[0], made)
    units = -(-size // unit)
    count = max(1, min(workers, units, made * columns * a.shape[1] // GRAIN))
    bounds = [min(units * i // count * unit, size) for i in range(count + 1)]
    pieces = []
    for begin, end in pairwise(bounds):
        rows, across = (slice(0, made), slice(begin, end))
        if columns < made:
            rows, across = (slice(begin, end), slice(0, columns))
        pieces.append(_steps((a, b, out), rows, across, tile, start, depth))
    return pieces


def _packing(
    x: Matrix, width: int, pitch: int, place: tuple[slice, slice], transposed: bool
) -> Any:
    """The call that packs a part of a matrix, each row of which becomes a column of a panel."""
    rows, columns = place
    if isinstance(x, Gathered):
        table = [columns.stop - columns.start, pitch, rows.start, columns.start]
        count = -(-(rows.stop - rows.start) // width)
        return builtin(gather_text(width, lanes())), np.array(table, np.int64), count
    steps = [step // 4 for step in x.strides]
    if transposed:
        steps.reverse()
    across = steps[0] == 1 and steps[1] != 1
    start = rows.start * steps[0] + columns.start * steps[1]
    size = rows.stop - rows.start
    table = [size, columns.stop - columns.start, pitch, steps[1 if across else 0], start]
    kernel = builtin(pack_text(width, lanes(), across))
    return kernel, np.array(table, np.int64), -(-size // width)


def _steps(
    arrays: tuple[Matrix, Matrix, NDArray],
    rows: slice,
    columns: slice,
    tile: tuple[int, int],
    start: str,
    most: int,
) -> Steps:
    a, b, out = arrays
    count, width, out_row = a.shape[1], tile[1] * lanes(), out.strides[0] // 4
    depth = -(-count // -(-count // most))
    high = min(rows.stop - rows.start, ROWS // tile[0] * tile[0])
    wide = min(columns.stop - columns.start, COLUMNS // width * width)
    padded = -(-depth // lanes()) * lanes()
    left, right = padded * tile[0], padded * width
    calls: list[tuple[int, Any, NDArray, int]] = []
    for k in range(0, count, depth):
        terms = slice(k, min(k + depth, count))
        kernel = builtin(product_text(*tile, lanes(), ADDED if k else start))
        for column in range(columns.start, columns.stop, wide):
            across = slice(column, min(column + wide, columns.stop))
            packed = _packing(b, width, right, (across, terms), True)
            calls.append((PACK_RIGHT, *packed))
            for row in range(rows.start, rows.stop, high):
                down = slice(row, min(row + high, rows.stop))
                if high < rows.stop - rows.start or column == columns.start:
                    calls.append((PACK_LEFT, *_packing(a, tile[0], left, (down, terms), False)))
                table = [terms.stop - k, left, right, down.stop - row, across.stop - column]
                table += [out_row, row * out_row + column, column]
                calls.append((MULTIPLY, kernel, np.array(table, np.int64), packed[2]))
    sizes = -(-high // tile[0]) * left + SPARE, -(-wide // width) * right + SPARE
    return Steps(*sizes, calls)
