"""Where to cut: dynamic programming over the atoms of a recording.

A stage is a run of atoms on one device. `Fitting` says what a stage would take there and, where
its memory is short, what is computed again or waits on the host instead. `cut` finds, among all
ways to cut whose slowest stage takes at most so long, the one over whose cuts the fewest bytes go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ember.devices.planning.costs import Rates, seconds
from ember.devices.planning.machines import Machine
from ember.devices.planning.recording import Recorded

MOST_RUNS = 48  # between which a model may be cut


class Weights(NamedTuple):
    """Bytes of an atom's weights, their gradients and the optimizer's state of them."""

    weights: int
    gradients: int
    state: int
    count: int = 0  # of tensors with gradients

    @property
    def all(self) -> int:
        """Together."""
        return self.weights + self.gradients + self.state


class Stage(NamedTuple):
    """A run of atoms on a device: seconds of a micro-batch, bytes, and what is done to fit."""

    atoms: tuple[int, ...]
    place: int
    forward: float
    backward: float
    bytes: float
    treatments: dict[int, str]
    on_host: frozenset[int]


class Short(NamedTuple):
    """A stage that does not fit whatever is done: bytes that are missing."""

    missing: float


class Problem(NamedTuple):
    """What is known of the parts of a step."""

    recorded: Recorded
    weights: list[Weights]
    machine: Machine
    rates: list[Rates]  # by place
    home: list[int]  # for each atom the first one that it shares weights with
    modules: list[bool]  # whether an atom is a module, whose activations can be treated
    may: tuple[str, ...]  # which remedies may be used: recompute, offload, host
    accumulates: bool  # whether gradients are added up over micro-batches

    @property
    def base(self) -> list[int]:
        """The atoms that are placed; the others go where those are that they share weights with."""
        return [a for a, home in enumerate(self.home) if home == a]


class Fitting:
    """Stages of a problem, each worked out once."""

    def __init__(self, problem: Problem, usable: list[float]):
        self.problem, self.usable = problem, usable
        atoms = problem.recorded.atoms
        self.crossing = problem.recorded.crossing()
        adding = [
            [(0.0, 3.0 * w.gradients / w.count, False)] * w.count
            if problem.accumulates and w.count
            else []
            for w in problem.weights
        ]
        self._times = [
            np.array(
                [
                    [seconds(r, a.forward), seconds(r, a.backward + more)]
                    for a, more in zip(atoms, adding, strict=True)
                ]
            )
            for r in problem.rates
        ]
        self.adding = [[seconds(r, more) for more in adding] for r in problem.rates]
        self._members: dict[int, list[int]] = {}
        for atom, home in enumerate(problem.home):
            self._members.setdefault(home, []).append(atom)
        base = problem.base
        size = -(-len(base) // MOST_RUNS)  # of a very long model a few atoms are not parted
        self.runs = [base[i : i + size] for i in range(0, len(base), size)]
        self._kinds = [
            next(q for q in range(p + 1) if self._alike(p, q)) for p in range(len(usable))
        ]
        self._known: dict[tuple[int, int, int, int], Stage | Short] = {}
        self._known_times: dict[tuple[int, int, str, bool], np.ndarray] = {}
        self._tables: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def _alike(self, one: int, other: int) -> bool:
        rates = self.problem.rates
        return self.usable[one] == self.usable[other] and rates[one] == rates[other]

    def arriving(self, run: int) -> float:
        """Bytes that come to a run from those before it."""
        first = self.runs[run][0]
        return float(self.crossing[first - 1]) if first else 0.0

    def stage(self, first: int, last: int, place: int, held: int) -> Stage | Short:
        """Runs `first` to `last` (exclusive) on a place that holds `held` micro-batches."""
        key = (first, last, self._kinds[place], held)
        if key not in self._known:
            base = [b for run in self.runs[first:last] for b in run]
            atoms = sorted(a for b in base for a in self._members[b])
            self._known[key] = self._worked_out(atoms, base, place, held)
        found = self._known[key]
        return found if isinstance(found, Short) else found._replace(place=place)

    def table(self, place: int, held: int) -> tuple[np.ndarray, np.ndarray]:
        """(seconds, whether it fits as it is) of every stage, [first, last]."""
        key = (self._kinds[place], held)
        if key not in self._tables:
            self._tables[key] = self._tabled(place, held)
        return self._tables[key]

    def _tabled(self, place: int, held: int) -> tuple[np.ndarray, np.ndarray]:
        problem, count = self.problem, len(self.runs)
        own = [[a for b in run for a in self._members[b]] for run in self.runs]
        sums = np.zeros((3, count + 1))  # seconds, bytes that stay, bytes of a micro-batch
        extra = np.zeros(count)
        for run, atoms in enumerate(own):
            sums[0, run + 1] = self._times[place][atoms].sum()
            sums[1, run + 1] = sum(problem.weights[a].all for a in atoms)
            sums[2, run + 1] = sum(problem.recorded.atoms[a].kept for a in atoms)
            extra[run] = max(problem.recorded.atoms[a].extra for a in atoms)
        sums = sums.cumsum(axis=1)
        spent, fixed, kept = (line[None, :] - line[:, None] for line in sums)
        widest = np.zeros((count + 1, count + 1))
        for first in range(count):
            widest[first, first + 1 :] = np.maximum.accumulate(extra[first:])
        arriving = np.array([*(self.arriving(r) for r in range(count)), 0.0])
        leaving = np.array([0.0, *(self.crossing[run[-1]] for run in self.runs)])
        need = fixed + held * (kept + arriving[:, None]) + leaving[None, :]
        need += np.maximum(widest, problem.recorded.step_extra)
        return spent, need <= self.usable[place]

    def times_of(
        self, atom: int, place: int, treatment: str = "keep", hosted: bool = False
    ) -> np.ndarray:
        """Seconds of an atom forward and backward, with what is done to make it fit."""
        key = (atom, self._kinds[place], treatment, hosted)
        if key not in self._known_times:
            self._known_times[key] = self._times_with(atom, place, treatment, hosted)
        return self._known_times[key]

    def _times_with(self, atom: int, place: int, treatment: str, hosted: bool) -> np.ndarray:
        forward, backward = self._times[place][atom]
        speed = self.problem.machine.host_speed
        if treatment == "recompute":
            backward += forward
        elif treatment == "offload":  # the copies go beside the work
            moved = self.problem.recorded.atoms[atom].kept / speed
            forward, backward = max(forward, moved), max(backward, moved)
        if hosted:
            sizes = self.problem.weights[atom]
            forward = max(forward, sizes.weights / speed)
            backward = max(backward, (sizes.weights + sizes.gradients) / speed)
        return np.array([forward, backward])

    def _worked_out(
        self, atoms: list[int], base: list[int], place: int, held: int
    ) -> Stage | Short:
        problem = self.problem
        infos = [problem.recorded.atoms[a] for a in atoms]
        times = self._times[place][atoms].sum(axis=0)
        fixed = sum(problem.weights[a].all for a in atoms)
        arriving = self.crossing[base[0] - 1] if base[0] else 0
        kept = sum(a.kept for a in infos)
        extra = max((a.extra for a in infos), default=0)
        need = fixed + held * (kept + arriving) + self.crossing[base[-1]]
        need += max(extra, problem.recorded.step_extra)
        usable = self.usable[place]
        treatments: dict[int, str] = {}
        on_host: set[int] = set()
        if need > usable:
            need, times = self._treat(atoms, place, held, need, times, treatments)
        if need > usable and "host" in problem.may:
            need, times = self._leave_on_host(atoms, place, need, times, treatments, on_host)
        if need > usable:
            return Short(need - usable)
        return Stage(tuple(atoms), place, times[0], times[1], need, treatments, frozenset(on_host))

    def _treat(
        self, atoms: list[int], place: int, held: int, need: float, times: np.ndarray, found: dict
    ) -> tuple[float, np.ndarray]:
        """Compute activations again, or move them to the host, the cheapest byte first."""
        problem = self.problem
        offers = []
        for atom in atoms:
            info, plain = problem.recorded.atoms[atom], self.times_of(atom, place)
            saved = held * (info.kept - min(self.crossing[atom], info.kept))
            if saved <= 0 or not problem.modules[atom]:
                continue
            ways = [n for n in ("recompute", "offload") if n in problem.may]
            more = {n: self.times_of(atom, place, n) - plain for n in ways}
            if ways:
                name = min(ways, key=lambda n: more[n].sum())
                offers.append((more[name].sum() / saved, atom, name, saved, more[name]))
        widest = 0
        for _, atom, name, saved, cost in sorted(offers, key=lambda offer: offer[:2]):
            if need <= self.usable[place]:
                break
            kept = problem.recorded.atoms[atom].kept
            need += max(kept - widest, 0) - saved  # one at a time is whole again
            widest = max(widest, kept)
            times = times + cost
            found[atom] = name
        return need, times

    def _leave_on_host(
        self,
        atoms: list[int],
        place: int,
        need: float,
        times: np.ndarray,
        treatments: dict[int, str],
        found: set[int],
    ) -> tuple[float, np.ndarray]:
        """Leave weights on the host, the largest first, and fetch them for each micro-batch."""
        problem = self.problem
        own = [a for a in atoms if problem.home[a] == a and problem.modules[a]]
        own = [a for a in own if all(m == a for m in self._members[a])]
        largest = 0
        for atom in sorted(own, key=lambda a: -problem.weights[a].all):
            if need <= self.usable[place]:
                break
            sizes = problem.weights[atom]
            room = 2 * sizes.weights + sizes.gradients  # this one, the next one, a gradient
            need += max(room - largest, 0) - sizes.all
            largest = max(largest, room)
            plain = self.times_of(atom, place, treatments.get(atom, "keep"))
            hosted = self.times_of(atom, place, treatments.get(atom, "keep"), True)
            times = times + hosted - plain
            found.add(atom)
        return need, times


def cut(
    fitting: Fitting, places: list[int], held: Callable[[int], int], slowest: float
) -> list[Stage] | None:
    """The stages on `places`, in this order, over whose cuts the fewest bytes go while none takes
    longer than `slowest` seconds for a micro-batch; None if there are none."""
    count, stages = len(fitting.runs), len(places)
    best = np.full((stages + 1, count + 1), np.inf)
    came = np.zeros((stages + 1, count + 1), int)
    best[0, 0] = 0.0
    arriving = np.array([*(fitting.arriving(r) for r in range(count)), 0.0])
    before = np.tri(count + 1, k=-1).T > 0  # a stage has something in it
    for s in range(1, stages + 1):
        place, holds = places[s - 1], held(s - 1)
        spent, fits = fitting.table(place, holds)
        reach = best[s - 1] + arriving
        ways = np.where(before & fits & (spent <= slowest), reach[:, None], np.inf)
        best[s], came[s] = ways.min(axis=0), ways.argmin(axis=0)
        open_ways = before & ~fits & (spent <= slowest) & np.isfinite(reach)[:, None]
        for last in range(1, count + 1):
            for first in np.flatnonzero(open_ways[:, last])[::-1]:
                stage = fitting.stage(int(first), last, place, holds)
                if isinstance(stage, Short) or stage.forward + stage.backward > slowest:
                    break  # longer ones need more still
                if reach[first] < best[s, last]:
                    best[s, last], came[s, last] = reach[first], first
    if best[stages, count] == np.inf:
        return None
    found: list[Stage] = []
    last = count
    for s in range(stages, 0, -1):
        first = int(came[s, last])
        stage = fitting.stage(first, last, places[s - 1], held(s - 1))
        assert isinstance(stage, Stage)
        found.append(stage)
        last = first
    return found[::-1]


def balanced(
    fitting: Fitting, places: list[int], held: Callable[[int], int], slack: float = 1.05
) -> list[Stage] | None:
    """The best cut whose slowest stage is within `slack` of the fastest that there is."""
    loosest = cut(fitting, places, held, np.inf)
    if loosest is None:
        return None
    high = max(s.forward + s.backward for s in loosest)
    low, best = 0.0, loosest
    for _ in range(12):
        middle = (low + high) / 2
        found = cut(fitting, places, held, middle)
        if found is None:
            low = middle
        else:
            best, high = found, max(s.forward + s.backward for s in found)
        if high - low < 0.01 * high:
            break
    return cut(fitting, places, held, high * slack) or best
