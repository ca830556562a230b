"""Two products whose right operand is read where it lies, as LLVM functions of float32.

Row j of the right operand starts at `offsets[j]` in a flat buffer, so the taps of a convolution are
rows of one operand without being copied there: they overlap.

`rows`: out[k, q] = Σ over j of w[k, j]·x[offsets[j] + q]. A tile of results stays in registers; the
weights come in blocks of rows, w[block, j, row in block].
`dots`: out[k, j] += Σ over n, q of g[n, k, q]·x[n, offsets[j] + q].

Both are builtin(x, w or g, out, offsets, geometry, scratch, begin, end), and read whole vectors
past the end of a row.
"""

from __future__ import annotations

from functools import lru_cache

from ember.backends.cpu.native import vector_bytes
from ember.kernel.elements import load_one
from ember.kernel.nests import close_loop, open_loop, sum_of_products
from ember.kernel.python_call import python_call
from ember.scalar.vectors import Vectors

TILES = {64: ((8, 3), (12, 2), (6, 4), (4, 6)), 32: ((6, 2), (4, 2)), 16: ((4, 2),)}
DOTS = {64: (3, 8), 32: (2, 4), 16: (2, 4)}


def tile_for(rows: int, columns: int = 0) -> tuple[int, int]:
    """(rows, vectors) of the tile that wastes least on a number of rows, and of columns."""

    def cost(tile: tuple[int, int]) -> tuple[int, bool]:
        high, wide = tile[0], tile[1] * lanes()
        across = -(-columns // wide) * wide if columns else 1
        return -(-rows // high) * high * across, high < 8

    return min(TILES[vector_bytes()], key=cost)


def lanes() -> int:
    """The numbers in a vector."""
    return vector_bytes() // 4


def dots_tile() -> tuple[int, int]:
    """(rows of g, rows of x) of the tile of `dots`."""
    return DOTS[vector_bytes()]


def _sizes(b: Vectors, count: int) -> list[str]:
    places = [b.new(f"getelementptr i64, ptr %geometry, i64 {i}") for i in range(count)]
    return [b.new(f"load i64, ptr {place}") for place in places]


def _at(b: Vectors, base: str, offset: str | int) -> str:
    return b.new(f"getelementptr float, ptr {base}, i64 {offset}")


def _offset(b: Vectors, index: str) -> str:
    return b.new(f"load i64, ptr {b.new(f'getelementptr i64, ptr %p3, i64 {index}')}")


def _module(b: Vectors) -> str:
    declared = "\n".join(sorted(b.declarations))
    body = "\n".join(b.lines)
    return (
        f"{declared}\ndefine internal void @loop(ptr %p0, ptr %p1, ptr %p2, ptr %p3, "
        f"ptr %geometry, ptr %scratch, i64 %begin, i64 %end) {{\nentry:\n{body}\n  ret void\n}}\n"
        f"{python_call(4, 0, 'float')}"
    )


@lru_cache(maxsize=16)
def rows_text(rows: int, vectors: int, width: int) -> str:
    """`rows` for blocks begin..end of columns; geometry: how many j, blocks of rows, and the
    elements from row to row of the result."""
    b = Vectors("float", width)
    count, blocks, pitch = _sizes(b, 3)
    zero = (b.real, b.number(0.0))
    columns = open_loop(b, "%begin", "%end")
    first = b.new(f"mul i64 {columns.index}, {vectors * width}")
    block = open_loop(b, "0", blocks)
    begin = _at(b, "%p1", sum_of_products(b, (b.new(f"mul i64 {block.index}, {count}"), rows)))
    inner = open_loop(b, "0", count, 1, (zero,) * (rows * vectors))
    source = _at(b, "%p0", b.new(f"add i64 {_offset(b, inner.index)}, {first}"))
    read = [
        b.new(f"load {b.real}, ptr {_at(b, source, v * width)}, align 4") for v in range(vectors)
    ]
    weights = _at(b, begin, b.new(f"mul i64 {inner.index}, {rows}"))
    new = []
    for row in range(rows):
        weight = load_one(b, "float", _at(b, weights, row))
        new += [b.fma(weight, read[v], inner.carried[row * vectors + v]) for v in range(vectors)]
    sums = close_loop(b, inner, new)
    top = b.new(f"mul i64 {block.index}, {rows}")
    for row in range(rows):
        line = sum_of_products(b, (b.new(f"add i64 {top}, {row}"), pitch), (first, 1))
        target = _at(b, "%p2", line)
        for v in range(vectors):
            value = sums[row * vectors + v]
            b.do(f"store {b.real} {value}, ptr {_at(b, target, v * width)}, align 4")
    close_loop(b, block)
    close_loop(b, columns)
    return _module(b)


@lru_cache(maxsize=16)
def dots_text(rows: int, columns: int, width: int) -> str:
    """`dots` for blocks begin..end of j; geometry: how many q, which is the elements from row to
    row of g, blocks of rows of g, elements from row to row of the result, how many n, and the
    elements from one to the next in x."""
    b = Vectors("float", width)
    count, blocks, out_pitch, images, x_image = _sizes(b, 5)
    g_image = sum_of_products(b, (b.new(f"mul i64 {count}, {blocks}"), rows))
    zero = (b.real, b.number(0.0))
    block = open_loop(b, "%begin", "%end")
    first = b.new(f"mul i64 {block.index}, {columns}")
    starts = [_offset(b, b.new(f"add i64 {first}, {j}")) for j in range(columns)]
    group = open_loop(b, "0", blocks)
    top = b.new(f"mul i64 {group.index}, {rows}")
    several = open_loop(b, "0", images, 1, (zero,) * (rows * columns))
    x = _at(b, "%p0", sum_of_products(b, (several.index, x_image)))
    g = _at(b, "%p1", sum_of_products(b, (several.index, g_image)))
    sources = [_at(b, x, start) for start in starts]
    lines = [
        _at(b, g, sum_of_products(b, (b.new(f"add i64 {top}, {i}"), count))) for i in range(rows)
    ]
    carried = tuple((b.real, value) for value in several.carried)
    inner = open_loop(b, "0", count, width, carried)

    def vector(base: str) -> str:
        return b.new(f"load {b.real}, ptr {_at(b, base, inner.index)}, align 4")

    gradients = [vector(line) for line in lines]
    new = [""] * (rows * columns)
    for j, source in enumerate(sources):
        value = vector(source)
        for i, gradient in enumerate(gradients):
            new[i * columns + j] = b.fma(gradient, value, inner.carried[i * columns + j])
    sums = close_loop(b, several, close_loop(b, inner, new))
    for i in range(rows):
        line = sum_of_products(b, (b.new(f"add i64 {top}, {i}"), out_pitch), (first, 1))
        target = _at(b, "%p2", line)
        for j in range(columns):
            joined = b.across(b.add, sums[i * columns + j])
            one = b.new(f"extractelement {b.real} {joined}, i64 0")
            place = _at(b, target, j)
            old = b.new(f"load float, ptr {place}")
            b.do(f"store float {b.new(f'fadd float {old}, {one}')}, ptr {place}")
    close_loop(b, group)
    close_loop(b, block)
    return _module(b)
