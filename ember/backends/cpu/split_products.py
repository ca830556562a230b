"""Products of float32 matrices by a processor's bfloat16 tiles where it has them (split_text.py):
as exact as sums of float32 products, at a multiple of their speed. Elsewhere, and for numbers whose
parts bfloat16 cannot hold, products.py computes them.
"""

from __future__ import annotations

import ctypes
import os
import sys
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ember.backends import cpu
from ember.backends.cpu import native, products, threads
from ember.backends.cpu.native import builtin
from ember.backends.cpu.panel_text import ADDED, BIASED, ZERO
from ember.backends.cpu.products import NOTHING, Gathered, Matrix, scratch
from ember.backends.cpu.split_text import LINES, SIDE, TERMS, TILE, split_text, tiles_text

NDArray = np.ndarray[Any, Any]

LEAST_WORK = 1 << 22  # multiplications
LEAST_SIZE = 64  # rows, columns and terms
DEPTH, ROWS, COLUMNS = 256, 1024, 768  # of what is packed at once
NEAR = 320 * DEPTH  # numbers of the left operand that stay in a core's cache
GREATEST = 0x7F7F0000  # bits of a number that would round to no finite one; NaN's are greater
LEAST = 0x21800000  # of 2⁻⁶⁰: parts of what is below 2⁻¹⁰² may be too small for bfloat16
REQUEST, TILE_DATA = 0x1023, 18  # arch_prctl's ARCH_REQ_XCOMP_PERM, for the tiles' registers
SYSTEM_CALL = 158
MOST_KNOWN = 10_000
LEFT, RIGHT, MULTIPLY = range(3)

_state: dict[str, Any] = {}


def is_there() -> bool:
    """Whether the processor has bfloat16 tiles, and the system lets this process use them."""
    if "there" not in _state:
        _state["there"] = _asks()
    found: bool = _state["there"]
    return found and cpu.allow_split_products


def _asks() -> bool:
    if sys.platform != "linux" or os.uname().machine != "x86_64" or native.vector_bytes() != 64:
        return False
    if not native.has("amx-bf16") or ctypes.CDLL(None).syscall(SYSTEM_CALL, REQUEST, TILE_DATA):
        return False
    configuration = np.zeros(64, np.uint8)
    configuration[0] = 1  # the only layout there is: bytes of a row of each tile, and its rows
    configuration[16:32].view(np.uint16)[:] = 64
    configuration[48:56] = LINES
    _state["configuration"] = configuration
    return True


def suits(a: Matrix, b: Matrix) -> bool:
    """Whether a product is computed here."""
    (made, terms), wide = a.shape, b.shape[1]
    return (
        made * terms * wide >= LEAST_WORK
        and min(made, terms, wide) >= LEAST_SIZE
        and is_there()
        and (isinstance(a, Gathered) or products.suits(a))
        and (isinstance(b, Gathered) or products.suits(b))
    )


class Steps(NamedTuple):
    """The part of a product that one thread computes: how much memory its tiles take, and the
    kernels to call with their geometries."""

    left: int
    right: int
    calls: list[tuple[int, Any, NDArray, int]]

    def run(
        self, a: tuple[NDArray, ...], b: tuple[NDArray, ...], out: NDArray, bias: NDArray
    ) -> bool:
        """Compute it; whether all numbers could be split."""
        left, right = scratch("split left", self.left), scratch("split right", self.right)
        room, configuration = scratch("split", SIDE * SIDE), _state["configuration"]
        greatest = np.zeros((2, 1), np.uint32)
        for what, kernel, geometry, count in self.calls:
            if what == MULTIPLY:
                kernel(right, left, out, bias, configuration, geometry, room, 0, count)
            else:
                given, tiles = (a, left) if what == LEFT else (b, right)
                kernel(given[0], tiles, greatest[what], *given[1:], geometry, NOTHING, 0, count)
        return all(not n or LEAST <= n < GREATEST for n in greatest.ravel().tolist())


