"""The recorder: an executor that does everything at once, as eager running does, and writes it
down."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ember.core.cells import Cell, Tape
from ember.core.executor import Executor
from ember.core.history import check_write, written
from ember.core.node import AccumulateGrad
from ember.core.tensor import Tensor
from ember.kernel.array import Array, Spec, Storage
from ember.kernel.call import Call
from ember.source_lines import user_line

COPIED = 1 << 20  # bytes of constants up to which a copy is kept


class Place(NamedTuple):
    """An array of the recording: the number of its storage, and where it lies there."""

    storage: int
    spec: Spec
    offset: int


class Instruction(NamedTuple):
    """One piece of work. `kind` is "call", "fill", "copy", "transfer" or "host"; `operands` hold
    places where arrays were."""

    kind: str
    call: Any  # the Call; a fill's value; a transfer's bytes and devices; the host's function
    operands: tuple[Any, ...]
    outs: tuple[Place, ...]
    runner: Any = None


def places_in(tree: Any) -> list[Place]:
    """The places of an operand."""
    if isinstance(tree, Place):
        return [tree]
    if isinstance(tree, (tuple, list)):
        return [p for item in tree for p in places_in(item)]
    return []


def is_shared(storage: Storage) -> bool:
    """Whether an ndarray of the program's has this memory too, after the recording: its values may
    change by way of that."""
    buffer = storage.buffer
    if not isinstance(buffer, np.ndarray):
        return False
    if sys.getrefcount(buffer) > 3:  # the storage's, the variable's, the argument's
        return True
    base = buffer.base
    return base is not None and sys.getrefcount(base) > 3  # the buffer's


def shifted(instruction: Instruction, shifts: dict[int, int]) -> Instruction:
    """An instruction with arguments' places counted from the argument's first element."""
    if not any(shifts.get(p.storage) for p in places_in((instruction.operands, instruction.outs))):
        return instruction

    def move(tree: Any) -> Any:
        if isinstance(tree, Place):
            return tree._replace(offset=tree.offset - shifts.get(tree.storage, 0))
        if isinstance(tree, (tuple, list)):
            return type(tree)(move(item) for item in tree)
        return tree

    return instruction._replace(operands=move(instruction.operands), outs=move(instruction.outs))


class Recorder(Executor):
    """Records until something happens that a replay could not repeat; `broken` then says what and
    where, and the rest of the function runs on, not recorded."""

    def __init__(self, strict: bool = False) -> None:
        self.strict = strict
        self.instructions: list[Instruction] = []
        self.storages: list[weakref.ref[Storage]] = []
        self.born: list[bool] = []  # whether a storage was made while recording
        self.outside: dict[int, Storage] = {}  # storages that were there before, kept alive
        self.constants: dict[int, Any] = {}  # storages of Python's values, with a copy of them
        self.written: set[int] = set()
        self.broken: str | None = None
        self.before_host: Callable[[], Any] = lambda: None
        self.consumed: set[Any] = set()  # nodes of graphs that a backward pass has used up
        self.leaves: frozenset[int] = frozenset()  # ids of tensors whose gradients are looked after
        self.held: set[int] = set()  # ids of storages that a check watches over
        self.checks: list[Callable[[], bool]] = []  # whether a replay is right, besides the guard
        self.postponed = False  # whether the next call is to be recorded instead
        self._tape = Tape()
        self._counted: dict[int, int] = {}
        self._leaders: dict[Any, Any] = {}
        self._advances: list[tuple[Any, Storage, int]] = []
        self._numbers: dict[int, int] = {}
        self._paused = False

    # storages

    def number(self, storage: Storage, born: bool = False) -> int:
        """The number of a storage."""
        known = self._numbers.get(id(storage))
        if known is not None and self.storages[known]() is storage:
            return known
        number = self._numbers[id(storage)] = len(self.storages)
        self.storages.append(weakref.ref(storage))
        self.born.append(born)
        if not born:
            self.outside[number] = storage
        return number

    def place(self, array: Array, born: bool = False) -> Place:
        """An array as a place."""
        return Place(self.number(array.storage, born), array.spec, array.offset)

    def _places(self, operand: Any) -> Any:
        if isinstance(operand, Array):
            return self.place(operand)
        if isinstance(operand, (tuple, list)) and any(isinstance(o, Array) for o in operand):
            return type(operand)(self._places(o) for o in operand)
        return operand

    # the executor

    def run(self, call: Call, runner: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
        """Run a call and write it down."""
        if self._idle:
            return runner(*operands)
        given = tuple(self._places(o) for o in operands)
        made = runner(*operands)
        results = made if isinstance(made, tuple) else (made,)
        if call.writes:
            outs = tuple(self.place(operands[p]) for p in call.writes)
        elif call.out_specs:
            outs = tuple(self.place(r, born=True) for r in results)
        else:
            self.give_up(f"{call.name}: the shape of its result depends on the data")
            return made
        self._write("call", call, given, outs, runner)
        return made

    def made(self, storage: Storage) -> None:
        """Memory of the recording."""
        if not self._idle:
            self.number(storage, born=True)

    def constant(self, storage: Storage) -> None:
        """Values of Python's, which are the same at each replay; a copy, in case they are written
        to."""
        if not self._idle:
            small = storage.nbytes <= COPIED
            self.constants[self.number(storage)] = storage.bytes().copy() if small else None

    def fill(self, array: Array, value: Any, now: Callable[..., None]) -> None:
        """A fill."""
        now(array, value)
        if not self._idle:
            self._write("fill", value, (), (self.place(array),), now)

    def copy(self, target: Array, source: Array, now: Callable[..., None]) -> None:
        """A copy within a device."""
        given = () if self._idle else (self.place(source),)
        now(target, source)
        if not self._idle:
            self._write("copy", None, given, (self.place(target),), now)

    def transfer(self, source: Storage, target: Storage, now: Callable[..., None]) -> None:
        """A copy between devices."""
        now(source, target)
        if not self._idle:
            places = [Place(self.number(s), None, 0) for s in (source, target)]  # type: ignore[arg-type]
            moved = (source.nbytes, source.device, target.device)
            self._write("transfer", moved, (places[0],), (places[1],), now)

    def read(self, array: Array) -> None:
        """The program looks at data: what it does then may differ from step to step."""
        if not self._idle:
            self.give_up(
                "the program reads a tensor's elements (.item(), float(), bool(), print(), "
                ".tolist() or .numpy())"
            )

    def used_up(self, nodes: list[Any]) -> None:
        """Graphs that lead nowhere any more."""
        self.consumed.update(n for n in nodes if not isinstance(n, AccumulateGrad))

    def is_used_up(self, node: Any) -> bool:
        """Whether a graph only leads to what a backward pass has used up."""
        if node is None or node in self.consumed:
            return True
        below = [target for target, _ in node.edges if target is not None]
        return bool(below) and all(self.is_used_up(target) for target in below)

    def host_call(self, function: Callable[[], Any]) -> Any:
        """The host's business is done again at each replay, not what it was this time."""
        if self._idle:
            return function()
        self._paused = True
        try:
            before = self.before_host()
            made = function()
        finally:
            self._paused = False
        self.instructions.append(Instruction("host", function, (before,), ()))
        return made

    @property
    def tape(self) -> Any:
        """Where an optimizer's numbers are written down; None while nothing is."""
        return None if self._idle else self._tape

    @property
    def refusal(self) -> str | None:
        """Why numbers of optimizers cannot be followed."""
        return self._tape.refusal

    def is_steady(self, storage: Storage) -> bool:
        """Whether a storage was there before the recording, which has not written to it so far: a
        replay may read it before it begins."""
        number = self.number(storage)
        return number not in self.written and not self.born[number]

    def advanced(self, step: Tensor) -> Cell:
        """Add 1 to a counter, now and at each replay; the number that it reaches.

        Counters that agree have one cell, and a check that they still agree.
        """
        check_write(step)
        storage, host = step._array.storage, step._array.host()
        number = self.number(storage)
        count = self._counted[number] = self._counted.get(number, 0) + 1
        start = float(host) + 1 - count
        alike = self._leaders.setdefault((start, count), [])
        if not alike and count == 1:
            self.checks.append(lambda: len({one.item() for one in alike}) == 1)
        alike.append(host)
        leader = alike[0]
        key = ("count", id(leader), count)
        cell = self._tape.cell(key, start + count, lambda values: float(leader.item() + count))
        host += 1
        written(step)
        self._advances.append((host, storage, cell.position))
        return cell

    def step_over(self) -> None:
        """Let a replay advance here the counters that were advanced since the last time."""
        advances, self._advances, tape = self._advances, [], self._tape

        def advance() -> None:
            values = tape.values
            for host, storage, position in advances:
                host.fill(values[position])
                storage.version += 1

        if advances and not self._idle:
            self.instructions.append(Instruction("host", advance, (None,), ()))

    def put_off(self, reason: str) -> None:
        """Record the next call instead of this one."""
        self.broken, self.postponed = reason, True

    def give_up(self, reason: str) -> None:
        """Stop recording; RuntimeError where the caller asked for a whole graph."""
        file, line = user_line()
        self.broken = f"{reason}, at {file}:{line}"
        if self.strict:
            raise RuntimeError(
                f"torch.compile(fullgraph=True): {self.broken}. Return the tensor and read it "
                "outside, or compile without fullgraph: the function then runs eagerly."
            )

    @property
    def _idle(self) -> bool:
        return self._paused or self.broken is not None

    def _write(
        self, kind: str, call: Any, given: tuple[Any, ...], outs: tuple[Place, ...], runner: Any
    ) -> None:
        self.written.update(o.storage for o in outs)
        self.instructions.append(Instruction(kind, call, given, outs, runner))
