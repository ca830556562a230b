"""The parts of a matrix product as LLVM functions of float32: operands packed into panels, and the
product of packed panels.

A panel holds `width` rows of a matrix (columns of the right operand) side by side: panel[k, row].
So the kernel that multiplies reads both operands from one end to the other.
"""

from __future__ import annotations

from functools import lru_cache

from ember.kernel.elements import load, load_one, mask_below, store
from ember.kernel.nests import close_loop, open_loop, sum_of_products
from ember.kernel.python_call import python_call
from ember.scalar.vectors import Vectors

ZERO, ADDED, BIASED = "zero", "added", "biased"  # what a product starts from


def sizes(b: Vectors, count: int) -> list[str]:
    """The first integers of the geometry."""
    places = [b.new(f"getelementptr i64, ptr %geometry, i64 {i}") for i in range(count)]
    return [b.new(f"load i64, ptr {place}") for place in places]


def at(b: Vectors, base: str, offset: str | int) -> str:
    """The address of an element."""
    return b.new(f"getelementptr float, ptr {base}, i64 {offset}")


def module(b: Vectors, arrays: int) -> str:
    """The text of a module whose loop has been written."""
    declared, body = "\n".join(sorted(b.declarations)), "\n".join(b.lines)
    given = ", ".join(f"ptr %p{i}" for i in range(arrays))
    return (
        f"{declared}\ndefine internal void @loop({given}, ptr %geometry, ptr %scratch, "
        f"i64 %begin, i64 %end) {{\nentry:\n{body}\n  ret void\n}}\n"
        f"{python_call(arrays, 0, 'float')}"
    )


def turned(b: Vectors, rows: list[str]) -> list[str]:
    """A square of vectors, transposed: bit by bit, the index of a vector changes places with that
    of a lane."""
    lanes, rows = b.lanes, list(rows)
    step = 1
    while step < lanes:
        for i in range(lanes):
            if i & step:
                continue
            low = [j + lanes - step if j & step else j for j in range(lanes)]
            high = [j + lanes if j & step else j + step for j in range(lanes)]
            first, second = rows[i], rows[i + step]
            rows[i], rows[i + step] = (
                b.new(
                    f"shufflevector {b.real} {first}, {b.real} {second}, "
                    f"<{lanes} x i32> <{', '.join(f'i32 {n}' for n in order)}>"
                )
                for order in (low, high)
            )
        step *= 2
    return rows


@lru_cache(maxsize=32)
def pack_text(width: int, lanes: int, across: bool) -> str:
    """builtin(source, panels, geometry, scratch, begin, end) for panels begin..end.

    Geometry: rows, columns, elements from panel to panel, from row to row of the source, and before
    its first; with `across`, the rows lie side by side, and it is from column to column. What
    stands in a panel for rows after the last has no meaning. Writes up to a vector behind the last
    panel.
    """
    b = Vectors("float", lanes)
    rows, columns, pitch, step, begin = sizes(b, 5)
    origin = at(b, "%p0", begin)
    panel = open_loop(b, "%begin", "%end")
    first = b.new(f"mul i64 {panel.index}, {width}")
    target = at(b, "%p1", sum_of_products(b, (panel.index, pitch)))
    if across:
        line = open_loop(b, "0", columns)
        source = at(b, origin, sum_of_products(b, (line.index, step), (first, 1)))
        to = at(b, target, b.new(f"mul i64 {line.index}, {width}"))
        for part in range(0, width, lanes):
            mask = mask_below(b, b.new(f"add i64 {first}, {part}"), rows)
            value = load(b, "float", at(b, source, part), mask)
            store(b, "float", value, at(b, to, part), None)
        close_loop(b, line)
    else:
        last = b.new(f"sub i64 {rows}, 1")
        line = open_loop(b, "0", columns, lanes)
        mask = mask_below(b, line.index, columns)
        to = at(b, target, b.new(f"mul i64 {line.index}, {width}"))
        squares = []
        for part in range(0, width, lanes):
            square = []
            for row in range(part, min(part + lanes, width)):
                number = b.new(f"add i64 {first}, {row}")
                past = b.new(f"icmp sgt i64 {number}, {last}")
                number = b.new(f"select i1 {past}, i64 {last}, i64 {number}")
                source = at(b, origin, sum_of_products(b, (number, step), (line.index, 1)))
                square.append(load(b, "float", source, mask))
            square += ["poison"] * (lanes - len(square))
            squares.append(turned(b, square))
        for column in range(lanes):
            for part, square in enumerate(squares):
                place = at(b, to, column * width + part * lanes)
                store(b, "float", square[column], place, None)
        close_loop(b, line)
    close_loop(b, panel)
    return module(b, 2)


