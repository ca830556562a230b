"""What a step that repeats itself needs no more than once: its calls, their order, and how their
results are used.

A training step makes the same calls as the one before. Noting each of them anew costs several
microseconds a call, so a step that was noted in full becomes a template. While later steps follow
it, only what differs is kept: arrays from outside (batches, parameters), Python's numbers, and the
state of random numbers. Calls are objects that ops make once and keep, so one comparison by
identity tells whether a step still follows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from ember.kernel.array import Array, Storage
from ember.kernel.call import Call


class Ref(tuple[Any, ...]):
    """(number of a storage, spec, offset): an array of the record, without its memory."""

    __slots__ = ()


class Noted(NamedTuple):
    """One piece of work: a call, a copy or cast, a fill, or a transfer between devices."""

    name: str
    call: Any  # the Call; None for copies, fills and transfers
    runner: Any
    operands: tuple[Any, ...]  # a Ref in place of each array, lists of them in lists
    outs: tuple[Ref, ...]
    writes: bool  # whether the outs were there before
    drawn: Any  # of a draw: the state that its random numbers came from
    node: Any  # the node of the backward pass that it belongs to; None in the forward
    place: tuple[str, int, str]  # file, line and module in the forward
    stamp: int  # nodes that were made after it have a higher number
    key: Any  # what a later step must do to follow

    def arguments(self) -> tuple[Any, ...]:
        """What a follower is given at this point, in its order."""
        return self.operands if self.call is not None else (*self.operands, *self.outs)


class Behind(NamedTuple):
    """Stands for a node of a step that is over."""

    sequence: int


class Point(NamedTuple):
    """What is done where a step follows: the key, what picks the arguments to keep (None: nothing),
    and the number of a result to look at (None: of none)."""

    key: Any
    keep: Any
    root: int | None


END = Point(None, None, None)


def is_draw(call: Any) -> bool:
    """Whether a call draws random numbers: such calls are made anew each time."""
    return type(call) is Call and bool(call.writes)


def draw_key(call: Any) -> tuple[Any, ...]:
    """What is the same in all draws of one kind."""
    return ("draw", call.name, call.out_specs[0])


class Template:
    """The calls of a step that was noted from its start, without its memory."""

    def __init__(self, record: Any, ends: list[int | None]):
        self.entries = [_without_node(entry) for entry in record.entries]
        self.count = len(record._storages)
        self.empty = dict(record.empty)
        self.outside = frozenset(record.outside)
        self.ends = ends  # the numbers of what is looked at when the step ends
        self.path: list[Point] = []
        self.kept_at: list[int] = []
        self.places: list[tuple[int, ...]] = []
        known: set[int] = set()
        for position, entry in enumerate(self.entries):
            places = tuple(self._places(entry, known))
            keep = itemgetter(*places) if places else None
            if keep is None and entry.drawn is not None:
                keep = _nothing
            if keep is not None:
                self.kept_at.append(position)
                self.places.append(places)
            self.path.append(Point(entry.key, keep, record.root_at.get(position)))
        self.path.append(END)

    def _places(self, entry: Noted, known: set[int]) -> Iterator[int]:
        """The arguments that differ from step to step: arrays from outside, where they are first
        seen, and numbers."""
        for place, argument in enumerate(entry.arguments()):
            fresh = {ref[0] for ref in refs_in((argument,))} & self.outside - known
            known |= fresh
            if fresh or _is_number(argument):
                yield place

    def agrees(self, other: Template, position: int) -> bool:
        """Whether two templates ask the same of a step until a position."""
        if len(self.path) <= position or len(other.path) <= position:
            return False
        mine = zip(self.path[:position], other.path[:position], strict=True)
        if any(a.key != b.key or a.root != b.root for a, b in mine):
            return False
        count = bisect_left(self.kept_at, position)
        same = self.kept_at[:count] == other.kept_at[: bisect_left(other.kept_at, position)]
        return same and self.places[:count] == other.places[:count]

    def restored(self, kept: list[Any], position: int) -> tuple[list[Noted], dict[int, Storage]]:
        """(entries, storages from outside) of a step that has followed until a position."""
        entries, outside = list(self.entries[:position]), {}
        for at, places, values in zip(self.kept_at, self.places, kept):
            entry = entries[at]
            if entry.drawn is not None:
                values, state = values
                entry = entry._replace(drawn=state)
            given = list(entry.arguments())
            found = values if len(places) > 1 else (values,)
            for place, value in zip(places, found):
                if _is_number(given[place]):
                    given[place] = value
                else:
                    self._place_storages(given[place], value, outside)
            entries[at] = entry._replace(operands=tuple(given[: len(entry.operands)]))
        return entries, outside

    def _place_storages(self, slot: Any, value: Any, outside: dict[int, Storage]) -> None:
        if isinstance(slot, Ref):
            if slot[0] in self.outside:
                storage = value.storage if isinstance(value, Array) else value
                outside.setdefault(slot[0], storage)
        elif isinstance(slot, list):
            for inner, item in zip(slot, value):
                self._place_storages(inner, item, outside)


def _without_node(entry: Noted) -> Noted:
    node = None if entry.node is None else Behind(entry.node.sequence)
    drawn = None if entry.drawn is None else ()
    return entry._replace(node=node, drawn=drawn)


def _nothing(operands: Any) -> None:
    """Keep none of the arguments of a draw, only the state."""


def _is_number(argument: Any) -> bool:
    return type(argument) in (float, int, complex)


def refs_in(operands: Any) -> Iterator[Ref]:
    """The arrays among noted operands, also those in lists."""
    for operand in operands:
        if isinstance(operand, Ref):
            yield operand
        elif isinstance(operand, list):
            yield from refs_in(operand)
