"""Following a step that repeats itself: what the guard does at each call of such a step, and no
more.

These functions stand in for the methods of a record while a step follows a template. Whatever they
do not expect puts the methods back, which find out what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any

from ember.amp.step_template import Point, draw_key, is_draw
from ember.backends.cpu.mersenne import Mersenne
from ember.kernel.array import Array

NAMES = ("run", "made", "fill", "copy", "transfer")


def state_of_source(source: Any) -> tuple[Any, ...]:
    """(source, what puts it back to where it is): a stream of random numbers before a draw."""
    if isinstance(source, Mersenne):
        return source, source.words.copy(), source.spare, source.fresh
    return source, source.state()


def _rare(record: Any, takes: Callable[..., bool]) -> tuple[Callable[..., Any], ...]:
    """The methods for fills and for copies between devices."""
    thread, inner, kind = record._thread, record.inner, type(record)

    def fill(array: Any, value: Any, now: Callable[..., None]) -> None:
        if get_ident() == thread and not takes(("fill", array.spec), (value, array)):
            return kind.fill(record, array, value, now)
        return now(array, value) if inner is None else inner.fill(array, value, now)

    def transfer(source: Any, target: Any, now: Callable[..., None]) -> None:
        if get_ident() == thread:
            key = ("transfer", source.nbytes, source.device, target.device)
            if not takes(key, (source, target)):
                return kind.transfer(record, source, target, now)
        return now(source, target) if inner is None else inner.transfer(source, target, now)

    return fill, transfer


def followers(
    record: Any, path: list[Point]
) -> tuple[dict[str, Callable[..., Any]], Callable[[], Iterator[Point]]]:
    """(an executor's methods by name, which keep what differs from the step before and go along the
    path of a template; a function that puts them at its start and gives the path's iterator)."""
    advance: Callable[[], Point]
    kept, looked = record._kept, record._looked
    thread, inner, kind = record._thread, record.inner, type(record)

    def restart() -> Iterator[Point]:
        nonlocal advance
        points = iter(path)
        advance = points.__next__
        return points

    def run(call: Any, runner: Any, operands: tuple[Any, ...]) -> Any:
        if get_ident() != thread:
            return runner(*operands) if inner is None else inner.run(call, runner, operands)
        key, keep, root = advance()
        if key is not call:
            if type(key) is not tuple or not is_draw(call) or key != draw_key(call):
                record.stray(1)
                return kind.run(record, call, runner, operands)
            kept.append((keep(operands), state_of_source(operands[1])))
        elif keep is not None:
            kept.append(keep(operands))
        made = runner(*operands) if inner is None else inner.run(call, runner, operands)
        if root is not None and type(made) is Array:
            looked.append((root, made))
        return made

    def made(storage: Any) -> None:
        if inner is not None:
            inner.made(storage)

    def copy(target: Any, source: Any, now: Callable[..., None]) -> None:
        root = None
        if get_ident() == thread:
            key, keep, root = advance()
            if key != ("copy", target.spec, source.spec):
                record.stray(1)
                return kind.copy(record, target, source, now)
            if keep is not None:
                kept.append(keep((source, target)))
        now(target, source) if inner is None else inner.copy(target, source, now)
        if root is not None and type(target) is Array:
            looked.append((root, target))
        return None

    def takes(key: Any, arguments: tuple[Any, ...]) -> bool:
        point = advance()
        if point.key != key:
            record.stray(1)
            return False
        if point.keep is not None:
            kept.append(point.keep(arguments))
        return True

    fill, transfer = _rare(record, takes)
    return dict(zip(NAMES, (run, made, fill, copy, transfer), strict=True)), restart