@lru_cache(maxsize=32)
def gather_text(width: int, lanes: int) -> str:
    """builtin(source, panels, across, along, geometry, scratch, begin, end) for panels begin..end:
    panel[k, row] = source[along[k] + across[row]], `across` of 32 bits.

    Geometry: how many k, elements from panel to panel, the first row and the first k. Reads and
    writes up to a vector more than there is in a panel.
    """
    b = Vectors("float", lanes)
    count, pitch, first_row, first_k = sizes(b, 4)
    name = f"llvm.masked.gather.v{lanes}f32.v{lanes}p0"
    b.declarations.add(f"declare {b.real} @{name}(<{lanes} x ptr>, i32, {b.truth}, {b.real})")
    along = b.new(f"getelementptr i64, ptr %p3, i64 {first_k}")
    panel = open_loop(b, "%begin", "%end")
    row = b.new(f"add i64 {first_row}, {b.new(f'mul i64 {panel.index}, {width}')}")
    indices = []
    for part in range(0, width, lanes):
        place = b.new(f"getelementptr i32, ptr %p2, i64 {b.new(f'add i64 {row}, {part}')}")
        indices.append(b.new(f"load <{lanes} x i32>, ptr {place}, align 4"))
    target = at(b, "%p1", b.new(f"mul i64 {panel.index}, {pitch}"))
    line = open_loop(b, "0", count)
    offset = b.new(f"load i64, ptr {b.new(f'getelementptr i64, ptr {along}, i64 {line.index}')}")
    source = at(b, "%p0", offset)
    to = at(b, target, b.new(f"mul i64 {line.index}, {width}"))
    for part, index in enumerate(indices):
        where = b.new(f"getelementptr float, ptr {source}, <{lanes} x i32> {index}")
        value = b.new(
            f"call {b.real} @{name}(<{lanes} x ptr> {where}, i32 4, {b.truth} {b.boolean(True)}, "
            f"{b.real} poison)"
        )
        store(b, "float", value, at(b, to, part * lanes), None)
    close_loop(b, line)
    close_loop(b, panel)
    return module(b, 4)


def summed(
    b: Vectors, right: str, lines: list[str], step: int, count: str, before: list[str]
) -> list[str]:
    """What a tile of results becomes: before[i, v] + Σ over k of lines[i][k · step]·right[k, v]."""
    rows, vectors = len(lines), len(before) // len(lines)
    inner = open_loop(b, "0", count, 1, tuple((b.real, value) for value in before))
    source = at(b, right, b.new(f"mul i64 {inner.index}, {vectors * b.lanes}"))
    read = [load(b, "float", at(b, source, v * b.lanes), None) for v in range(vectors)]
    place = b.new(f"mul i64 {inner.index}, {step}")
    new = []
    for row in range(rows):
        factor = load_one(b, "float", at(b, lines[row], place))
        new += [b.fma(factor, read[v], inner.carried[row * vectors + v]) for v in range(vectors)]
    return close_loop(b, inner, new)


@lru_cache(maxsize=32)
def product_text(rows: int, vectors: int, lanes: int, start: str) -> str:
    """builtin(right, left, out, bias, geometry, scratch, begin, end): out = left · right for panels
    begin..end of the right; out + left · right for "added", bias + left · right for "biased".

    Geometry: how long the sums are, elements from panel to panel of left and right, rows and
    columns of out, elements from row to row of it, before its first and before the first of bias.
    """
    b = Vectors("float", lanes)
    count, left_pitch, right_pitch, high, wide, out_row, begin, skipped = sizes(b, 8)
    origin, added = at(b, "%p2", begin), at(b, "%p3", skipped)
    last = b.new(f"sub i64 {high}, 1")
    blocks = b.new(f"sdiv i64 {b.new(f'add i64 {high}, {rows - 1}')}, {rows}")
    panel = open_loop(b, "%begin", "%end")
    right = at(b, "%p0", b.new(f"mul i64 {panel.index}, {right_pitch}"))
    first = b.new(f"mul i64 {panel.index}, {vectors * lanes}")
    starts = [b.new(f"add i64 {first}, {v * lanes}") for v in range(vectors)]
    masks = [mask_below(b, place, wide) for place in starts]
    block = open_loop(b, "0", blocks)
    left = at(b, "%p1", b.new(f"mul i64 {block.index}, {left_pitch}"))
    targets = []
    for row in range(rows):
        number = b.new(f"add i64 {b.new(f'mul i64 {block.index}, {rows}')}, {row}")
        past = b.new(f"icmp sgt i64 {number}, {last}")
        number = b.new(f"select i1 {past}, i64 {last}, i64 {number}")
        line = at(b, origin, sum_of_products(b, (number, out_row), (first, 1)))
        targets.append([at(b, line, v * lanes) for v in range(vectors)])
    before = [b.number(0.0)] * (rows * vectors)
    if start == BIASED:
        bias = [load(b, "float", at(b, added, s), m) for s, m in zip(starts, masks, strict=True)]
        before = bias * rows
    lines = [at(b, left, row) for row in range(rows)]
    sums = summed(b, right, lines, rows, count, before)
    if start == ADDED:  # at the end: sums of parts of the terms are more exact than one long sum
        sums = [
            b.add(load(b, "float", targets[i // vectors][i % vectors], masks[i % vectors]), total)
            for i, total in enumerate(sums)
        ]
    for row in reversed(range(rows)):  # rows after the last are written where it then goes
        for v in range(vectors):
            store(b, "float", sums[row * vectors + v], targets[row][v], masks[v])
    close_loop(b, block)
    close_loop(b, panel)
    return module(b, 4)
