"""Sequences of waiting work that come again: found by their structure, made programs, replayed.

A sequence is done call by call the first time. The second time shows what it has in common with
the first: storages that are the same ones (parameters and their state) are bound as they are, all
others are copied in; numbers that are the same are constants, others are asked for at each run.
Results that somebody holds are handed out, in memory of their own.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import numpy as np

from ember.backends import cuda, cudnn
from ember.backends.base import memory_of
from ember.capture.background import background
from ember.capture.each import Each, hand_over, release
from ember.capture.memory import bytes_to_end, storage_of
from ember.capture.program import Program
from ember.capture.queue import NUMBER, Queue, line_of
from ember.capture.recorder import Instruction, Place, places_in
from ember.core.array import _copy
from ember.core.cells import Cell
from ember.dtypes import uint8
from ember.errors import OutOfMemoryError
from ember.kernel.array import Array, Queued, Storage, contiguous_spec

FEWEST = 4  # calls of a sequence that is worth a program
MOST_SEQUENCES = 256  # that are remembered
MOST_PROGRAMS = 32
ENOUGH = 8  # runs after which a program was worth it
MOST_IMPROVEMENTS = 2  # of programs that copy what another one leaves where it was
MOST_ATTEMPTS = 8  # programs that are made of one structure


_dead: list[bool] = []  # says that there are programs whose storages are gone


class Sighting:
    """Which storages, numbers and offsets a sequence came with."""

    def __init__(self, queue: Queue):
        self.values = list(queue.values)
        self.bases = list(queue.bases)
        self.outside = {
            number: weakref.ref(storage)
            for number, storage in enumerate(queue.storages)
            if not queue.born[number]
        }

    def same_storages(self, queue: Queue) -> set[int]:
        """The storages that are the same, used from the same place on."""
        return {
            number
            for number, reference in self.outside.items()
            if reference() is queue.storages[number] and self.bases[number] == queue.bases[number]
        }


class Sequence:
    """What is known of the sequences of one structure."""

    def __init__(self) -> None:
        self.sightings: list[Sighting] = []
        self.programs: list[Replay] = []
        self.changing: set[int] = set()  # positions of numbers that have changed
        self.attempts = self.improvements = 0

    def find(self, queue: Queue) -> Replay | None:
        """A program for a sequence, if one is ready; else it may be made for the next time."""
        for replay in self.programs:
            if replay.fits(queue):
                if replay.program.is_ready:
                    return self._with_less_to_copy(replay, queue)
                background.start()
                return None
        self.bury()
        self.programs = [r for r in self.programs if r.program.failure is None]
        if self.attempts < MOST_ATTEMPTS:
            self._learn(queue)
        return None

    def bury(self) -> None:
        """Forget programs whose storages are gone; one that has served was no vain attempt."""
        dead = [r for r in self.programs if r.is_dead]
        if dead:
            self.programs = [r for r in self.programs if not r.is_dead]
            self.attempts -= sum(r.runs >= ENOUGH for r in dead)

    def _learn(self, queue: Queue) -> None:
        alike = [(len(s.same_storages(queue)), n) for n, s in enumerate(self.sightings)]
        if alike:
            best = self.sightings[max(alike)[1]]
            same = best.same_storages(queue)
            self.changing |= queue.followed
            self.changing.update(
                n for n, (a, b) in enumerate(zip(best.values, queue.values)) if a != b
            )
            self.attempts += 1
            self.programs = [r for r in self.programs if not r.is_bound_alike(queue, same)]
            try:
                self.programs.append(Replay(queue, same, self._cells(best, queue)))
            except Exception as error:  # the calls can run one by one
                if background.at_once and not isinstance(error, OutOfMemoryError):
                    raise
                self.attempts = MOST_ATTEMPTS
        self.sightings = [*self.sightings[-3:], Sighting(queue)]

    def _with_less_to_copy(self, replay: Replay, queue: Queue) -> Replay:
        """The program, or another in its place that reads where they lie the storages which have
        the same memory as the last time: another program's results."""
        staying = replay.staying(queue)
        if not staying or self.improvements == MOST_IMPROVEMENTS:
            return replay
        self.improvements += 1
        try:
            better = Replay(
                queue, set(replay.lasting), replay.cells, staying | {*replay.staying_in}
            )
        except OutOfMemoryError:
            self.improvements = MOST_IMPROVEMENTS
            return replay
        self.programs[self.programs.index(replay)] = better
        return better if better.program.is_ready else replay

    def _cells(self, before: Sighting, queue: Queue) -> list[int | None]:
        """For each number the group of those that change with it; None for a constant."""
        groups: dict[Any, int] = {}
        found: list[int | None] = []
        for position, pair in enumerate(zip(before.values, queue.values, strict=True)):
            if position in self.changing:
                found.append(groups.setdefault(pair, len(groups)))
            else:
                found.append(None)
        return found


