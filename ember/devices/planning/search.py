"""The search for a plan: numbers of micro-batches, of devices, their order, and where to cut."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ember.backends.sim.backend import rounded
from ember.devices.planning.costs import Rates
from ember.devices.planning.machines import Machine
from ember.devices.planning.partition import Fitting, Problem, Short, Stage, Weights, balanced
from ember.devices.planning.peaks import Peak, amounts, peaks
from ember.devices.planning.recording import Recorded, on_meta, record
from ember.devices.planning.schedules import (
    Costs,
    Span,
    in_flight,
    length,
    orders,
    timeline,
)
from ember.devices.planning.units import units_of
from ember.nn.parameter import Parameter

LATENCY = 10e-6  # seconds that a copy between devices takes beside its bytes
HOST_BANDWIDTH = 20e9  # bytes a second of the host's memory, where its optimizer works


class Question(NamedTuple):
    """What is to be planned."""

    model: Any
    sample: Any
    batch: int
    machine: Machine
    rates: list[Rates]
    optimizer: Any
    loss: Any
    training: bool
    schedule: str
    may: tuple[str, ...]


class Part(NamedTuple):
    """A run of atoms on one device, as the forward passes through it."""

    place: int
    atoms: tuple[int, ...]
    costs: Costs
    crossing: float  # bytes of a micro-batch that go on to the next part


class Found(NamedTuple):
    """A plan that fits."""

    micro_batches: int
    recorded: Recorded
    weights: list[Weights]
    stages: list[Stage]
    parts: list[Part]
    spans: list[Span]
    optimizer_seconds: float
    peaks: dict[int, Peak]

    @property
    def seconds(self) -> float:
        """Of a step."""
        return length(self.spans) + self.optimizer_seconds


class Recordings:
    """A micro-batch of each size, recorded once."""

    def __init__(self, question: Question, fine: frozenset[str]):
        self.question, self.fine = question, fine
        self._known: dict[Any, Recorded] = {}

    def of(self, micro_batches: int, treatments: dict[str, str] | None = None) -> Recorded:
        """The recording of one of so many micro-batches."""
        q = self.question
        size = -(-q.batch // micro_batches)
        key = (size, tuple(sorted((treatments or {}).items())))
        if key not in self._known:
            found = record(
                q.model,
                q.sample,
                size,
                lambda sample: on_meta(sample, q.batch, size),
                None if self._known else q.optimizer,
                q.loss,
                q.training,
                treatments or {},
                self.fine,
            )
            if self._known:  # the optimizer's state is the same for every batch
                first = next(iter(self._known.values()))
                found = found._replace(state=first.state, step_extra=first.step_extra)
            self._known[key] = found
        return self._known[key]


def problem_of(question: Question, recorded: Recorded) -> Problem:
    """The parts of a recorded step with their weights, and which of them belong together."""
    names = {id(t._array.storage): n for n, t in question.model.named_parameters()}
    found: list[Weights] = []
    home: list[int] = []
    first: dict[str, int] = {}
    units = units_by_name(question)
    for atom in recorded.atoms:
        sums = [0, 0, 0, 0]
        mine = atom.number
        for tensor in units(atom.name):
            storage = tensor._array.storage
            key = str(id(storage))
            if key in first:
                mine = min(mine, home[first[key]] if first[key] < len(home) else first[key])
                continue
            first[key] = atom.number
            sums[0] += rounded(storage.nbytes)
            if question.training and tensor.requires_grad:
                sums[1] += rounded(storage.nbytes)
                sums[3] += 1
                sums[2] += recorded.state.get(names.get(id(storage), ""), 0)
        found.append(Weights(*sums))
        home.append(mine)
    modules = [atom.unit.module is not None for atom in recorded.atoms]
    several = question.training and recorded.batch < question.batch
    return Problem(
        recorded, found, question.machine, question.rates, home, modules, question.may, several
    )


def units_by_name(question: Question) -> Callable[[str], list[Any]]:
    """The tensors of a unit of the model itself."""

    def tensors(name: str) -> list[Any]:
        owner, _, last = name.rpartition(".")
        try:
            module = question.model.get_submodule(owner)
        except AttributeError:
            return []
        for table in (module._parameters, module._buffers):
            if table.get(last) is not None:
                return [table[last]]
        child = module._modules.get(last)
        return [] if child is None else [*child.parameters(), *child.buffers()]

    return tensors


def parts_of(fitting: Fitting, stages: list[Stage]) -> list[Part]:
    """The runs of atoms in the order of the forward pass."""
    problem = fitting.problem
    stage_of = {a: s for s in stages for a in s.atoms}
    runs = [
        (stage, tuple(atoms))
        for stage, atoms in itertools.groupby(
            range(len(problem.recorded.atoms)), key=lambda a: stage_of[a]
        )
    ]
    found = []
    for position, (stage, atoms) in enumerate(runs):
        times = sum(
            fitting.times_of(a, stage.place, stage.treatments.get(a, "keep"), a in stage.on_host)
            for a in atoms
        )
        last = position == len(runs) - 1
        crossing = 0.0 if last else float(fitting.crossing[atoms[-1]])
        speed = problem.machine.link_speed
        if not last:
            pair = {stage.place, runs[position + 1][0].place}
            if any(problem.machine.places[p].device == "cpu" for p in pair):
                speed = problem.machine.host_speed
        hop = 0.0 if last else crossing / speed + LATENCY
        adding = sum(fitting.adding[stage.place][a] for a in atoms if a not in stage.on_host)
        costs = Costs(float(times[0]), float(times[1]), hop, float(adding))
        found.append(Part(stage.place, atoms, costs, crossing))
    return found


def optimizer_seconds(problem: Problem, stages: list[Stage]) -> float:
    """The slowest device's optimizer step: it reads weights, gradients and state, and writes."""
    slowest = 0.0
    for stage in stages:
        here = there = 0.0
        for atom in stage.atoms:
            sizes = problem.weights[atom]
            moved = 2 * sizes.weights + sizes.gradients + 2 * sizes.state
            if atom in stage.on_host:
                there += moved
            elif sizes.gradients:
                here += moved
        bandwidth = problem.rates[stage.place].bandwidth
        slowest = max(slowest, here / bandwidth + there / HOST_BANDWIDTH)
    return slowest


