"""Rows of float32 added to rows by index, as an LLVM function: the gradient of an embedding."""

from __future__ import annotations

from functools import lru_cache

from ember.backends.cpu.panel_text import at, module, sizes
from ember.kernel.elements import load, mask_below, store
from ember.kernel.nests import close_loop, open_loop, sum_of_products
from ember.scalar.vectors import Vectors

UNROLLED = 4  # vectors of a row that are added together


@lru_cache(maxsize=4)
def row_sums_text(lanes: int) -> str:
    """builtin(source, out, places, geometry, scratch, begin, end): out[places[i]] += source[i] for
    all i in order, for the elements begin..end of a row in blocks of vectors.

    Geometry: how many rows are added, elements of a row of out, and from row to row of the source.
    """
    b = Vectors("float", lanes)
    count, width, step = sizes(b, 3)
    block = UNROLLED * lanes
    rows = open_loop(b, "0", count)
    place = b.new(f"getelementptr i64, ptr %p2, i64 {rows.index}")
    number = b.new(f"load i64, ptr {place}")
    source = at(b, "%p0", sum_of_products(b, (rows.index, step)))
    target = at(b, "%p1", sum_of_products(b, (number, width)))
    columns = open_loop(b, "%begin", "%end")
    first = b.new(f"mul i64 {columns.index}, {block}")
    for part in range(0, block, lanes):
        index = b.new(f"add i64 {first}, {part}")
        mask, to = mask_below(b, index, width), at(b, target, index)
        value = load(b, "float", at(b, source, index), mask)
        store(b, "float", b.add(load(b, "float", to, mask), value), to, mask)
    close_loop(b, columns)
    close_loop(b, rows)
    return module(b, 3)
