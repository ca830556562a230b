"""Winograd's F(4x4, 3x3) as LLVM functions of float32: the transforms of image tiles, of gradients
and of filters, the 36 products, and the transform back.

Four results of a filter of three taps by six products: y = Aᵀ[(G w) ⊙ (Bᵀ x)], in two dims. Tiles
of 6x6 pixels overlap by two. The points are 0, ±1/√2, ±√2 and ∞, with which rounding errors are a
third of those with the usual 0, ±1, ±2 and ∞ (Lavin and Gray, "Fast Algorithms for Convolutional
Neural Networks", 2016, has the algorithm).

Lanes of vectors are tiles, whose places are told by a table, so they may lie anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ember.backends.cpu.panel_text import at, module, sizes, summed
from ember.kernel.elements import load, mask_below, store
from ember.kernel.nests import close_loop, open_loop, sum_of_products
from ember.scalar.vectors import Vectors

INNER, OUTER = 0.5**0.5, 2.0**0.5  # the points, besides their negatives, 0 and infinity
PRODUCTS = 36
PART = 32  # channels that are summed together: long sums would lose digits
Map = Callable[[Vectors, list[str]], list[str]]


def of_input(b: Vectors, x: list[str]) -> list[str]:
    """Bᵀ x: six pixels as what is multiplied."""
    minus, plus = b.number(-2.5), b.fma
    ends = [plus(minus, x[2], b.add(x[0], x[4])), plus(minus, x[3], b.add(x[1], x[5]))]
    found = []
    for point, square in ((INNER, 2.0), (OUTER, 0.5)):
        even = plus(b.number(-square), x[2], x[4])
        odd = plus(b.number(-square), x[1], x[3])
        found += [plus(b.number(point), odd, even), plus(b.number(-point), odd, even)]
    return [ends[0], *found, ends[1]]


def of_gradient(b: Vectors, g: list[str]) -> list[str]:
    """A g: four gradients as what is multiplied for the filter's gradient."""
    found = []
    for point in (INNER, OUTER):
        even = b.fma(b.number(point**2), g[2], g[0])
        odd = b.fma(b.number(point**2), g[3], g[1])
        found += [b.fma(b.number(point), odd, even), b.fma(b.number(-point), odd, even)]
    return [g[0], *found, g[3]]


def of_filter(b: Vectors, w: list[str]) -> list[str]:
    """G w: three taps as what is multiplied."""
    found = []
    for point, scale in ((INNER, -1 / 1.5), (OUTER, 1 / 6.0)):
        even = b.fma(b.number(point**2), w[2], w[0])
        by_scale, odd = b.mul(b.number(scale), even), b.mul(b.number(scale * point), w[1])
        found += [b.add(by_scale, odd), b.sub(by_scale, odd)]
    return [w[0], *found, w[2]]


def to_filter(b: Vectors, m: list[str]) -> list[str]:
    """Gᵀ m: products as the gradients of three taps."""
    total, first, second = m[0], b.number(0.0), m[5]
    for point, scale, plus, minus in (
        (INNER, -1 / 1.5, m[1], m[2]),
        (OUTER, 1 / 6.0, m[3], m[4]),
    ):
        both = b.add(plus, minus)
        total = b.fma(b.number(scale), both, total)
        first = b.fma(b.number(scale * point), b.sub(plus, minus), first)
        second = b.fma(b.number(scale * point**2), both, second)
    return [total, first, second]


def to_output(b: Vectors, m: list[str]) -> list[str]:
    """Aᵀ m: products as four results."""
    inner, outer = b.add(m[1], m[2]), b.add(m[3], m[4])
    inner_odd, outer_odd = b.sub(m[1], m[2]), b.sub(m[3], m[4])

    def joined(power: int, low: str, high: str, start: str = "") -> str:
        scaled = b.number(INNER**power)
        low = b.fma(scaled, low, start) if start else b.mul(scaled, low)
        return b.fma(b.number(OUTER**power), high, low)

    return [
        b.add(m[0], b.add(inner, outer)),
        joined(1, inner_odd, outer_odd),
        joined(2, inner, outer),
        joined(3, inner_odd, outer_odd, m[5]),
    ]


