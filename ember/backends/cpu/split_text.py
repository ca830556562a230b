"""Products of float32 matrices by a processor's bfloat16 tiles (Intel AMX), as LLVM functions.

A float32 number is the sum of three of bfloat16, each the rest of the one before, rounded: exactly,
for 3·8 bits are as many as it has. Of the nine products of two such sums the three smallest are
less than the product's own rounding error and left out; the others are exact in float32, where the
tiles sum them up (Henry, Tang and Heinecke, arXiv:1904.06376).

An operand is packed into tiles of 16 lines (rows of the left operand, columns of the right) and 32
terms, for each the three parts in turn. The unit takes two neighbouring terms of a line as one
number of 32 bits: a tile's rows are lines on the left, pairs of terms on the right.
"""

from __future__ import annotations

from functools import lru_cache

from ember.backends.cpu.panel_text import ADDED, BIASED, at, module, sizes, turned
from ember.kernel.elements import load, mask_below, store
from ember.kernel.nests import close_loop, open_loop, sum_of_products
from ember.scalar.vectors import Vectors

LANES, LINES, TERMS = 16, 16, 32  # of a vector, of a tile
TILE = 256  # numbers of 32 bits in a tile
SIDE = 32  # rows and columns of the result that are computed together: 2 tiles by 2
HIGH, HALF = -65536, 0x8000  # the bits of a float32 that a bfloat16 has, and half its last one
LOW, MIDDLE, TOP = 2, 1, 0  # the parts, as they follow each other
# What is loaded before each of six products; products of small parts come first.
ORDER = (
    ((True, LOW), (False, TOP)),
    ((True, MIDDLE),),
    ((False, MIDDLE),),
    ((True, TOP),),
    ((False, LOW),),
    ((False, TOP),),
)


def _parts(b: Vectors, value: str) -> list[str]:
    """The bits of the three numbers whose sum a float32 is, each with 16 zeros at the end."""
    found = []
    for last in (False, False, True):
        bits = b.as_bits(value)
        if not last:
            bits = b.on_bits("add", bits, b.integer(HALF))
        bits = b.on_bits("and", bits, b.integer(HIGH))
        found.append(bits)
        if not last:
            value = b.sub(value, b.from_bits(bits))
    return found


def _joined(b: Vectors, first: str, second: str, side_by_side: bool) -> str:
    """The upper halves of two vectors: of the first and then the second, or in turns."""
    if not side_by_side:
        return b.from_bits(b.on_bits("or", b.on_bits("lshr", first, b.integer(16)), second))
    halves = f"<{2 * LANES} x i16>"
    x, y = (b.new(f"bitcast {b.whole} {v} to {halves}") for v in (first, second))
    order = ", ".join(f"i32 {2 * i + 1}" for i in range(2 * LANES))
    chosen = f"<{2 * LANES} x i32> <{order}>"
    mixed = b.new(f"shufflevector {halves} {x}, {halves} {y}, {chosen}")
    return b.new(f"bitcast {halves} {mixed} to {b.real}")


def _at_most(b: Vectors, number: str, bound: str) -> str:
    less = b.new(f"icmp slt i64 {number}, {bound}")
    return b.new(f"select i1 {less}, i64 {number}, i64 {bound}")


def _along_terms(b: Vectors, first: str, step: str, table: list[str]) -> list[tuple[str, str]]:
    """The 32 terms of each of 16 lines, where terms are neighbours."""
    lines, terms, _, line_step, begin = table[:5]
    origin, last = at(b, "%p0", begin), b.new(f"sub i64 {lines}, 1")
    starts = [b.new(f"add i64 {step}, {n}") for n in (0, LANES)]
    masks = [mask_below(b, start, terms) for start in starts]
    found = []
    for line in range(LINES):
        number = _at_most(b, b.new(f"add i64 {first}, {line}"), last)
        row = at(b, origin, sum_of_products(b, (number, line_step), (step, 1)))
        places = row, at(b, row, LANES)
        x, y = (load(b, "float", p, m) for p, m in zip(places, masks, strict=True))
        found.append((x, y))
    return found


