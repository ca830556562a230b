"""Cross-entropy of float32 rows against one class each, and its gradient, as LLVM functions: a row
is read while it lies in the cache, and nothing of its size is stored but the gradient."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ember.backends.cpu.panel_text import at, module, sizes
from ember.kernel.elements import load, mask_below, store
from ember.kernel.nests import Opened, close_loop, open_loop, sum_of_products
from ember.scalar.expr import var
from ember.scalar.lowering import combine, lower, start
from ember.scalar.primitives import exp, log
from ember.scalar.vectors import Vectors

EXP, LOG = exp(var("x")), log(var("x"))
TALLY = (("i64", "0"), ("i64", "0"))


def _vectors(
    b: Vectors,
    count: str,
    first: list[str],
    body: Callable[[str, str | None, list[str]], list[str]],
) -> list[str]:
    """Do a body for whole vectors and then, under a mask, for what is left of a row; the values
    that it carries on. The body gets an index, a mask and those values."""
    whole = b.new(f"and i64 {count}, {-b.lanes}")
    loop = open_loop(b, "0", whole, b.lanes, tuple((b.real, value) for value in first))
    carried = close_loop(b, loop, body(loop.index, None, loop.carried))
    rest = open_loop(b, whole, count, b.lanes, tuple((b.real, value) for value in carried))
    return close_loop(b, rest, body(rest.index, mask_below(b, rest.index, count), rest.carried))


def _reduced(b: Vectors, op: str, count: str, value_at: Callable[[str, str | None], str]) -> str:
    """A row reduced to a number, in all lanes."""

    def body(index: str, mask: str | None, carried: list[str]) -> list[str]:
        new = combine(b, op, carried[0], value_at(index, mask))
        return [new if mask is None else b.select(mask, new, carried[0])]

    (total,) = _vectors(b, count, [start(b, op)], body)
    return b.across(lambda x, y: combine(b, op, x, y), total)


def _class_of(b: Vectors, row: str, count: str, ignored: str) -> tuple[str, str, str]:
    """The class of a row, 0 for one that there is not; whether it counts, and whether it is
    outside."""
    given = b.new(f"load i64, ptr {b.new(f'getelementptr i64, ptr %p1, i64 {row}')}")
    outside = b.new(f"icmp uge i64 {given}, {count}")
    counts = b.new(f"icmp ne i64 {given}, {ignored}")
    return b.new(f"select i1 {outside}, i64 0, i64 {given}"), counts, outside


def _tally(b: Vectors, loop: Opened, counts: str, outside: str) -> list[str]:
    """How many rows count so far, and the last whose class counts but is none, from 1."""
    more, wrong = b.new(f"zext i1 {counts} to i64"), b.new(f"and i1 {counts}, {outside}")
    number, now = b.new(f"add i64 {loop.carried[0]}, {more}"), b.new(f"add i64 {loop.index}, 1")
    return [number, b.new(f"select i1 {wrong}, i64 {now}, i64 {loop.carried[1]}")]


def _note(b: Vectors, state: str, tally: list[str]) -> None:
    """Add what one thread has tallied to that of the others."""
    place = b.new(f"getelementptr i64, ptr {state}, i64 1")
    b.do(f"atomicrmw add ptr {state}, i64 {tally[0]} monotonic")
    b.do(f"atomicrmw umax ptr {place}, i64 {tally[1]} monotonic")


def _one(b: Vectors, vector: str) -> str:
    return b.new(f"extractelement {b.real} {vector}, i64 0")


@lru_cache(maxsize=4)
def forward_text(lanes: int) -> str:
    """builtin(scores, classes, top, log_sum, loss, state, geometry, scratch, begin, end) for rows:
    top is a row's greatest, log_sum the log of the sum of exp of what all lie below it, loss
    log_sum − (score of the class − top), 0 if the class is ignored.

    Geometry: classes, and which of them is ignored.
    """
    b = Vectors("float", lanes)
    count, ignored = sizes(b, 2)
    loop = open_loop(b, "%begin", "%end", 1, TALLY)
    row = loop.index
    line = at(b, "%p0", sum_of_products(b, (row, count)))
    top = _reduced(b, "row_max", count, lambda i, mask: load(b, "float", at(b, line, i), mask))

    def below(index: str, mask: str | None) -> str:
        return lower(b, EXP, [b.sub(load(b, "float", at(b, line, index), mask), top)])

    log_sum = lower(b, LOG, [_reduced(b, "row_sum", count, below)])
    place, counts, outside = _class_of(b, row, count, ignored)
    tally = _tally(b, loop, counts, outside)
    score = b.new(f"load float, ptr {at(b, line, place)}")
    lower_by = b.new(f"fsub float {_one(b, top)}, {score}")
    loss = b.new(f"fadd float {lower_by}, {_one(b, log_sum)}")
    loss = b.new(f"select i1 {counts}, float {loss}, float 0.0")
    for pointer, value in (("%p2", _one(b, top)), ("%p3", _one(b, log_sum)), ("%p4", loss)):
        b.do(f"store float {value}, ptr {at(b, pointer, row)}")
    _note(b, "%p5", close_loop(b, loop, tally))
    return module(b, 6)


@lru_cache(maxsize=4)
def total_text(lanes: int, is_mean: bool) -> str:
    """builtin(losses, state, result, total, geometry, scratch, begin, end): the sum, or the mean
    over the rows that count, whose number is `total`; then nothing is tallied."""
    b = Vectors("float", lanes)
    loop = open_loop(b, "%begin", "%end", 1, (("double", "0.0"),))
    loss = b.new(f"load float, ptr {at(b, '%p0', loop.index)}")
    more = b.new(f"fadd double {loop.carried[0]}, {b.new(f'fpext float {loss} to double')}")
    (result,) = close_loop(b, loop, [more])
    number = b.new("load i64, ptr %p1")
    if is_mean:
        result = b.new(f"fdiv double {result}, {b.new(f'sitofp i64 {number} to double')}")
    b.do(f"store float {b.new(f'fptrunc double {result} to float')}, ptr %p2")
    b.do(f"store float {b.new(f'sitofp i64 {number} to float')}, ptr %p3")
    b.do("store i64 0, ptr %p1")
    return module(b, 4)


@lru_cache(maxsize=4)
def backward_text(lanes: int) -> str:
    """builtin(scores, classes, top, log_sum, factors, total, out, state, geometry, scratch, begin,
    end) for rows: out = factor / total · (softmax − 1 at the class), 0 where that is ignored.

    Geometry: classes, which of them is ignored, and elements from one factor to the next.
    """
    b = Vectors("float", lanes)
    count, ignored, step = sizes(b, 3)
    loop = open_loop(b, "%begin", "%end", 1, TALLY)
    row = loop.index
    begin = sum_of_products(b, (row, count))
    line, target = at(b, "%p0", begin), at(b, "%p6", begin)
    place, counts, outside = _class_of(b, row, count, ignored)
    tally = _tally(b, loop, counts, outside)
    given = b.new(f"load float, ptr {at(b, '%p4', sum_of_products(b, (row, step)))}")
    share = b.new(f"fdiv float {given}, {b.new('load float, ptr %p5')}")
    factor = b.new(f"select i1 {counts}, float {share}, float 0.0")
    top, log_sum = (
        b.splat(b.new(f"load float, ptr {at(b, pointer, row)}")) for pointer in ("%p2", "%p3")
    )
    wide = b.splat(factor)

    def body(index: str, mask: str | None, carried: list[str]) -> list[str]:
        below = b.sub(load(b, "float", at(b, line, index), mask), top)
        value = b.mul(lower(b, EXP, [b.sub(below, log_sum)]), wide)
        store(b, "float", value, at(b, target, index), mask)
        return carried

    _vectors(b, count, [], body)
    address = at(b, target, place)
    picked = b.new(f"fsub float {b.new(f'load float, ptr {address}')}, {factor}")
    b.do(f"store float {picked}, ptr {address}")
    _note(b, "%p7", close_loop(b, loop, tally))
    return module(b, 8)