def multiply(
    a: Matrix, b: Matrix, out: NDArray, bias: NDArray | None = None, *, adds: bool = False
) -> None:
    """out = a b + bias, or out += a b, for matrices that suit products.py; rows of out are
    dense."""
    if not suits(a, b):
        products.multiply(a, b, out, bias, adds=adds)
        return
    start = ADDED if adds else ZERO if bias is None else BIASED
    workers = 1 if threads.is_inside() else threads.count()
    key = _described(a), _described(b), out.strides, start, workers
    pieces = _known.get(key)
    if pieces is None:
        if len(_known) > MOST_KNOWN:
            _known.clear()
        pieces = _known[key] = _pieces(a, b, out, start, workers)
    added = NOTHING if bias is None else bias
    left = a.operand(0) if isinstance(a, Gathered) else (a, NOTHING, NOTHING)
    right = b.operand(1) if isinstance(b, Gathered) else (b, NOTHING, NOTHING)
    before = out.copy() if adds else None
    done: list[bool] = []

    def part(begin: int, end: int) -> None:
        for piece in pieces[begin:end]:
            done.append(piece.run(left, right, out, added))

    threads.split(part, len(pieces), 1)
    if not all(done):
        if before is not None:
            out[...] = before
        products.multiply(a, b, out, bias, adds=adds)


def _described(x: Matrix) -> Any:
    return (x.shape, None) if isinstance(x, Gathered) else (x.shape, x.strides)


_known: dict[Any, list[Steps]] = {}


def _pieces(a: Matrix, b: Matrix, out: NDArray, start: str, workers: int) -> list[Steps]:
    """The parts of a product for each thread: columns of the result, or rows where it has more."""
    made, columns = out.shape
    size = max(made, columns)
    units = -(-size // SIDE)
    count = max(1, min(workers, units, made * columns * a.shape[1] // LEAST_WORK))
    bounds = [min(units * i // count * SIDE, size) for i in range(count + 1)]
    pieces = []
    for begin, end in pairwise(bounds):
        rows, across = slice(0, made), slice(begin, end)
        if columns < made:
            rows, across = slice(begin, end), slice(0, columns)
        pieces.append(_steps((a, b, out), rows, across, start))
    return pieces


def _packing(x: Matrix, lines: slice, terms: slice, is_right: bool) -> tuple[Any, NDArray, int]:
    """The call that packs lines of an operand: rows of the left, columns of the right."""
    count = lines.stop - lines.start
    table = [count, terms.stop - terms.start, -(-(terms.stop - terms.start) // TERMS)]
    blocks = 2 * -(-count // SIDE)
    if isinstance(x, Gathered):
        kernel = builtin(split_text(False, True, not is_right))
        return kernel, np.array([*table, terms.start, lines.start], np.int64), blocks
    by_line, by_term = (step // 4 for step in (x.strides[::-1] if is_right else x.strides))
    along = by_term == 1 and (by_line != 1 or x.shape[is_right] == 1)
    begin = lines.start * by_line + terms.start * by_term
    kernel = builtin(split_text(along, False, along == is_right))
    table += [by_line if along else by_term, begin]
    return kernel, np.array(table, np.int64), blocks


def _steps(
    arrays: tuple[Matrix, Matrix, NDArray], rows: slice, columns: slice, start: str
) -> Steps:
    a, b, out = arrays
    count, out_row = a.shape[1], out.strides[0] // 4
    depth = -(-count // -(-count // DEPTH))
    depth = -(-depth // TERMS) * TERMS
    high, wide = min(rows.stop - rows.start, ROWS), min(columns.stop - columns.start, COLUMNS)
    near = max(NEAR // depth // SIDE, 1) * SIDE
    calls: list[tuple[int, Any, NDArray, int]] = []
    for k in range(0, count, depth):
        terms = slice(k, min(k + depth, count))
        steps = -(-(terms.stop - k) // TERMS)
        kernel = builtin(tiles_text(ADDED if k else start))
        for column in range(columns.start, columns.stop, wide):
            across = slice(column, min(column + wide, columns.stop))
            calls.append((RIGHT, *_packing(b, across, terms, True)))
            panels = -(-(across.stop - column) // SIDE)
            for row in range(rows.start, rows.stop, high):
                down = slice(row, min(row + high, rows.stop))
                if high < rows.stop - rows.start or column == columns.start:
                    calls.append((LEFT, *_packing(a, down, terms, False)))
                for first in range(row, down.stop, near):
                    last = min(first + near, down.stop)
                    table = [steps, last - first, across.stop - column, out_row]
                    table += [first * out_row + column, column, (first - row) // LINES]
                    calls.append((MULTIPLY, kernel, np.array(table, np.int64), panels))
    left, right = (2 * -(-n // SIDE) * (depth // TERMS) * 3 * TILE for n in (high, wide))
    return Steps(left, right, calls)
