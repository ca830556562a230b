"""Products of small float32 matrices, compiled: BLAS packs its operands anew at each call, which
costs as much as such a product does. Larger ones and other types go to BLAS."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ember.backends.cpu.native import builtin
from ember.backends.cpu.tile_text import lanes, tile_for
from ember.kernel.elements import load, load_one, mask_below, store
from ember.kernel.nests import close_loop, open_loop, sum_of_products
from ember.kernel.python_call import python_call
from ember.scalar.vectors import Vectors

NDArray = np.ndarray[Any, Any]

LEAST, MOST = 1 << 14, 1 << 23  # multiplications between which the compiled form is faster
MOST_WASTE = 1.2  # results computed for one that is wanted
MOST_KNOWN = 10_000
SCRATCH = np.empty(1, np.float32)


def write_product(
    b: Vectors,
    tile: tuple[int, int],
    pointers: tuple[str, str, str],
    sizes: tuple[str, str, str],
    steps: list[str],
    bounds: tuple[str, str],
    adds: bool,
) -> None:
    """Write out = a b, or out += a b, for blocks of columns between bounds. The pointers are to b,
    a and out; the sizes rows of a, its columns, columns of b; the steps from row to row and column
    to column of a, from row to row of b and of out. Rows past the last are the last one again."""
    (rows, vectors), (right, left, out), (made, count, wide) = tile, pointers, sizes
    a_row, a_column, b_row, out_row = steps
    last = b.new(f"sub i64 {made}, 1")
    blocks = b.new(f"sdiv i64 {b.new(f'add i64 {made}, {rows - 1}')}, {rows}")

    def at(base: str, offset: str | int) -> str:
        return b.new(f"getelementptr float, ptr {base}, i64 {offset}")

    columns = open_loop(b, *bounds)
    first = b.new(f"mul i64 {columns.index}, {vectors * b.lanes}")
    starts = [b.new(f"add i64 {first}, {v * b.lanes}") for v in range(vectors)]
    masks = [mask_below(b, start, wide) for start in starts]
    block = open_loop(b, "0", blocks)
    numbers = []
    for row in range(rows):
        number = b.new(f"add i64 {b.new(f'mul i64 {block.index}, {rows}')}, {row}")
        past = b.new(f"icmp sgt i64 {number}, {last}")
        numbers.append(b.new(f"select i1 {past}, i64 {last}, i64 {number}"))
    lines = [at(left, sum_of_products(b, (number, a_row))) for number in numbers]
    targets = [
        [at(out, sum_of_products(b, (number, out_row), (start, 1))) for start in starts]
        for number in numbers
    ]
    inner = open_loop(b, "0", count, 1, ((b.real, b.number(0.0)),) * (rows * vectors))
    source = at(right, sum_of_products(b, (inner.index, b_row), (first, 1)))
    read = [load(b, "float", at(source, v * b.lanes), masks[v]) for v in range(vectors)]
    place = b.new(f"mul i64 {inner.index}, {a_column}")
    new = []
    for row in range(rows):
        factor = load_one(b, "float", at(lines[row], place))
        new += [b.fma(factor, read[v], inner.carried[row * vectors + v]) for v in range(vectors)]
    sums = close_loop(b, inner, new)
    if adds:  # at the end: sums of parts of the terms are more exact than one long sum
        sums = [
            b.add(load(b, "float", targets[i // vectors][i % vectors], masks[i % vectors]), total)
            for i, total in enumerate(sums)
        ]
    for row in range(rows):
        for v in range(vectors):
            store(b, "float", sums[row * vectors + v], targets[row][v], masks[v])
    close_loop(b, block)
    close_loop(b, columns)


@lru_cache(maxsize=32)
def product_text(rows: int, vectors: int, width: int, adds: bool) -> str:
    """builtin(b, a, out, geometry, scratch, begin, end): out = a b, or out += a b, for blocks
    begin..end of columns. Geometry: the sizes and steps of `write_product`."""
    b = Vectors("float", width)
    places = [b.new(f"getelementptr i64, ptr %geometry, i64 {i}") for i in range(7)]
    made, count, wide, *steps = (b.new(f"load i64, ptr {place}") for place in places)
    write_product(
        b,
        (rows, vectors),
        ("%p0", "%p1", "%p2"),
        (made, count, wide),
        steps,
        ("%begin", "%end"),
        adds,
    )
    declared, body = "\n".join(sorted(b.declarations)), "\n".join(b.lines)
    return (
        f"{declared}\ndefine internal void @loop(ptr %p0, ptr %p1, ptr %p2, ptr %geometry, "
        f"ptr %scratch, i64 %begin, i64 %end) {{\nentry:\n{body}\n  ret void\n}}\n"
        f"{python_call(3, 0, 'float')}"
    )


def multiply(a: NDArray, b: NDArray, out: NDArray, *, adds: bool = False) -> None:
    """out = a b, or out += a b; rows of out are dense."""
    key = a.shape, a.strides, b.shape, b.strides, out.strides, a.dtype, adds
    found = _known.get(key)
    if found is None:
        if len(_known) > MOST_KNOWN:
            _known.clear()
        found = _known[key] = _product(a, b, out, adds)
    found(a, b, out)


_known: dict[Any, Callable[[NDArray, NDArray, NDArray], None]] = {}


def _product(
    a: NDArray, b: NDArray, out: NDArray, adds: bool
) -> Callable[[NDArray, NDArray, NDArray], None]:
    rows, vectors = tile_for(len(a), b.shape[1])
    blocks = -(-b.shape[1] // (vectors * lanes()))
    computed = -(-len(a) // rows) * rows * blocks * vectors * lanes()
    work = len(a) * b.shape[0] * b.shape[1]
    if not (
        a.dtype == np.float32
        and LEAST <= work <= MOST
        and computed <= MOST_WASTE * out.size
        and b.strides[1] == b.itemsize
        and min(a.strides) >= 0
    ):
        return _added_by_blas if adds else _by_blas
    kernel = builtin(product_text(rows, vectors, lanes(), adds))
    steps = [*a.strides, b.strides[0], out.strides[0]]
    table = [len(a), *b.shape, *(step // 4 for step in steps)]
    geometry = np.array(table, np.int64)

    def run(a: NDArray, b: NDArray, out: NDArray) -> None:
        kernel(b, a, out, geometry, SCRATCH, 0, blocks)

    return run


def _by_blas(a: NDArray, b: NDArray, out: NDArray) -> None:
    np.matmul(a, b, out=out)


def _added_by_blas(a: NDArray, b: NDArray, out: NDArray) -> None:
    out += np.matmul(a, b)
