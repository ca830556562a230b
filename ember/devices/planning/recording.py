"""One training step of a micro-batch run without data: what each part of the model computes, keeps
and hands on."""

from __future__ import annotations

import bisect
import gc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ember.backends.sim.backend import rounded
from ember.core.modes import set_grad_enabled
from ember.core.node import _sequence
from ember.core.tensor import Tensor
from ember.device import META
from ember.devices.fit import _sum_of, meta_copy
from ember.devices.memory import MemoryTracker
from ember.devices.planning.treatment import Treated
from ember.devices.planning.units import Unit, units_of
from ember.devices.planning.work import work_of
from ember.kernel.array import Array, Storage
from ember.nn.parameter import Parameter
from ember.overrides import TorchFunctionMode
from ember.pytree import tree_leaves, tree_map

FORWARD, BACKWARD, STEP = range(3)


class Atom:
    """A part of the forward pass that is not cut: one call of a module, or the ops from one
    weight of a module to the next."""

    def __init__(self, number: int, unit: Unit):
        self.number, self.unit = number, unit
        self.forward: list[tuple[float, float, bool]] = []  # operations, bytes, in half precision
        self.backward: list[tuple[float, float, bool]] = []
        self.kept = 0  # bytes of one micro-batch between its forward and its backward
        self.extra = 0  # bytes at most on top of those, while it works

    @property
    def name(self) -> str:
        """As the program would write it."""
        return self.unit.name


class Event(NamedTuple):
    """Memory taken (or given back, negative) while an atom worked."""

    phase: int
    atom: int
    bytes: int
    made_in: int  # the atom that took it
    made_phase: int
    kind: str


class Hand(NamedTuple):
    """A value that later atoms use: who made it, who uses it last, how many bytes."""

    maker: int
    users: tuple[int, ...]
    bytes: int
    trained: bool