def rows_of(question: Question, parts: list[Part], micro_batches: int) -> Any:
    """What each place does, in order."""
    places = [p.place for p in parts]
    costs = [p.costs for p in parts]
    return orders(question.schedule, places, micro_batches, question.training, costs)


def searched(
    question: Question, recordings: Recordings, choices: list[int], usable: list[float]
) -> tuple[list[tuple[float, int, list[Stage]]], float]:
    """(seconds, micro-batches, stages) of every plan that fits, the fastest first; and, if none
    does, at least how many bytes are missing."""
    found: list[tuple[float, int, list[Stage]]] = []
    missing = float("inf")
    for count in choices:
        problem = problem_of(question, recordings.of(count))
        fitting = Fitting(problem, usable)
        for places in _device_orders(question.machine, usable, len(fitting.runs)):
            stages = balanced(fitting, places, _held(question, problem, places, count))
            if stages is None:
                continue
            parts = parts_of(fitting, stages)
            spans = timeline(rows_of(question, parts, count), [p.costs for p in parts])
            seconds = length(spans)
            if question.training:
                seconds += optimizer_seconds(problem, stages)
            # An equal time with fewer devices, or fewer micro-batches, is the better one.
            found.append((seconds, count, stages))
        if not found:
            missing = min(missing, _missing(fitting, question, problem))
    found.sort(key=lambda f: (f[0], len(f[2]), f[1]))
    return found, missing


