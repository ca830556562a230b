"""Linear maps of few rows as one LLVM function: the rows are turned, so that the weight, which is
by far the larger operand, is read once where it lies instead of being packed."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ember.backends.cpu import threads
from ember.backends.cpu.attention_text import Module, call, product, transpose
from ember.backends.cpu.native import builtin
from ember.backends.cpu.panel_text import at, sizes, turned
from ember.backends.cpu.products import DEPTH, scratch
from ember.backends.cpu.tile_text import lanes, tile_for
from ember.kernel.elements import load, mask_below, store
from ember.kernel.nests import close_loop, open_loop, sum_of_products
from ember.kernel.python_call import python_call
from ember.scalar.vectors import Vectors

NDArray = np.ndarray[Any, Any]

LEAST_ROWS, MOST_ROWS = 8, 64
LEAST_COLUMNS, LEAST_WORK = 32, 1 << 18
BLOCK = 48  # results of the weight's rows that are turned back together
GRAIN = 1 << 21  # multiplications that are worth a thread
ONE = np.ones(1, np.float32)


def suits(rows: NDArray, weight: NDArray, bias: NDArray | None) -> bool:
    """Whether rows @ weightᵀ + bias is a map of few rows that lie as the function reads them."""
    (made, terms), columns = rows.shape, len(weight)
    return (
        LEAST_ROWS <= made <= MOST_ROWS
        and columns >= LEAST_COLUMNS
        and made * terms * columns >= LEAST_WORK
        and rows.dtype == weight.dtype == np.float32
        and rows.strides[1] == weight.strides[1] == 4
        and (bias is None or (bias.dtype == np.float32 and bias.strides[0] == 4))
    )


def _back(module: Module, is_biased: bool) -> None:
    """back(source, bias, to, rows, columns, pitch, step): to[c · step + r] becomes source[r · pitch
    + c], plus bias[r]."""
    b = module.begin()
    down = open_loop(b, "0", "%rows", b.lanes)
    mask = mask_below(b, down.index, "%rows")
    added = load(b, "float", at(b, "%bias", down.index), mask) if is_biased else ""
    across = open_loop(b, "0", "%columns", b.lanes)
    square = []
    for i in range(b.lanes):
        row = b.new(f"add i64 {down.index}, {i}")
        place = at(b, "%source", sum_of_products(b, (row, "%pitch"), (across.index, 1)))
        square.append(load(b, "float", place, None))
    last = b.new("sub i64 %columns, 1")
    for i, vector in reversed(list(enumerate(turned(b, square)))):
        column = b.new(f"add i64 {across.index}, {i}")
        past = b.new(f"icmp sgt i64 {column}, {last}")  # written first, and then what belongs there
        column = b.new(f"select i1 {past}, i64 {last}, i64 {column}")
        place = at(b, "%to", sum_of_products(b, (column, "%step"), (down.index, 1)))
        store(b, "float", b.add(vector, added) if is_biased else vector, place, mask)
    close_loop(b, across)
    close_loop(b, down)
    module.end(b, "back", ["source", "bias", "to"], ["rows", "columns", "pitch", "step"])


def _smaller(b: Vectors, x: str, y: str) -> str:
    less = b.new(f"icmp slt i64 {x}, {y}")
    return b.new(f"select i1 {less}, i64 {x}, i64 {y}")


@lru_cache(maxsize=32)
def few_rows_text(width: int, tile: tuple[int, int], is_biased: bool) -> str:
    """builtin(x, weight, bias, out, one, geometry, scratch, begin, end) for blocks begin..end of
    the weight's rows; `one` is 1.

    Geometry: rows of x, its columns, rows of the weight; elements from row to row of x, the weight
    and out, and of the scratch.
    """
    module = Module(width)
    product(module, "multiply", tile, False)
    product(module, "more", tile, True)
    transpose(module)
    _back(module, is_biased)
    b = module.begin()
    made, terms, columns, x_row, weight_row, out_row, pitch = sizes(b, 7)
    padded = b.new(f"and i64 {b.new(f'add i64 {terms}, {width - 1}')}, {-width}")
    room = at(b, "%scratch", b.new(f"mul i64 {padded}, {pitch}"))
    call(b, "transpose", ["%p0", "%scratch", "%p4"], [made, terms, x_row, pitch])
    loop = open_loop(b, "%begin", "%end")
    first = b.new(f"mul i64 {loop.index}, {BLOCK}")
    count = _smaller(b, b.new(f"sub i64 {columns}, {first}"), str(BLOCK))
    weight = at(b, "%p1", b.new(f"mul i64 {first}, {weight_row}"))
    depth = _smaller(b, terms, str(DEPTH))
    steps = [made, weight_row, "1", pitch, pitch]
    call(b, "multiply", ["%scratch", weight, room], [count, depth, *steps])
    rest = open_loop(b, str(DEPTH), terms, DEPTH)
    right = at(b, "%scratch", b.new(f"mul i64 {rest.index}, {pitch}"))
    depth = _smaller(b, b.new(f"sub i64 {terms}, {rest.index}"), str(DEPTH))
    places = [right, at(b, weight, rest.index), room]
    call(b, "more", places, [count, depth, *steps])
    close_loop(b, rest)
    bias, target = (at(b, pointer, first) for pointer in ("%p2", "%p3"))
    call(b, "back", [room, bias, target], [count, made, pitch, out_row])
    close_loop(b, loop)
    module.end(b, "loop", [*(f"p{i}" for i in range(5)), "geometry", "scratch"], ["begin", "end"])
    return module.text() + python_call(5, 0, "float")


@lru_cache(maxsize=1000)
def _plan(sizes: tuple[int, int, int], steps: tuple[int, int, int], is_biased: bool) -> Any:
    """The function, its geometry, its scratch, how many blocks it counts, and those worth a
    thread."""
    (made, terms, columns), width = sizes, lanes()
    kernel = builtin(few_rows_text(width, tile_for(BLOCK, made), is_biased))
    pitch = -(-made // width) * width
    geometry = np.array([*sizes, *(step // 4 for step in steps), pitch], np.int64)
    size = (-(-terms // width) * width + BLOCK) * pitch
    return kernel, geometry, size, -(-columns // BLOCK), max(1, GRAIN // (made * terms * BLOCK))


def linear(rows: NDArray, weight: NDArray, bias: NDArray | None, out: NDArray) -> None:
    """rows @ weightᵀ + bias into `out`, whose rows are dense, for what suits."""
    sizes = (*rows.shape, len(weight))
    steps = rows.strides[0], weight.strides[0], out.strides[0]
    kernel, geometry, size, count, grain = _plan(sizes, steps, bias is not None)
    given = rows, weight, ONE if bias is None else bias, out, ONE, geometry
    if count <= grain or threads.count() == 1:
        kernel(*given, scratch("few rows", size), 0, count)
        return

    def part(begin: int, end: int) -> None:
        kernel(*given, scratch("few rows", size), begin, end)

    threads.split(part, count, grain)
