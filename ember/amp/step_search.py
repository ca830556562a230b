"""Searching a noted step for the first op that made inf or NaN: backwards, from what was found to
be bad, along the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite, isnan
from typing import Any, NamedTuple

import numpy as np

from ember.amp.step_record import Noted
from ember.core.array import host_copy
from ember.kernel.array import Array, Storage

FINE, INFINITE, NAN = 0, 1, 2


class Culprit(NamedTuple):
    """The piece of work at which the trouble begins. `made` is false where the trouble was in what
    the step was given."""

    entry: Noted
    made: bool


def host_values(array: Array) -> Any:
    """The elements of an array on the host, in a dtype that NumPy computes in."""
    known = isinstance(array.storage.buffer, np.ndarray)
    values = array.host() if known else host_copy(array)
    return values.astype(np.float32) if values.dtype.kind == "V" else values


def state_of(array: Any) -> int:
    """FINE, INFINITE or NAN."""
    if not (array.spec.dtype.is_floating_point or array.spec.dtype.is_complex):
        return FINE
    if not array.spec.numel or isinstance(array.storage.buffer, int):
        return FINE
    values = host_values(array)
    if np.isfinite(values).all():
        return FINE
    return NAN if np.isnan(values).any() else INFINITE


def arrays_in(operands: Iterable[Any]) -> Iterator[Array]:
    """The arrays among operands, also those in lists."""
    for operand in operands:
        if isinstance(operand, Array):
            yield operand
        elif isinstance(operand, (tuple, list)):
            yield from arrays_in(operand)


def first_culprit(entries: list[Noted], bad: set[int]) -> Culprit | None:
    """Where the trouble in the storages `bad` (their ids) begins; None if no entry made them."""
    search = _Search(bad)
    for entry in reversed(entries):
        search.visit(entry)
    found = search.from_finite or search.made_nan
    if found is not None:
        return Culprit(found, True)
    return Culprit(search.earliest, False) if search.earliest is not None else None


class _Search:
    """What is known while going backwards."""

    def __init__(self, bad: set[int]):
        self.bad = set(bad)
        self.from_finite: Noted | None = None  # inf or NaN out of finite operands
        self.made_nan: Noted | None = None  # NaN out of operands without one
        self.earliest: Noted | None = None
        self._states: dict[tuple[int, int, Any], int] = {}
        self._rewritten: set[int] = set()  # storages that a later entry has written

    def visit(self, entry: Noted) -> None:
        """Follow one entry, if it made something bad."""
        self._follow(entry)
        if entry.versions:
            self._rewritten.update(id(_storage(out)) for out in entry.outs)

    def _follow(self, entry: Noted) -> None:
        if not any(id(_storage(out)) in self.bad for out in entry.outs):
            return
        if entry.name == "transfer":
            self.bad.add(id(entry.operands[0]))
            return
        after = max((self._state(out, entry) for out in entry.outs), default=FINE)
        if after == FINE:
            return
        before = FINE
        written = {id(out) for out in entry.outs} if entry.versions else set()
        for array in arrays_in(entry.operands):
            state = FINE if id(array) in written else self._now(array)
            if state != FINE or id(array.storage) in self._rewritten:
                self.bad.add(id(array.storage))
            before = max(before, state)
        for number in entry.operands:
            if isinstance(number, float) and not isfinite(number):
                before = max(before, NAN if isnan(number) else INFINITE)
        self.earliest = entry
        if before == FINE:
            self.from_finite = entry
        elif before == INFINITE and after == NAN:
            self.made_nan = entry

    def _now(self, array: Array) -> int:
        key = (id(array.storage), array.offset, array.spec)
        known = self._states.get(key)
        if known is None:
            known = self._states[key] = state_of(array)
        return known

    def _state(self, out: Any, entry: Noted) -> int:
        """The state of a result as it was when it was made."""
        position = next(i for i, o in enumerate(entry.outs) if o is out)
        expected = entry.versions[position] + 1 if entry.versions else 0
        if out.storage.version <= expected:
            return self._now(out)
        if entry.call is None or entry.versions:
            return FINE  # written over since: what it was is not known
        again = entry.runner(*entry.operands)
        return state_of(again[position] if isinstance(again, tuple) else again)


def _storage(out: Any) -> Any:
    return out if isinstance(out, Storage) else out.storage