def in_two_dims(b: Vectors, values: list[list[str]], change: Map) -> list[list[str]]:
    """A map applied to the columns of a square, then to its rows."""
    columns = [change(b, list(column)) for column in zip(*values, strict=True)]
    return [change(b, list(row)) for row in zip(*columns, strict=True)]


def _exchanged(b: Vectors, rows: list[str], wanted: int) -> list[str]:
    """Vectors whose number changes places with the low bits of the lanes, as in a transposition of
    each part of the lanes; only the first `wanted` of them."""
    rows, step = list(rows), 1
    while step < len(rows):
        for i in range(len(rows)):
            if i & step:
                continue
            first, second = rows[i], rows[i + step]
            for to, bit in ((i, 0), (i + step, step)):
                order = [
                    (b.lanes if lane & step else 0) + (lane & ~step) + bit
                    for lane in range(b.lanes)
                ]
                rows[to] = b.new(
                    f"shufflevector {b.real} {first}, {b.real} {second}, "
                    f"<{b.lanes} x i32> <{', '.join(f'i32 {n}' for n in order)}>"
                )
        step *= 2
    return rows[:wanted]


def _columns(b: Vectors, places: list[str], size: int) -> list[str]:
    """The first `size` pixels that start at each of `lanes` places: a vector for each pixel."""
    part = 8 if b.lanes >= 8 and size > 4 else 4
    found: list[str] = []
    for begin in range(0, size, part):
        vectors = [
            _joined(b, [at(b, p, begin) for p in places[i::part]], part) for i in range(part)
        ]
        found += _exchanged(b, vectors, min(part, size - begin))
    return found


def _joined(b: Vectors, places: list[str], part: int) -> str:
    """A vector of the `part` numbers that lie at each of some places."""
    kind = f"<{part} x float>"
    pieces = [b.new(f"load {kind}, ptr {p}, align 4") for p in places]
    length = part
    while len(pieces) > 1:
        order = ", ".join(f"i32 {lane}" for lane in range(2 * length))
        pieces = [
            b.new(
                f"shufflevector <{length} x float> {first}, <{length} x float> {second}, "
                f"<{2 * length} x i32> <{order}>"
            )
            for first, second in zip(pieces[::2], pieces[1::2], strict=True)
        ]
        length *= 2
    return pieces[0]


@lru_cache(maxsize=16)
def tiles_text(size: int, lanes: int) -> str:
    """builtin(x, planes, places, geometry, scratch, begin, end) for channels begin..end: tiles of
    size 6 (pixels) or 4 (gradients) into planes[product, channel, tile].

    Geometry: vectors of tiles; elements of x from channel to channel and row to row; elements of
    planes from product to product and channel to channel.
    """
    b = Vectors("float", lanes)
    count, channel, row, plane, pitch = sizes(b, 5)
    channels = open_loop(b, "%begin", "%end")
    source = at(b, "%p0", b.new(f"mul i64 {channels.index}, {channel}"))
    several = open_loop(b, "0", count)
    table = b.new(f"getelementptr i64, ptr %p2, i64 {b.new(f'mul i64 {several.index}, {lanes}')}")
    places = []
    for lane in range(lanes):
        offset = b.new(f"load i64, ptr {b.new(f'getelementptr i64, ptr {table}, i64 {lane}')}")
        places.append(at(b, source, offset))
    square = []
    for line in range(size):
        if line:
            places = [at(b, p, row) for p in places]
        square.append(_columns(b, places, size))
    change = of_input if size == 6 else of_gradient
    out = at(b, "%p1", sum_of_products(b, (channels.index, pitch), (several.index, lanes)))
    for values in in_two_dims(b, square, change):
        for value in values:
            store(b, "float", value, out, None)
            out = at(b, out, plane)
    close_loop(b, several)
    close_loop(b, channels)
    return module(b, 3)