class Replay:
    """A program of a sequence. `lasting` storages are bound where they are, and so is the memory of
    those that are `staying`; `cells` say which numbers are asked for."""

    def __init__(
        self,
        queue: Queue,
        lasting: set[int],
        cells: list[int | None],
        staying: set[int] | frozenset[int] = frozenset(),
    ):
        self.cells = cells
        self.values = list(queue.values)
        self.firsts = [cells.index(g) for g in range(len({c for c in cells if c is not None}))]
        self.lasting: dict[int, tuple[Any, Storage, int]] = {}
        self.gone: list[bool] = []
        self.runs = 0
        for number in lasting:
            storage = queue.storages[number]
            if isinstance(storage.buffer, np.ndarray):
                storage.bytes()  # the form in which it stays
            twin = Storage(storage.buffer, storage.device)
            self.lasting[number] = _watched(storage, self.gone), twin, queue.bases[number]
        self.staying_in: dict[int, tuple[Storage, int]] = {}
        for number in staying:
            storage = queue.storages[number]
            twin = Storage(storage.buffer, storage.device)
            self.staying_in[number] = twin, queue.bases[number]
        self.memories: dict[int, Any] = {}  # of inputs, at the last run
        self.inputs: dict[int, Input] = {}
        spans = _spans(queue)
        for number, storage in enumerate(queue.storages):
            if not (queue.born[number] or number in lasting or number in staying):
                self.inputs[number] = Input(storage, spans[number], queue.bases[number])
        self.outputs: dict[int, Storage] = {}
        for number, born in enumerate(queue.born):
            storage = queue.storage(number) if born else None
            if storage is not None:
                self.outputs[number] = storage_of(max(storage.nbytes, 1), storage.device)
        self.handed: dict[int, Any] = {}
        self.tape = SimpleNamespace(values=[0.0] * len(self.firsts))
        self.program = self._program(queue)

    @property
    def is_dead(self) -> bool:
        """Whether a storage that it is bound to is gone."""
        return bool(self.gone)

    def _program(self, queue: Queue) -> Program:
        written = {o.storage for w in queue.work for o in w.outs}
        for number in written & set(self.inputs):
            self.inputs[number].is_written = True
        return Program(
            SimpleNamespace(  # type: ignore[arg-type]
                outside={n: twin for n, (_, twin, _) in self.lasting.items()}
                | {n: twin for n, (twin, _) in self.staying_in.items()},
                instructions=self._instructions(queue),
                storages=[lambda n=n: self.outputs.get(n) for n in range(len(queue.storages))],
                written=set(),
                constants={},
                _tape=self.tape,
            ),
            {number: given.storage for number, given in self.inputs.items()},
        )

    def _instructions(self, queue: Queue) -> list[Instruction]:
        shifts = {n: -given.low for n, given in self.inputs.items()}
        shifts.update((n, base) for n, (_, _, base) in self.lasting.items())
        shifts.update((n, base) for n, (_, base) in self.staying_in.items())
        numbers = iter(list(zip(self.cells, queue.values, strict=True)))
        found = []
        for kind, call, given, outs, runner in queue.work:
            if call is NUMBER:
                call = self._operand(call, shifts, numbers)
            operands = tuple([self._operand(g, shifts, numbers) for g in given])
            places = tuple([self._operand(o, shifts, numbers) for o in outs])
            found.append(Instruction(kind, call, operands, places, runner))
        return found

    def _operand(self, given: Any, shifts: dict[int, int], numbers: Any) -> Any:
        if type(given) is Place:
            shift = shifts.get(given.storage)
            return given._replace(offset=given.offset + shift) if shift else given
        if given is NUMBER:
            group, value = next(numbers)
            if group is None:
                return value
            cell = Cell(value)
            cell.position = group
            return cell
        if type(given) in (tuple, list):
            return type(given)([self._operand(g, shifts, numbers) for g in given])
        return given

    # running

    def is_bound_alike(self, queue: Queue, lasting: set[int]) -> bool:
        """Whether it is bound to the same storages: only its numbers are not right."""
        return self.lasting.keys() == lasting and all(
            reference() is queue.storages[n] for n, (reference, _, _) in self.lasting.items()
        )

    def fits(self, queue: Queue) -> bool:
        """Whether it does the work of a queue."""
        if self.is_dead:
            return False
        storages, bases = queue.storages, queue.bases
        for number, (reference, twin, base) in self.lasting.items():
            storage = storages[number]
            if reference() is not storage or bases[number] != base:
                return False
            if storage.buffer is not twin.buffer and not self._is_settled(storage, twin):
                return False
        for number, (twin, base) in self.staying_in.items():
            if storages[number].buffer is not twin.buffer or bases[number] != base:
                return False
        for number, given in self.inputs.items():
            if not given.fits(storages[number], bases[number]):
                return False
        values = queue.values
        groups = [values[first] for first in self.firsts]
        return all(
            value == (known if group is None else groups[group])
            for value, known, group in zip(values, self.values, self.cells, strict=True)
        )

    def staying(self, queue: Queue) -> set[int]:
        """The inputs that are in the same memory as at the last run."""
        return {
            number
            for number, (memory, base) in self.memories.items()
            if memory() is queue.storages[number].buffer and queue.bases[number] == base
        }

    def _is_settled(self, storage: Storage, twin: Storage) -> bool:
        """Whether two buffers are one memory."""
        if not isinstance(storage.buffer, np.ndarray):
            return False
        return storage.bytes().ctypes.data == twin.bytes().ctypes.data

    def run(self, queue: Queue) -> None:
        """Do the work of a queue."""
        self.runs += 1
        self._take_back()
        for number, given in self.inputs.items():
            storage = queue.storages[number]
            given.read(storage, queue.bases[number])
            if not isinstance(storage.buffer, np.ndarray):
                self.memories[number] = weakref.ref(storage.buffer), queue.bases[number]
        self.tape.values = [queue.values[first] for first in self.firsts]
        self.program.run()
        for number, given in self.inputs.items():
            if given.is_written:
                given.write(queue.storages[number], queue.bases[number])
        for number, made in self.outputs.items():
            storage = queue.storage(number)
            if storage is not None:
                self._hand_out(number, storage, made)

    def _hand_out(self, number: int, storage: Storage, made: Storage) -> None:
        """Give a result to the storage that waits for it: a GPU's as it is, until the program needs
        the memory again, others as copies."""
        assert isinstance(storage, Queued)
        held = storage.held
        if isinstance(held, int) and not isinstance(made.buffer, np.ndarray):
            self.handed[number] = weakref.ref(storage)
            hand_over(storage, made)
        elif isinstance(held, int):
            own = _own_copy(made, held)
            hand_over(storage, own)
        else:
            storage.__class__ = Storage
            _copy(_bytes(storage, held.nbytes), _bytes(made, held.nbytes))

    def _take_back(self) -> None:
        """Results of the last run that somebody still holds get memory of their own."""
        for number, reference in self.handed.items():
            storage, made = reference(), self.outputs[number]
            if storage is not None and storage.buffer is made.buffer:
                storage.buffer = _own_copy(made, made.nbytes).buffer
        self.handed.clear()