def _held(
    question: Question, problem: Problem, places: list[int], count: int
) -> Callable[[int], int]:
    if not question.training:
        return lambda stage: 1
    returns = any(home != a for a, home in enumerate(problem.home)) and len(places) > 1
    stages = len(places) + returns

    def held(stage: int) -> int:
        return in_flight(question.schedule, stage, stages, count)

    return held


def _device_orders(machine: Machine, usable: list[float], atoms: int) -> Iterator[list[int]]:
    """Runs of places to try: as given, and the largest first or last."""
    places = list(range(len(machine.places)))
    most = min(len(places), atoms)
    seen = set()
    for order in (
        places,
        sorted(places, key=lambda p: -usable[p]),
        sorted(places, key=lambda p: usable[p]),
    ):
        for count in _counts(most):
            kinds = tuple((usable[p], machine.places[p].figures) for p in order[:count])
            if kinds not in seen:
                seen.add(kinds)
                yield order[:count]


def _counts(most: int) -> list[int]:
    """Numbers of devices to try: all up to 4, then some."""
    return [n for n in range(1, most + 1) if n <= 4 or n == most or n in (most // 2, most * 3 // 4)]


def _missing(fitting: Fitting, question: Question, problem: Problem) -> float:
    """Bytes that all devices together lack, or that the largest part lacks alone."""
    least = 0.0
    for position in range(len(fitting.runs)):
        lacks = []
        for place in range(len(question.machine.places)):
            stage = fitting.stage(position, position + 1, place, 1)
            lacks.append(stage.missing if isinstance(stage, Short) else 0.0)
        least = max(least, min(lacks))
    whole = sum(w.all for w in problem.weights) - sum(fitting.usable)
    return max(least, whole)


def verified(question: Question, recordings: Recordings, count: int, stages: list[Stage]) -> Found:
    """The plan with its peaks, replayed from a recording in which its remedies are at work."""
    plain = recordings.of(count)
    names = {plain.atoms[a].name: t for s in stages for a, t in s.treatments.items()}
    recorded = recordings.of(count, names) if names else plain
    problem = problem_of(question, plain)
    fitting = Fitting(problem, [float("inf")] * len(question.machine.places))
    parts = parts_of(fitting, stages)
    rows = rows_of(question, parts, count)
    spans = timeline(rows, [p.costs for p in parts])
    stage_of = [0] * len(recorded.atoms)
    for position, part in enumerate(parts):
        for atom in part.atoms:
            stage_of[atom] = position
    fixed = {s.place: _fixed(problem, s) for s in stages}
    on_host = frozenset[int]().union(*(s.on_host for s in stages))
    sizes = amounts(recorded, stage_of, len(parts), on_host)
    found = peaks(sizes, rows, fixed, recorded.step_extra)
    loose = _loose(question, recordings.fine)
    found = {
        p: peak._replace(bytes=peak.bytes + loose + _room(problem, stages, p))
        for p, peak in found.items()
    }
    seconds = optimizer_seconds(problem, stages) if question.training else 0.0
    return Found(count, recorded, problem.weights, stages, parts, spans, seconds, found)


def _loose(question: Question, fine: frozenset[str]) -> int:
    """Bytes of buffers that belong to no part, of which every device has a copy in time."""
    units = [u for u in units_of(question.model, fine) if u.module is None]
    return sum(rounded(t.nbytes) for u in units for t in u.tensors if not isinstance(t, Parameter))


def _fixed(problem: Problem, stage: Stage) -> tuple[int, int, int]:
    own = [problem.weights[a] for a in stage.atoms if a not in stage.on_host]
    return (
        sum(w.weights for w in own),
        sum(w.gradients for w in own),
        sum(w.state for w in own),
    )


def _room(problem: Problem, stages: list[Stage], place: int) -> int:
    """Bytes for the weights that come from the host: one part's, and the next one's."""
    sizes = [problem.weights[a].weights for s in stages if s.place == place for a in s.on_host]
    return sum(sorted(sizes)[-2:])
