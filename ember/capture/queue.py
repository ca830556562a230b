"""Calls that wait: what they read and write by number, so that sequences of one structure are
equal, and results that nobody holds any more are known."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple
from weakref import ref

from ember.capture.recorder import Place
from ember.kernel.array import Array, Queued, Storage
from ember.source_lines import PACKAGE

NUMBER = object()  # in the place of a float, which is no part of a sequence's structure


class Waiting(NamedTuple):
    """One piece of work; `given` holds places where arrays were, and NUMBER where floats were."""

    kind: str  # "call", "fill" or "copy"
    call: Any  # the Call; a fill's value
    given: tuple[Any, ...]
    outs: tuple[Place, ...]
    runner: Any


class Queue:
    """Work in the order in which it came.

    `storages` are held by those who were there before; of those that the work makes anew (`born`)
    only weak references are kept. `key` is the structure of the sequence: calls, specs, numbers of
    storages and offsets in them, which count from where the storage was first used (`bases`).
    """

    def __init__(self) -> None:
        self.work: list[Waiting] = []
        self.lines: list[Any] = []
        self.key: list[Any] = []
        self.numbers: dict[int, int] = {}  # of storages, by their ids
        self.storages: list[Any] = []
        self.born: list[bool] = []
        self.bases: list[int] = []
        self.arrays: list[tuple[Place, Array]] = []  # of storages that were there before
        self.values: list[float] = []
        self.first: Any = None  # the first call
        self.has_written = False  # whether work writes into memory that was there before
        self.followed: set[int] = set()  # positions of those that an optimizer may change
        self.room: dict[Any, float] = {}  # bytes of each device that results may still take

    # storages

    def place(self, array: Array) -> Place:
        """An array as a place."""
        storage = array.storage
        if type(storage) is Queued:
            number = self.numbers[id(storage)]
            place = _new(Place, (number, array.spec, array.offset - self.bases[number]))
            if self.born[number]:
                return place
        else:
            number = self.numbers[id(storage)] = len(self.storages)
            self.storages.append(storage)
            self.born.append(False)
            self.bases.append(array.offset)
            storage.__class__ = Queued
            place = _new(Place, (number, array.spec, 0))
        self.arrays.append((place, array))
        return place

    def overwritten(self, array: Array) -> Place:
        """The place of an array that is written without being read: where it is a whole storage
        that no work has met so far, what was there before does not count."""
        storage, spec = array.storage, array.spec
        if type(storage) is Storage and not array.offset and spec.contiguous:
            if storage.nbytes == spec.nbytes:
                return self._born(storage, spec)
        return self.place(array)

    def _born(self, storage: Storage, spec: Any) -> Place:
        number = self.numbers[id(storage)] = len(self.storages)
        storage.__class__ = Queued
        self.storages.append(ref(storage))
        self.born.append(True)
        self.bases.append(0)
        return _new(Place, (number, spec, 0))

    def result(self, spec: Any) -> tuple[Place, Array]:
        """The place of a result, and its array, whose memory is not there yet."""
        storage = Storage(spec.nbytes, spec.device)
        return self._born(storage, spec), Array(storage, spec)

    def storage(self, number: int) -> Storage | None:
        """A storage by its number; None for one that nobody holds."""
        found = self.storages[number]
        return found() if self.born[number] else found  # type: ignore[no-any-return]

    def begins_again(self, call: Any, operands: tuple[Any, ...]) -> bool:
        """Whether a call is the first one of all, with some of the same storages: a loop that has
        no optimizer goes round."""
        first = self.first
        return first.call is call and any(
            type(place) is Place
            and not self.born[place.storage]
            and operand.storage is self.storages[place.storage]
            for place, operand in zip(first.given, operands, strict=True)
        )

    # work

    def given(self, operands: Any, part: list[Any]) -> tuple[Any, ...]:
        """Operands with places for arrays, which `part` gets."""
        found: list[Any] = []
        for operand in operands:
            if type(operand) is Array:
                operand = self.place(operand)
                part.append(operand)
            elif type(operand) in (tuple, list):
                part.append(len(operand))
                operand = type(operand)(self.given(operand, part))
            found.append(operand)
        return tuple(found)

    def add(self, work: Waiting, part: Any, values: Any = ()) -> None:
        """Put work at the end; `part` is its structure, `values` its numbers."""
        self.values += values
        self.key += part
        self.work.append(work)
        self.lines.append(_here())


_new: Any = tuple.__new__


def _here() -> Any:
    """Where the program is: the code of the innermost frame outside the package, and how far it
    is. The line is looked up if it is asked for."""
    frame: Any = _frame(4)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            return code, frame.f_lasti
        frame = frame.f_back
    return None


_frame = sys._getframe


def line_of(where: Any) -> str:
    """The file and line of where the program was."""
    if where is None:
        return "?"
    code, instruction = where
    line = code.co_firstlineno
    for start, end, found in code.co_lines():
        if start <= instruction < end and found is not None:
            line = found
    return f"{code.co_filename}:{line}"