def _watched(storage: Storage, gone: list[bool]) -> Any:
    """A reference to a storage; its end is written down."""
    return weakref.ref(storage, lambda _: (gone.append(True), _dead.append(True)))


class Input:
    """A storage that is another one each time: a part of it is copied to where the program reads.

    `low` is where that begins, counted from the first use.
    """

    def __init__(self, storage: Storage, span: tuple[int, int, int], base: int):
        self.low, self.high, self.itemsize = span
        self.base: int | None = None
        if not self.itemsize:  # read as several dtypes: the whole of it, from the same place on
            self.base, self.itemsize, self.low, self.high = base, 1, -base, storage.nbytes - base
        self.nbytes = (self.high - self.low) * self.itemsize
        self.size = storage.nbytes
        self.storage = storage_of(max(self.nbytes, 1), storage.device)
        self.is_written = False

    def fits(self, storage: Storage, base: int) -> bool:
        """Whether a storage can be read in the same way."""
        return self.base is None or (self.base == base and storage.nbytes == self.size)

    def _part(self, storage: Storage, base: int) -> Array:
        return _bytes(storage, self.nbytes, (base + self.low) * self.itemsize)

    def read(self, storage: Storage, base: int) -> None:
        """Copy it in."""
        _copy(_bytes(self.storage, self.nbytes), self._part(storage, base))

    def write(self, storage: Storage, base: int) -> None:
        """Copy it back."""
        _copy(self._part(storage, base), _bytes(self.storage, self.nbytes))