class Recording(MemoryTracker):
    """Follows one model through forward, backward and optimizer step on `meta`."""

    def __init__(self, units: list[Unit]):
        super().__init__()
        self.atoms: list[Atom] = []
        self._owners: dict[int, list[Unit]] = {}
        for unit in units:
            for tensor in unit.tensors:
                if unit.module is None and not isinstance(tensor, Parameter):
                    continue  # a buffer of a module that is cut hops as other values do
                self._owners.setdefault(id(tensor._array.storage), []).append(unit)
        self._free = Unit("the input", None, [])
        self._stamps_of: list[tuple[int, int]] = []
        self.moments: list[tuple[int, int, int]] = []  # (events so far, phase, atom)
        self._hands: dict[int, list[Any]] = {}
        self._back_atom = self._first = 0

    # which atom works

    def enter(self, unit: Unit) -> None:
        """A module that is not cut is about to run."""
        if self.phase != "forward":
            return
        if self.atoms and self.atoms[-1].unit is self._free:
            self.atoms[-1].unit = unit
            return
        self.atoms.append(Atom(len(self.atoms), unit))
        self._stamps_of.append((next(_sequence), len(self.atoms) - 1))
        self._mark()

    def _atom(self) -> int:
        phase = self._phase_number()
        if phase == FORWARD:
            if not self.atoms:
                self.enter(self._free)
            return len(self.atoms) - 1
        return self._back_atom if phase == BACKWARD else -1

    def _phase_number(self) -> int:
        return {"forward": FORWARD, "backward": BACKWARD}.get(self.phase, STEP)

    def _mark(self) -> None:
        now = (len(self.events), self._phase_number(), self._atom())
        if not self.moments or self.moments[-1][1:] != now[1:]:
            self.moments.append(now)

    def _run_node(self, node: Any, grads: list[Any]) -> list[Any]:
        position = bisect.bisect_left(self._stamps_of, (node.sequence, 0)) - 1
        self._back_atom = self._stamps_of[max(position, 0)][1] if self._stamps_of else 0
        self._mark()
        return super()._run_node(node, grads)

    def _follow_weights(self, operands: tuple[Any, ...]) -> None:
        for operand in tree_leaves(operands):
            if isinstance(operand, Array):
                owners = self._owners.get(id(operand.storage))
                if owners and not (self.atoms and self.atoms[-1].unit in owners):
                    self.enter(owners[0])

    # the executor

    def run(self, call: Any, runner: Any, operands: tuple[Any, ...]) -> Any:
        """Run a call, and note its work and what it uses."""
        if self.phase == "forward":
            self._follow_weights(operands)
            self._note_uses(operands)
        self._mark()
        number = self._atom()
        if number >= 0:
            atom = self.atoms[number]
            (atom.forward if self.phase == "forward" else atom.backward).append(work_of(call))
        inner = self.inner
        made = runner(*operands) if inner is None else inner.run(call, runner, operands)
        if not call.writes:
            for out in made if isinstance(made, tuple) else (made,):
                if isinstance(out, Array):
                    self._new(out.storage, call.name)
        return made

    def _note_uses(self, operands: tuple[Any, ...]) -> None:
        now = self._atom()
        for operand in tree_leaves(operands):
            if not isinstance(operand, Array):
                continue
            known = self.live.get(id(operand.storage))
            block = None if known is None or known[0]() is not operand.storage else known[1]
            if block is None or block.kind != "activations" or block.line == now:
                continue
            hand = self._hands.setdefault(id(block), [block, set(), 0, True])
            hand[1].add(now)
            hand[2] = max(hand[2], operand.spec.nbytes)
            hand[3] = operand.spec.dtype.is_floating_point

    def _new(self, storage: Storage, made_by: str) -> None:
        known = self.live.get(id(storage))
        if known is not None and known[0]() is storage:
            return
        kind = "activations" if self.phase == "forward" else "workspace"
        self._add(storage, kind, made_by, ("", self._atom(), ""))  # the atom in place of a line

    # what was found

    def begin(self) -> None:
        """From here on memory counts: what came before was there before the step."""
        self._first = len(self.events)

    def handed_on(self) -> list[Hand]:
        """The values that passed from an atom to others."""
        return [
            Hand(block.line, tuple(sorted(users)), nbytes, trained)
            for block, users, nbytes, trained in self._hands.values()
        ]

    def timeline(self) -> list[Event]:
        """The memory events of the step, each with the atom that worked."""
        starts = [m[0] for m in self.moments]
        found = []
        phases = {"forward": FORWARD, "backward": BACKWARD}
        for position in range(self._first, len(self.events)):
            change, block = self.events[position]
            moment = self.moments[max(bisect.bisect_right(starts, position) - 1, 0)]
            born = phases.get(block.phase, STEP)
            found.append(Event(moment[1], moment[2], change, block.line, born, block.kind))
        return found


class _Anywhere(TorchFunctionMode):
    """Moves that a program writes into its forward mean nothing to a recording."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The function, or what is left of a move."""
        kept = without_move(func, args, kwargs or {})
        return func(*kept[0], **kept[1]) if kept is not None else args[0]