def _across_lines(
    b: Vectors, first: str, step: str, table: list[str], gathers: bool
) -> list[tuple[str, str]]:
    """16 lines of each of 16 pairs of terms, where lines are neighbours or gathered."""
    lines, terms, _, term_step, begin = table[:5]
    last, none = b.new(f"sub i64 {terms}, 1"), "zeroinitializer"
    inside = b.boolean(True) if gathers else mask_below(b, first, lines)
    origin = "%p0" if gathers else at(b, at(b, "%p0", begin), first)
    if gathers:
        place = b.new(f"getelementptr i32, ptr %p3, i64 {b.new(f'add i64 {begin}, {first}')}")
        index = b.new(f"load <{LANES} x i32>, ptr {place}, align 4")
        name = f"llvm.masked.gather.v{LANES}f32.v{LANES}p0"
        b.declarations.add(f"declare {b.real} @{name}(<{LANES} x ptr>, i32, {b.truth}, {b.real})")
        along = b.new(f"getelementptr i64, ptr %p4, i64 {term_step}")
    read = []
    for term in range(TERMS):
        number = b.new(f"add i64 {step}, {term}")
        there = b.new(f"icmp slt i64 {number}, {terms}")
        mask = b.new(f"select i1 {there}, {b.truth} {inside}, {b.truth} {none}")
        number = _at_most(b, number, last)
        if gathers:
            place = b.new(f"getelementptr i64, ptr {along}, i64 {number}")
            source = at(b, origin, b.new(f"load i64, ptr {place}"))
            where = b.new(f"getelementptr float, ptr {source}, <{LANES} x i32> {index}")
            given = f"<{LANES} x ptr> {where}, i32 4, {b.truth} {mask}, {b.real} {none}"
            read.append(b.new(f"call {b.real} @{name}({given})"))
        else:
            source = at(b, origin, b.new(f"mul i64 {number}, {term_step}"))
            read.append(load(b, "float", source, mask))
    return list(zip(read[::2], read[1::2], strict=True))


@lru_cache(maxsize=8)
def split_text(along: bool, gathers: bool, turns: bool) -> str:
    """builtin(source, tiles, greatest, across, terms, geometry, scratch, begin, end) for blocks
    begin..end of 16 lines, whose terms are neighbours (`along`), or else the lines; `greatest` is
    raised to the bits of the greatest magnitude.

    Geometry: lines, terms, steps of 32 terms, elements from line to line (from term to term), and
    before the first; with `gathers`, element [line, term] is source[across[line] + terms[term]],
    and the last two are the first term and the first line.
    """
    b = Vectors("float", LANES)
    table = sizes(b, 5)
    end = b.new(f"mul i64 {table[2]}, {TERMS}")
    ranges = [("%begin", "%end", 1), ("0", end, TERMS)]
    if not along:
        ranges.reverse()  # neighbours are read one after another
    outer = open_loop(b, *ranges[0], ((b.whole, "zeroinitializer"),))
    inner = open_loop(b, *ranges[1], ((b.whole, outer.carried[0]),))
    block, step = (outer.index, inner.index) if along else (inner.index, outer.index)
    first = b.new(f"mul i64 {block}, {LINES}")
    place = sum_of_products(b, (block, b.new(f"mul i64 {end}, {LINES}")), (step, LINES))
    to = at(b, "%p1", b.new(f"sdiv i64 {b.new(f'mul i64 {place}, 3')}, 2"))
    pairs = (
        _along_terms(b, first, step, table)
        if along
        else _across_lines(b, first, step, table, gathers)
    )
    greatest = inner.carried[0]
    squares: tuple[list[str], ...] = ([], [], [])
    for pair in pairs:
        for value in pair:
            size = b.on_bits("and", b.as_bits(value), b.integer(0x7FFFFFFF))
            more = b.new(f"icmp ugt {b.whole} {size}, {greatest}")
            greatest = b.select(more, size, greatest, b.whole)
        split = [_parts(b, value) for value in pair]
        for part, (x, y) in enumerate(zip(*split, strict=True)):
            squares[part].append(_joined(b, x, y, along))
    for part, square in enumerate(squares):
        for i, row in enumerate(turned(b, square) if turns else square):
            store(b, "float", row, at(b, to, part * TILE + i * LANES), None)
    (greatest,) = close_loop(b, outer, close_loop(b, inner, [greatest]))
    name = f"llvm.vector.reduce.umax.v{LANES}i32"
    b.declarations.add(f"declare i32 @{name}({b.whole})")
    found = b.new(f"call i32 @{name}({b.whole} {greatest})")
    before = b.new("load i32, ptr %p2")
    more = b.new(f"icmp ugt i32 {found}, {before}")
    b.do(f"store i32 {b.new(f'select i1 {more}, i32 {found}, i32 {before}')}, ptr %p2")
    return module(b, 5)


