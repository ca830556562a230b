"""Calls that wait: what they read and write by number, so that sequences of one structure are
equal, and results that nobody holds any more are known."""

from __future__ import annotations

import sys
import weakref
from typing import Any, NamedTuple

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
        self.sizes: list[int] = []
        self.arrays: dict[Place, Array] = {}  # of storages that were there before
        self.values: list[float] = []
        self.room: dict[Any, float] = {}  # bytes of each device that results may still take

    # storages

    def _number(self, storage: Storage, offset: int) -> int:
        """The number of a storage that was there before."""
        number = self.numbers[id(storage)] = len(self.storages)
        self.storages.append(storage)
        self.born.append(False)
        self.bases.append(offset)
        self.sizes.append(storage.nbytes)
        storage.__class__ = Queued
        return number

    def place(self, array: Array) -> Place:
        """An array as a place."""
        storage = array.storage
        if type(storage) is Queued:
            number = self.numbers[id(storage)]
        else:
            number = self._number(storage, array.offset)
        place = Place(number, array.spec, array.offset - self.bases[number])
        if not self.born[number]:
            self.arrays.setdefault(place, array)
        return place

    def overwritten(self, array: Array) -> Place:
        """The place of an array that is written without being read: where it is a whole storage
        that no work has met so far, what was there before does not count."""
        storage, spec = array.storage, array.spec
        if type(storage) is Storage and not array.offset and spec.contiguous:
            if storage.nbytes == spec.nbytes:
                return Place(self._new(storage, spec.nbytes), spec, 0)
        return self.place(array)

    def _new(self, storage: Storage, nbytes: int) -> int:
        number = self.numbers[id(storage)] = len(self.storages)
        storage.__class__ = Queued
        self.storages.append(weakref.ref(storage))
        self.born.append(True)
        self.bases.append(0)
        self.sizes.append(nbytes)
        return number

    def result(self, spec: Any) -> tuple[Place, Array]:
        """The place of a result, and its array, whose memory is not there yet."""
        nbytes = spec.nbytes
        storage = Storage(nbytes, spec.device)
        return Place(self._new(storage, nbytes), spec, 0), Array(storage, spec)

    def storage(self, number: int) -> Storage | None:
        """A storage by its number; None for one that nobody holds."""
        found = self.storages[number]
        return found() if self.born[number] else found  # type: ignore[no-any-return]

    # work

    def given(self, operands: Any, part: list[Any], values: list[float] | None) -> tuple[Any, ...]:
        """Operands with places for arrays; `part` gets their structure, `values` the floats."""
        found: list[Any] = []
        for operand in operands:
            if type(operand) is Array:
                operand = self.place(operand)
                part += operand
            elif type(operand) in (tuple, list):
                part.append(len(operand))
                operand = type(operand)(self.given(operand, part, None))
            elif values is not None:
                if type(operand) is float:
                    values.append(operand)
                    operand = NUMBER
                    part.append(float)
                else:
                    part += (type(operand), operand)
            found.append(operand)
        return tuple(found)

    def add(self, work: Waiting, part: list[Any]) -> None:
        """Put work at the end; `part` is its structure."""
        self.key += part
        self.work.append(work)
        self.lines.append(_here())


def _here() -> Any:
    """Where the program is: the code of the innermost frame outside the package, and how far it
    is. The line is looked up if it is asked for."""
    frame: Any = sys._getframe(3)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            return code, frame.f_lasti
        frame = frame.f_back
    return None


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