def without_move(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The arguments of a function without the device that it moves to; None if nothing is left of
    it."""
    name = getattr(func, "__name__", "")
    if name in ("cuda", "cpu", "pin_memory") and args and isinstance(args[0], Tensor):
        return None
    if name == "to" and len(args) + len(kwargs) > 1 and not isinstance(args[-1], Tensor):
        kind = type(META)
        rest = [a for a in args[1:] if not isinstance(a, (kind, str, int)) or isinstance(a, bool)]
        named = {k: v for k, v in kwargs.items() if k not in ("device", "non_blocking")}
        if not [a for a in rest if a is not None and not isinstance(a, bool)] and not any(
            k != "copy" for k in named
        ):
            return None
        return (args[0], *rest), named
    return args, kwargs


class Recorded(NamedTuple):
    """What a recording has found of one micro-batch."""

    batch: int
    atoms: list[Atom]
    events: list[Event]
    hands: list[Hand]
    state: dict[str, int]  # bytes of optimizer state by parameter
    step_extra: int  # bytes at most that the optimizer takes for its work
    training: bool

    def crossing(self) -> np.ndarray:
        """Bytes that cross a cut after each atom, one way."""
        found = np.zeros(len(self.atoms) + 1)
        for hand in self.hands:
            found[hand.maker : max(hand.users)] += hand.bytes
        return found[: len(self.atoms)]


def record(
    model: Any,
    sample: Any,
    batch: int,
    split: Callable[[Any], Any],
    optimizer: Any,
    loss: Any,
    training: bool,
    treatments: dict[str, str],
    fine: frozenset[str] = frozenset(),
) -> Recorded:
    """Run a step of a copy without data; `split` makes the sample a micro-batch on `meta`, and
    `treatments` says by unit what is done with its activations."""
    copied = meta_copy(model)
    units = units_of(copied, fine)
    recording = Recording(units)
    for unit in units:
        if unit.module is not None:
            _watch(unit, recording, treatments.get(unit.name, "keep"))
    data = split(sample)
    collects = gc.isenabled()
    gc.disable()
    try:
        return _run(copied, data, batch, recording, optimizer, loss, training)
    finally:
        if collects:
            gc.enable()


def _watch(unit: Unit, recording: Recording, treatment: str) -> None:
    forward = unit.module.forward
    treated = Treated(forward, treatment, unit.tensors)

    def watched(*args: Any, **kwargs: Any) -> Any:
        recording.enter(unit)
        return treated(*args, **kwargs)

    unit.module.forward = watched


def _run(
    model: Any, data: Any, batch: int, recording: Recording, optimizer: Any, loss: Any, train: bool
) -> Recorded:
    named = list(model.named_parameters())
    stepper: Any = None
    with recording:
        tensors = [t for t in tree_leaves(data) if isinstance(t, Tensor)]
        recording.adopt(tensors, "inputs")
        recording.adopt([*model.parameters(), *model.buffers()], "weights")
        recording.begin()
        with META, _Anywhere(), set_grad_enabled(train):
            output = model(**data) if isinstance(data, dict) else model(*data)
            value = (loss or _sum_of)(output) if train else None
        del output
        if value is not None:
            value.backward()
            del value
            recording.adopt([p.grad for _, p in named if p.grad is not None], "gradients")
        if train and optimizer is not None:
            stepper = optimizer([p for _, p in named if p.requires_grad])
            stepper.step()  # which makes the optimizer's state
            made = len(recording.events)
            stepper.step()
    events = recording.timeline()
    _summarise(recording.atoms, events)
    state = {} if stepper is None else _state_bytes(named, stepper)
    extra = 0 if stepper is None else _highest([e[0] for e in recording.events[made:]])
    return Recorded(batch, recording.atoms, events, recording.handed_on(), state, extra, train)


def _state_bytes(named: list[tuple[str, Any]], stepper: Any) -> dict[str, int]:
    found = {}
    for name, parameter in named:
        tensors = tree_leaves(dict(stepper.state.get(parameter, {})))
        found[name] = sum(
            rounded(t._array.storage.nbytes)
            for t in tensors
            if isinstance(t, Tensor) and t.device.type == "meta"
        )
    return found


def _highest(changes: list[int]) -> int:
    return int(max(np.cumsum(changes), default=0)) if changes else 0


def _summarise(atoms: list[Atom], events: list[Event]) -> None:
    """Bytes that each atom keeps, and takes on top while it works."""
    now = [[0, 0] for _ in atoms]  # by atom: alive, most
    for event in events:
        if event.phase == STEP or event.atom < 0:
            continue
        own = now[event.atom]
        if event.phase == FORWARD:
            if event.made_phase == FORWARD and 0 <= event.made_in < len(atoms):
                atoms[event.made_in].kept += event.bytes
        if event.kind != "gradients":
            own[0] += event.bytes
            own[1] = max(own[1], own[0])
        if event.phase == BACKWARD and event.bytes < 0 and event.made_phase == FORWARD:
            own[0] = max(own[0], 0)
    for atom, (_, most) in zip(atoms, now, strict=True):
        atom.extra = max(most - atom.kept, 0)


def on_meta(sample: Any, old: int, new: int) -> Any:
    """The sample's first `new` of `old` rows, without data."""

    def changed(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        shape = list(value.shape)
        if shape and shape[0] == old:
            shape[0] = new
        made = value.detach().to("meta").new_empty(shape, dtype=value.dtype)
        return made.requires_grad_(value.requires_grad)

    return tree_map(changed, sample)
