"""Running a noted step again, to find the first op that made inf or NaN: from what was found to be
bad, backwards along the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite, isnan
from typing import Any, NamedTuple

import numpy as np

from ember.amp.step_record import StepRecord, host_copy_of, put_back, state_of_source
from ember.amp.step_template import Noted, Ref, refs_in
from ember.backends.base import memory_of
from ember.core.array import copy_of, storage_of
from ember.dtypes import uint8
from ember.kernel.array import Array, Storage, contiguous_spec

FINE, INFINITE, NAN = 0, 1, 2


class Culprit(NamedTuple):
    """The piece of work at which the trouble begins, with what it was given and made. `made` is
    false where the trouble was in what the step was given."""

    entry: Noted
    made: bool
    state: int
    operands: tuple[Any, ...]
    outs: tuple[Array, ...]


def host_values(array: Array) -> Any:
    """The elements of an array on the host, in a dtype that NumPy computes in."""
    known = isinstance(array.storage.buffer, np.ndarray)
    values = array.host() if known else host_copy_of(array)
    return values.astype(np.float32) if values.dtype.kind == "V" else values


def state_of(array: Array) -> int:
    """FINE, INFINITE or NAN."""
    spec = array.spec
    if not (spec.dtype.is_floating_point or spec.dtype.is_complex) or not spec.numel:
        return FINE
    if isinstance(array.storage.buffer, int):  # meta
        return FINE
    values = host_values(array)
    if np.isfinite(values).all():
        return FINE
    return NAN if np.isnan(values).any() else INFINITE


class Replay:
    """A noted step, run again entry by entry in memory of its own: what the program holds is read
    and never written."""

    def __init__(self, record: StepRecord):
        self.record, self.entries = record, record.entries
        self.storages: dict[int, Storage] = {}
        self._written = {ref[0] for e in self.entries if e.writes for ref in e.outs}
        self._last = {
            ref[0]: position
            for position, entry in enumerate(self.entries)
            for ref in (*refs_in(entry.operands), *entry.outs)
        }

    def storage(self, number: int) -> Storage:
        """The memory that stands for a storage of the step."""
        found = self.storages.get(number)
        if found is None:
            outside = self.record.outside.get(number)
            if outside is None:
                found = storage_of(*self.record.empty[number])
            elif number in self._written:
                spec = contiguous_spec((outside.nbytes,), uint8, outside.device)
                found = copy_of(Array(outside, spec), spec.strides).storage
            else:
                found = outside
            self.storages[number] = found
        return found

    def arrays(self, operand: Any) -> Any:
        """An operand with arrays in place of what was noted of them."""
        if isinstance(operand, Ref):
            number, spec, offset = operand
            return Array(self.storage(number), spec, offset)
        return [self.arrays(o) for o in operand] if isinstance(operand, list) else operand

    def run(self, position: int) -> tuple[tuple[Any, ...], tuple[Array, ...]]:
        """Run an entry; its operands and results."""
        entry = self.entries[position]
        operands = tuple([self.arrays(o) for o in entry.operands])
        if entry.drawn is not None:
            now = state_of_source(entry.drawn[0])
            put_back(entry.drawn)
            try:
                entry.runner(*operands)
            finally:
                put_back(now)
        elif entry.call is not None:
            made = entry.runner(*operands)
            if not entry.writes:
                results = made if isinstance(made, tuple) else (made,)
                arrays = [r for r in results if isinstance(r, Array)]
                for ref, array in zip(entry.outs, arrays, strict=True):
                    self.storages[ref[0]] = array.storage
        elif entry.name == "transfer":
            source, target = operands[0].storage, self.storage(entry.outs[0][0])
            host = memory_of(source.device).read(source.buffer)
            memory_of(target.device).write(target.buffer, host)
        else:
            target = self.arrays(entry.outs[0])
            entry.runner(target, operands[0])
        return operands, tuple([self.arrays(ref) for ref in entry.outs])

    def let_go(self, position: int) -> None:
        """Forget what no later entry needs."""
        entry = self.entries[position]
        for ref in (*refs_in(entry.operands), *entry.outs):
            if self._last[ref[0]] == position:
                self.storages.pop(ref[0], None)


def first_culprit(record: StepRecord, bad: set[int]) -> Culprit | None:
    """Where the trouble in the storages with the numbers `bad` begins; None if no entry made
    them."""
    replay = Replay(record)
    states: list[tuple[int, int, set[int]]] = []
    with np.errstate(all="ignore"):
        for position in range(len(replay.entries)):
            operands, outs = replay.run(position)
            states.append(_states(replay.entries[position], operands, outs))
            replay.let_go(position)
    found = _chosen(record.entries, states, set(bad))
    if found is None:
        return None
    position, made = found
    replay = Replay(record)
    with np.errstate(all="ignore"):
        for earlier in range(position):
            replay.run(earlier)
            replay.let_go(earlier)
        operands, outs = replay.run(position)
    return Culprit(record.entries[position], made, states[position][1], operands, outs)


def _states(
    entry: Noted, operands: tuple[Any, ...], outs: tuple[Array, ...]
) -> tuple[int, int, set[int]]:
    """(state before, state after, the numbers of bad operands) of an entry."""
    written = {ref[0] for ref in entry.outs} if entry.writes else set()
    before, bad = FINE, set()
    if entry.name == "transfer":  # bytes: whatever they are, they are passed on
        return INFINITE, INFINITE, {entry.operands[0][0]}
    for ref, array in zip(refs_in(entry.operands), _arrays_in(operands), strict=True):
        state = FINE if ref[0] in written else state_of(array)
        if state != FINE:
            bad.add(ref[0])
        before = max(before, state)
    for number in operands:
        if isinstance(number, float) and not isfinite(number):
            before = max(before, NAN if isnan(number) else INFINITE)
    return before, max((state_of(out) for out in outs), default=FINE), bad


def _arrays_in(operands: Iterable[Any]) -> Iterator[Array]:
    for operand in operands:
        if isinstance(operand, Array):
            yield operand
        elif isinstance(operand, (tuple, list)):
            yield from _arrays_in(operand)


def _chosen(
    entries: list[Noted], states: list[tuple[int, int, set[int]]], bad: set[int]
) -> tuple[int, bool] | None:
    """(position, whether the trouble was made there): the first entry on the way to what is bad
    that made inf or NaN of finite operands; else NaN of infinite ones; else the first at all."""
    from_finite = made_nan = earliest = None
    for position in range(len(entries) - 1, -1, -1):
        before, after, sources = states[position]
        if after == FINE or not any(ref[0] in bad for ref in entries[position].outs):
            continue
        bad |= sources
        if entries[position].name == "transfer":
            continue
        earliest = position
        if before == FINE:
            from_finite = position
        elif before == INFINITE and after == NAN:
            made_nan = position
    for position in (from_finite, made_nan):
        if position is not None:
            return position, True
    return None if earliest is None else (earliest, False)