@lru_cache(maxsize=16)
def filters_text(lanes: int, turned: bool) -> str:
    """builtin(w, planes, geometry, scratch, begin, end): filters into planes[product, row, column]
    for rows begin..end, taps turned round or not.

    Geometry: columns, elements of w from row to row and from column to column, elements of planes
    from product to product and row to row.
    """
    b = Vectors("float", lanes)
    count, w_row, w_column, plane, out_row = sizes(b, 5)
    narrow = b.new(f"trunc i64 {w_column} to i32")
    steps = ", ".join(f"i32 {lane}" for lane in range(lanes))
    wide = b.splat(narrow, "i32")
    indices = b.new(f"mul <{lanes} x i32> <{steps}>, {wide}")
    name = f"llvm.masked.gather.v{lanes}f32.v{lanes}p0"
    b.declarations.add(f"declare {b.real} @{name}(<{lanes} x ptr>, i32, {b.truth}, {b.real})")
    row = open_loop(b, "%begin", "%end")
    column = open_loop(b, "0", count, lanes)
    mask = mask_below(b, column.index, count)
    source = at(b, "%p0", sum_of_products(b, (row.index, w_row), (column.index, w_column)))
    taps = []
    for tap in range(9):
        first = at(b, source, 8 - tap if turned else tap)
        where = b.new(f"getelementptr float, ptr {first}, <{lanes} x i32> {indices}")
        taps.append(
            b.new(
                f"call {b.real} @{name}(<{lanes} x ptr> {where}, i32 4, {b.truth} {mask}, "
                f"{b.real} zeroinitializer)"
            )
        )
    square = [taps[i : i + 3] for i in (0, 3, 6)]
    out = at(b, "%p1", sum_of_products(b, (row.index, out_row), (column.index, 1)))
    for values in in_two_dims(b, square, of_filter):
        for value in values:
            store(b, "float", value, out, None)
            out = at(b, out, plane)
    close_loop(b, column)
    close_loop(b, row)
    return module(b, 2)