def _tile(b: Vectors, what: str, *arguments: str) -> None:
    """An instruction of the tile unit; whole arguments are the numbers of tiles."""
    kinds = ", ".join(a.split()[0] for a in arguments)
    b.declarations.add(f"declare void @llvm.x86.{what}({kinds})")
    b.do(f"call void @llvm.x86.{what}({', '.join(arguments)})")


def _sums(b: Vectors, left: list[str], right: list[str], steps: str) -> None:
    """Tiles 0 to 3 become the sums of two blocks of lines by two."""
    for i in range(4):
        _tile(b, "tilezero", f"i8 {i}")
    loop = open_loop(b, "0", steps)
    offset = b.new(f"mul i64 {loop.index}, {3 * TILE}")
    sources = {True: [at(b, p, offset) for p in left], False: [at(b, p, offset) for p in right]}
    for loads in ORDER:
        for is_left, part in loads:
            for i, source in enumerate(sources[is_left]):
                place = at(b, source, part * TILE)
                number = (4 if is_left else 6) + i
                _tile(b, "tileloadd64", f"i8 {number}", f"ptr {place}", "i64 64")
        for i in range(4):
            _tile(b, "tdpbf16ps", f"i8 {i}", f"i8 {4 + i // 2}", f"i8 {6 + i % 2}")
    close_loop(b, loop)


@lru_cache(maxsize=4)
def tiles_text(start: str) -> str:
    """builtin(right, left, out, bias, configuration, geometry, scratch, begin, end): out = left ·
    right for panels begin..end of 32 columns; out + left · right for "added", bias + left · right
    for "biased".

    Geometry: steps of 32 terms, rows and columns of out, elements from row to row of it, before its
    first, before the first of bias, and blocks of lines before the first of left. The scratch has
    room for 32 by 32 numbers.
    """
    b = Vectors("float", LANES)
    steps, high, wide, out_row, begin, skipped, blocks = sizes(b, 7)
    origin, added = at(b, "%p2", begin), at(b, "%p3", skipped)
    pitch = b.new(f"mul i64 {steps}, {3 * TILE}")
    lines = at(b, "%p1", b.new(f"mul i64 {blocks}, {pitch}"))
    _tile(b, "ldtilecfg", "ptr %p4")
    panel = open_loop(b, "%begin", "%end")
    first = b.new(f"mul i64 {panel.index}, {SIDE}")
    right = at(b, "%p0", b.new(f"mul i64 {b.new(f'mul i64 {panel.index}, 2')}, {pitch}"))
    starts = [b.new(f"add i64 {first}, {v}") for v in (0, LANES)]
    masks = [mask_below(b, place, wide) for place in starts]
    row = open_loop(b, "0", high, SIDE)
    left = at(b, lines, b.new(f"mul i64 {b.new(f'sdiv i64 {row.index}, {LINES}')}, {pitch}"))
    _sums(b, [left, at(b, left, pitch)], [right, at(b, right, pitch)], steps)
    for i in range(4):
        place = at(b, "%scratch", i // 2 * LINES * SIDE + i % 2 * LANES)
        _tile(b, "tilestored64", f"i8 {i}", f"ptr {place}", f"i64 {4 * SIDE}")
    count = _at_most(b, b.new(f"sub i64 {high}, {row.index}"), str(SIDE))
    down = open_loop(b, "0", count)
    source = at(b, "%scratch", b.new(f"mul i64 {down.index}, {SIDE}"))
    line = b.new(f"mul i64 {b.new(f'add i64 {row.index}, {down.index}')}, {out_row}")
    target = at(b, origin, line)
    for v, (place, mask) in enumerate(zip(starts, masks, strict=True)):
        value, to = load(b, "float", at(b, source, v * LANES), None), at(b, target, place)
        if start in (ADDED, BIASED):
            other = to if start == ADDED else at(b, added, place)
            value = b.add(load(b, "float", other, mask), value)
        store(b, "float", value, to, mask)
    close_loop(b, down)
    close_loop(b, row)
    close_loop(b, panel)
    _tile(b, "tilerelease")
    return module(b, 5)
