"""Loops in LLVM assembly, with values that go from turn to turn."""

from __future__ import annotations

from typing import NamedTuple

from ember.scalar.vectors import Vectors


class Opened(NamedTuple):
    """A loop whose body is being written: its index, and what came from the turn before."""

    index: str  # type: ignore[assignment]
    carried: list[str]
    kinds: list[str]
    latch: str
    head: str
    done: str
    step: int


def open_loop(
    b: Vectors,
    begin: str,
    end: str,
    step: int = 1,
    carried: tuple[tuple[str, str], ...] = (),
) -> Opened:
    """Start `for index in range(begin, end, step)`; `carried` are (type, first value)."""
    before, head, body, latch, done = (
        b.label(kind) for kind in ("before", "head", "body", "latch", "done")
    )
    b.go(before)
    b.begin(before)
    b.go(head)
    b.begin(head)
    index = b.new(f"phi i64 [ {begin}, %{before} ], [ %{latch}.next, %{latch} ]")
    values = [
        b.new(f"phi {kind} [ {first}, %{before} ], [ %{latch}.c{i}, %{latch} ]")
        for i, (kind, first) in enumerate(carried)
    ]
    b.branch(b.new(f"icmp slt i64 {index}, {end}"), body, done)
    b.begin(body)
    return Opened(index, values, [kind for kind, _ in carried], latch, head, done, step)


def close_loop(b: Vectors, loop: Opened, carried: list[str] | None = None) -> list[str]:
    """End the body, which made new values of what is carried; their values after the loop."""
    last = b.label("last")
    b.go(last)
    b.begin(last)
    b.go(loop.latch)
    b.begin(loop.latch)
    for i, (kind, value) in enumerate(zip(loop.kinds, carried or [], strict=True)):
        b.do(f"%{loop.latch}.c{i} = phi {kind} [ {value}, %{last} ]")
    b.do(f"%{loop.latch}.next = add i64 {loop.index}, {loop.step}")
    b.go(loop.head)
    b.begin(loop.done)
    return loop.carried


def sum_of_products(b: Vectors, *pairs: tuple[str, str | int]) -> str:
    """Σ a·b of integers."""
    total = "0"
    for first, second in pairs:
        part = b.new(f"mul i64 {first}, {second}")
        total = part if total == "0" else b.new(f"add i64 {total}, {part}")
    return total
