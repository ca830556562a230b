"""Max pooling of float32 planes as LLVM functions: a vector of windows side by side at a time."""

from __future__ import annotations

from functools import lru_cache

from ember.backends.cpu.panel_text import at, module, sizes
from ember.kernel.elements import mask_below, store
from ember.kernel.nests import close_loop, open_loop, sum_of_products
from ember.scalar.vectors import Vectors

STEPS = (1, 2)  # between windows of a row, for which there are such functions


def _beside(b: Vectors, line: str, column: str, width: str, step: int) -> str:
    """Elements of a line at every step from a column on; the lowest number beyond its ends."""
    parts, name = [], f"llvm.masked.load.v{b.lanes}f32.p0"
    b.declarations.add(f"declare {b.real} @{name}(ptr, i32, {b.truth}, {b.real})")
    limit = b.splat(b.new(f"trunc i64 {width} to i32"), "i32")
    lowest, lanes = b.number(float("-inf")), ", ".join(f"i32 {i}" for i in range(b.lanes))
    for part in range(step):
        first = b.new(f"add i64 {column}, {part * b.lanes}")
        begin = b.splat(b.new(f"trunc i64 {first} to i32"), "i32")
        place = b.on_bits("add", begin, f"<{lanes}>")
        mask = b.new(f"icmp ult {b.whole} {place}, {limit}")  # a negative one is large here
        parts.append(
            b.new(
                f"call {b.real} @{name}(ptr {at(b, line, first)}, i32 4, {b.truth} {mask}, "
                f"{b.real} {lowest})"
            )
        )
    if step == 1:
        return parts[0]
    order = ", ".join(f"i32 {step * i}" for i in range(b.lanes))
    return b.new(
        f"shufflevector {b.real} {parts[0]}, {b.real} {parts[1]}, <{b.lanes} x i32> <{order}>"
    )


def _clamped(b: Vectors, x: str, low: str, how: str) -> str:
    """The greater ("sgt") or smaller ("slt") of two integers."""
    return b.new(f"select i1 {b.new(f'icmp {how} i64 {x}, {low}')}, i64 {x}, i64 {low}")


@lru_cache(maxsize=8)
def max_pool_text(lanes: int, step: int) -> str:
    """builtin(x, values, indices, geometry, scratch, begin, end) for planes begin..end, with
    windows `step` columns apart: the first of the greatest, or the last NaN, and where it is.

    Geometry: rows and columns of a plane, of the result, and of a window; rows between windows;
    rows and columns of padding.
    """
    b = Vectors("float", lanes)
    high, wide, made_high, made_wide, down, across, jump, above, before = sizes(b, 9)
    plane = open_loop(b, "%begin", "%end")
    source = at(b, "%p0", sum_of_products(b, (b.new(f"mul i64 {plane.index}, {high}"), wide)))
    line = open_loop(b, "0", made_high)
    row = b.new(f"add i64 {b.new(f'mul i64 {plane.index}, {made_high}')}, {line.index}")
    target = b.new(f"mul i64 {row}, {made_wide}")
    top = b.new(f"sub i64 {b.new(f'mul i64 {line.index}, {jump}')}, {above}")
    first = _clamped(b, top, "0", "sgt")
    last = _clamped(b, b.new(f"add i64 {top}, {down}"), high, "slt")
    block = open_loop(b, "0", made_wide, lanes)
    left = b.new(f"sub i64 {b.new(f'mul i64 {block.index}, {step}')}, {before}")
    lefts = b.splat(b.new(f"trunc i64 {left} to i32"), "i32")
    lane_steps = ", ".join(f"i32 {step * lane}" for lane in range(lanes))
    begins = b.on_bits("add", lefts, f"<{lane_steps}>")
    negative = b.new(f"icmp slt {b.whole} {begins}, zeroinitializer")
    inside = b.new(f"select {b.truth} {negative}, {b.whole} zeroinitializer, {b.whole} {begins}")
    origin = b.splat(b.new(f"trunc i64 {b.new(f'mul i64 {first}, {wide}')} to i32"), "i32")
    start = ((b.real, b.number(float("-inf"))), (b.whole, b.on_bits("add", origin, inside)))
    rows = open_loop(b, first, last, 1, start)
    base = b.new(f"mul i64 {rows.index}, {wide}")
    taps = open_loop(b, "0", across, 1, ((b.real, rows.carried[0]), (b.whole, rows.carried[1])))
    column = b.new(f"add i64 {left}, {taps.index}")
    value = _beside(b, at(b, source, base), column, wide, step)
    better = b.new(f"fcmp ogt {b.real} {value}, {taps.carried[0]}")
    better = b.logic("or", better, b.unordered(value, value))
    moved = b.splat(b.new(f"trunc i64 {b.new(f'add i64 {base}, {taps.index}')} to i32"), "i32")
    place = b.on_bits("add", begins, moved)
    greatest = b.select(better, value, taps.carried[0])
    found = b.select(better, place, taps.carried[1], b.whole)
    greatest, found = close_loop(b, rows, close_loop(b, taps, [greatest, found]))
    mask = mask_below(b, block.index, made_wide)
    to = b.new(f"add i64 {target}, {block.index}")
    store(b, "float", greatest, at(b, "%p1", to), mask)
    _store_wide(b, found, to, mask)
    close_loop(b, block)
    close_loop(b, line)
    close_loop(b, plane)
    return module(b, 3)


def _store_wide(b: Vectors, indices: str, to: str, mask: str) -> None:
    """Write 32-bit indices as 64-bit ones."""
    kind, name = f"<{b.lanes} x i64>", f"llvm.masked.store.v{b.lanes}i64.p0"
    b.declarations.add(f"declare void @{name}({kind}, ptr, i32, {b.truth})")
    wide = b.new(f"sext {b.whole} {indices} to {kind}")
    place = b.new(f"getelementptr i64, ptr %p2, i64 {to}")
    b.do(f"call void @{name}({kind} {wide}, ptr {place}, i32 8, {b.truth} {mask})")


@lru_cache(maxsize=2)
def put_back_text(lanes: int) -> str:
    """builtin(g, indices, out, geometry, scratch, begin, end) for planes begin..end: out is 0, and
    then g is added at the indices. Geometry: windows and pixels of a plane."""
    b = Vectors("float", lanes)
    windows, pixels = sizes(b, 2)
    b.declarations.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    plane = open_loop(b, "%begin", "%end")
    out = at(b, "%p2", b.new(f"mul i64 {plane.index}, {pixels}"))
    begin = b.new(f"mul i64 {plane.index}, {windows}")
    size = b.new(f"mul i64 {pixels}, 4")
    b.do(f"call void @llvm.memset.p0.i64(ptr {out}, i8 0, i64 {size}, i1 false)")
    loop = open_loop(b, "0", windows)
    number = b.new(f"add i64 {begin}, {loop.index}")
    place = b.new(f"load i64, ptr {b.new(f'getelementptr i64, ptr %p1, i64 {number}')}")
    more = b.new(f"load float, ptr {at(b, '%p0', number)}")
    target = at(b, out, place)
    old = b.new(f"load float, ptr {target}")
    b.do(f"store float {b.new(f'fadd float {old}, {more}')}, ptr {target}")
    close_loop(b, loop)
    close_loop(b, plane)
    return module(b, 3)
