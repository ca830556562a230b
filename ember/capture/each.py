"""Work that waited, done call by call."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ember.backends.base import memory_of
from ember.capture.queue import NUMBER, Queue, Waiting, line_of
from ember.capture.recorder import Place, places_in
from ember.kernel.array import Array, Broken, Queued, Storage
from ember.kernel.call import Call


def release(queue: Queue) -> None:
    """Storages that were there before the work are as ever."""
    for storage, born in zip(queue.storages, queue.born, strict=True):
        if not born and type(storage) is Queued:
            storage.__class__ = Storage


class Each:
    """Does the work of a queue one by one; results that nobody holds live as long as they are
    read."""

    def __init__(self, queue: Queue):
        self.queue = queue
        self.made: dict[int, dict[Place, Array]] = defaultdict(dict)
        for place, array in queue.arrays:
            self.made[place.storage][place] = array
        queue.arrays.clear()
        self.inside: dict[int, Storage] = {}  # of results that nobody holds
        self.values = iter(queue.values)
        self.ends: dict[int, list[int]] = defaultdict(list)
        last: dict[int, int] = {}
        for position, work in enumerate(queue.work):
            for place in places_in((work.given, work.outs)):
                last[place.storage] = position
        for number, position in last.items():
            self.ends[position].append(number)

    def run(self) -> None:
        """Do it all."""
        position = 0
        try:
            for position, work in enumerate(self.queue.work):
                self._do(work)
                for number in self.ends[position]:
                    self.inside.pop(number, None)
                    self.made.pop(number, None)
                    if not self.queue.born[number]:
                        self.queue.storages[number] = None  # in case only the work held it
        except BaseException as error:
            where = line_of(self.queue.lines[position])
            error.add_note(f"The operation was called at {where}, and done when it was needed.")
            raise

    def _do(self, work: Waiting) -> None:
        kind, call, given, outs, runner = work
        if kind == "fill":
            runner(self._target(outs[0]), self._operand(call))
            return
        if kind == "copy":
            runner(self._target(outs[0]), self._operand(given[0]))
            return
        if type(call) is Call:
            self._target(outs[0])
        found = runner(*map(self._operand, given))
        if call.writes:
            return
        for place, array in zip(outs, found if type(found) is tuple else (found,), strict=True):
            self._keep(place, array)

    def _keep(self, place: Place, array: Array) -> None:
        """A result is there."""
        number = place.storage
        if array.spec is place.spec and not array.offset:
            self.made[number][place] = array
        storage = self.queue.storage(number)
        if storage is None:
            self.inside[number] = array.storage
        else:
            hand_over(storage, array.storage)

    def _target(self, place: Place) -> Array:
        """What a fill, a copy or a draw writes into."""
        number = place.storage
        if number not in self.inside:
            storage = self.queue.storage(number)
            if storage is None:
                memory = memory_of(place.spec.device)
                storage = Storage(memory.allocate(place.spec.nbytes), place.spec.device)
                memory.adopt(storage)
                self.inside[number] = storage
            elif type(storage) is Queued:
                storage.__class__ = Storage
        return self._operand(place)

    def _operand(self, operand: Any) -> Any:
        if type(operand) is Place:
            number = operand.storage
            found = self.made[number].get(operand)
            if found is None:
                storage = self.inside.get(number) or self.queue.storage(number)
                assert storage is not None
                offset = operand.offset + self.queue.bases[number]
                found = self.made[number][operand] = Array(storage, operand.spec, offset)
            return found
        if operand is NUMBER:
            return next(self.values)
        if type(operand) in (tuple, list):
            return type(operand)(map(self._operand, operand))
        return operand


def hand_over(storage: Storage, made: Storage) -> None:
    """Give a storage the memory that another one was made with."""
    assert isinstance(storage, Queued)
    storage.held = made.buffer
    lease = getattr(made, "lease", None)
    if lease is not None:
        storage.lease = lease
    storage.__class__ = Storage


def abandon(queue: Queue, error: BaseException) -> None:
    """Results that are not there will not come."""
    release(queue)
    for number, born in enumerate(queue.born):
        storage = queue.storage(number) if born else None
        if type(storage) is Queued:
            held = storage.held
            if isinstance(held, int):
                storage.held = held, error
                storage.__class__ = Broken
            else:
                storage.__class__ = Storage