@lru_cache(maxsize=4)
def filter_gradients_text(lanes: int) -> str:
    """builtin(planes, out, geometry, scratch, begin, end): planes[product, row, column] as the
    gradients of filters (rows, columns, 3, 3), for rows begin..end.

    Geometry: columns, elements of planes from product to product and row to row.
    """
    b = Vectors("float", lanes)
    count, plane, pitch = sizes(b, 3)
    steps = ", ".join(f"i32 {9 * lane}" for lane in range(lanes))
    name = f"llvm.masked.scatter.v{lanes}f32.v{lanes}p0"
    b.declarations.add(f"declare void @{name}({b.real}, <{lanes} x ptr>, i32, {b.truth})")
    row = open_loop(b, "%begin", "%end")
    column = open_loop(b, "0", count, lanes)
    mask = mask_below(b, column.index, count)
    source = at(b, "%p0", sum_of_products(b, (row.index, pitch), (column.index, 1)))
    square: list[list[str]] = [[] for _ in range(6)]
    for i in range(PRODUCTS):
        square[i // 6].append(load(b, "float", source, None))
        source = at(b, source, plane)
    first = sum_of_products(b, (b.new(f"mul i64 {row.index}, {count}"), 9), (column.index, 9))
    for i, values in enumerate(in_two_dims(b, square, to_filter)):
        for j, value in enumerate(values):
            place = at(b, at(b, "%p1", first), 3 * i + j)
            where = b.new(f"getelementptr float, ptr {place}, <{lanes} x i32> <{steps}>")
            b.do(
                f"call void @{name}({b.real} {value}, <{lanes} x ptr> {where}, i32 4, "
                f"{b.truth} {mask})"
            )
    close_loop(b, column)
    close_loop(b, row)
    return module(b, 2)


@lru_cache(maxsize=16)
def products_text(rows: int, vectors: int, lanes: int) -> str:
    """builtin(tiles, filters, out, geometry, scratch, begin, end): for products begin..end,
    out[product, row, tile] = Σ over channels of filters[product, row, channel]·tiles[product,
    channel, tile].

    Geometry: channels, rows, elements of filters from row to row, elements from product to product
    of tiles, filters and out.
    """
    b = Vectors("float", lanes)
    count, high, pitch, of_tiles, of_filters, of_out = sizes(b, 6)
    last = b.new(f"sub i64 {high}, 1")
    blocks = b.new(f"sdiv i64 {b.new(f'add i64 {high}, {rows - 1}')}, {rows}")
    number = open_loop(b, "%begin", "%end")
    right = at(b, "%p0", b.new(f"mul i64 {number.index}, {of_tiles}"))
    left = at(b, "%p1", b.new(f"mul i64 {number.index}, {of_filters}"))
    out = at(b, "%p2", b.new(f"mul i64 {number.index}, {of_out}"))
    block = open_loop(b, "0", blocks)
    lines, targets = [], []
    for row in range(rows):
        place = b.new(f"add i64 {b.new(f'mul i64 {block.index}, {rows}')}, {row}")
        past = b.new(f"icmp sgt i64 {place}, {last}")
        place = b.new(f"select i1 {past}, i64 {last}, i64 {place}")
        lines.append(at(b, left, b.new(f"mul i64 {place}, {pitch}")))
        targets.append(at(b, out, b.new(f"mul i64 {place}, {vectors * lanes}")))
    part = open_loop(b, "0", count, PART)
    later = b.splat(b.new(f"icmp sgt i64 {part.index}, 0"), "i1")
    left_over = b.new(f"sub i64 {count}, {part.index}")
    short = b.new(f"icmp slt i64 {left_over}, {PART}")
    terms = b.new(f"select i1 {short}, i64 {left_over}, i64 {PART}")
    source = at(b, right, b.new(f"mul i64 {part.index}, {vectors * lanes}"))
    lines = [at(b, line, part.index) for line in lines]
    sums = summed(b, source, lines, 1, terms, [b.number(0.0)] * (rows * vectors))
    places = [at(b, target, v * lanes) for target in targets for v in range(vectors)]
    sums = [
        b.add(load(b, "float", place, later), total)
        for place, total in zip(places, sums, strict=True)
    ]
    for row in reversed(range(rows)):  # rows after the last are written where it then goes
        for v in range(vectors):
            i = row * vectors + v
            store(b, "float", sums[i], places[i], None)
    close_loop(b, part)
    close_loop(b, block)
    close_loop(b, number)
    return module(b, 3)


@lru_cache(maxsize=16)
def output_text(width: int, lanes: int) -> str:
    """builtin(planes, y, places, geometry, scratch, begin, end) for channels begin..end:
    planes[product, channel, tile] into tiles of 4x4 results.

    Geometry: vectors of tiles, elements of y from channel to channel and row to row, elements of
    planes from product to product.
    """
    b = Vectors("float", lanes)
    count, channel, row, plane = sizes(b, 4)
    channels = open_loop(b, "%begin", "%end")
    target = at(b, "%p1", b.new(f"mul i64 {channels.index}, {channel}"))
    several = open_loop(b, "0", count)
    table = b.new(f"getelementptr i64, ptr %p2, i64 {b.new(f'mul i64 {several.index}, {lanes}')}")
    source = at(b, "%p0", sum_of_products(b, (channels.index, width), (several.index, lanes)))
    square: list[list[str]] = []
    for i in range(PRODUCTS):
        if i % 6 == 0:
            square.append([])
        place = at(b, source, b.new(f"mul i64 {plane}, {i}"))
        square[-1].append(load(b, "float", place, None))
    places = []
    for lane in range(lanes):
        offset = b.new(f"load i64, ptr {b.new(f'getelementptr i64, ptr {table}, i64 {lane}')}")
        places.append(at(b, target, offset))
    for values in in_two_dims(b, square, to_output):
        for i, vector in enumerate(_exchanged(b, values, 4)):
            for first in range(0, lanes, 4):
                order = ", ".join(f"i32 {first + j}" for j in range(4))
                four = b.new(
                    f"shufflevector {b.real} {vector}, {b.real} poison, <4 x i32> <{order}>"
                )
                b.do(f"store <4 x float> {four}, ptr {places[first + i]}, align 4")
        places = [at(b, p, row) for p in places]
    close_loop(b, several)
    close_loop(b, channels)
    return module(b, 3)