def _bytes(storage: Storage, count: int, start: int = 0) -> Array:
    return Array(storage, contiguous_spec((count,), uint8, storage.device), start)


def _own_copy(made: Storage, nbytes: int) -> Storage:
    memory = memory_of(made.device)
    own = Storage(memory.allocate(nbytes), made.device)
    memory.adopt(own)
    if nbytes:
        _copy(_bytes(own, nbytes), _bytes(made, nbytes))
    return own


def _spans(queue: Queue) -> dict[int, tuple[int, int, int]]:
    """The elements of each storage that is used, from the first use on, and their size; 0 where
    there are several sizes."""
    found: dict[int, tuple[int, int, int]] = {}
    for work in queue.work:
        for number, spec, offset in places_in((work.given, work.outs)):
            size = spec.dtype.itemsize
            low, high = offset, offset + bytes_to_end(spec) // size
            if number in found:
                a, b, before = found[number]
                low, high, size = min(low, a), max(high, b), size if before == size else 0
            found[number] = low, high, size
    return found


class Memory:
    """The sequences that have been seen, the last ones used at the end."""

    def __init__(self) -> None:
        self.sequences: OrderedDict[Any, Sequence] = OrderedDict()
        self.replayed = self.done = 0  # sequences, for those who ask
        self.busy = False  # whether a program runs

    def give_back(self) -> bool:
        """Do without programs, whose memory is needed; whether there were any."""
        if self.busy:
            return False
        held = [s for s in self.sequences.values() if s.programs]
        for sequence in held:
            sequence.programs, sequence.attempts = [], sequence.attempts + 1
        return bool(held)

    def finish(self, queue: Queue) -> None:
        """Do what waits, in order. An error names the line where the call came from; the calls
        before it are done, those after it are not."""
        release(queue)
        if _dead:
            _dead.clear()
            for sequence in self.sequences.values():
                sequence.bury()
        if not queue.work:
            return
        replay = self._look_up(queue) if len(queue.work) >= FEWEST else None
        if replay is None:
            self.done += 1
            Each(queue).run()
            return
        self.replayed += 1
        self.busy = True
        try:
            replay.run(queue)
        except BaseException as error:
            first, last = line_of(queue.lines[0]), line_of(queue.lines[-1])
            error.add_note(f"It is one of the operations that were called from {first} to {last}.")
            raise
        finally:
            self.busy = False

    def _look_up(self, queue: Queue) -> Replay | None:
        alive = tuple(
            n
            for n, (storage, born) in enumerate(zip(queue.storages, queue.born, strict=True))
            if born and storage() is not None
        )
        settings = cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic, cuda.matmul.precision
        key = (tuple(queue.key), alive, settings)
        try:
            sequence = self.sequences.get(key)
        except TypeError:  # something in it cannot be compared
            return None
        if sequence is None:
            sequence = self.sequences[key] = Sequence()
            if len(self.sequences) > MOST_SEQUENCES:
                self.sequences.popitem(last=False)
        else:
            self.sequences.move_to_end(key)
        found = sequence.find(queue)
        if len(sequence.programs) and found is None:
            self._forget_oldest()
        return found

    def _forget_oldest(self) -> None:
        held = [s for s in self.sequences.values() if s.programs]
        for sequence in held[:-MOST_PROGRAMS]:
            sequence.programs.clear()
