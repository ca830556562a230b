"""`plan`: where the parts of a model go, what is done so that they fit, and the step that runs
them."""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

from ember.core.tensor import Tensor
from ember.cuda.devices import backend, device_count, is_available
from ember.device import CPU
from ember.device import device as Device
from ember.devices.amounts import size
from ember.devices.planning.costs import is_simulated, published, this_machine
from ember.devices.planning.machines import described, parse
from ember.devices.planning.passes import Pass, stopped_at_exit
from ember.devices.planning.placing import FORWARDS, Applied, Assignment
from ember.devices.planning.schedules import Action, Span, busy, drawn, length, named, timeline
from ember.devices.planning.search import (
    Found,
    Question,
    Recordings,
    rows_of,
    searched,
    verified,
)
from ember.devices.planning.units import units_of
from ember.errors import check
from ember.nn.modules.module import Module
from ember.optim.adamw import AdamW
from ember.pytree import tree_leaves, tree_map

REMEDIES = ("recompute", "offload", "host")


class Plan:
    """Where each part of a model goes and what a step takes; made by `plan`.

    `apply` moves a model, `step` trains it in micro-batches of which several are on their way at
    a time, `explain` is a table and a drawing as text, `drawing` the same as SVG.
    """

    def __init__(self, question: Question, found: Found, seconds: float, fine: frozenset[str]):
        self.question, self.found, self.planning_seconds = question, found, seconds
        self.machine, self.schedule = question.machine, question.schedule
        self.micro_batches, self.batch = found.micro_batches, question.batch
        self._fine = fine
        self._applied: Applied | None = None
        self._devices: list[Device] = []
        self.measured: list[Span] | None = None  # the last step's timeline, by simulated clocks

    # what was found

    @property
    def seconds(self) -> float:
        """Predicted time of a step."""
        return self.found.seconds

    @property
    def measured_seconds(self) -> float:
        """Time of the forwards and backwards of the last `step`, by simulated clocks."""
        check(self.measured is not None, RuntimeError, "plan: no step has been run and measured")
        return length(self.measured or [])

    @property
    def utilisation(self) -> dict[str, float]:
        """The part of a step's forwards and backwards in which each device works, predicted."""
        return self._by_name(busy(self.found.spans))

    @property
    def measured_utilisation(self) -> dict[str, float]:
        """The same of the last `step`, by the clocks of the simulated GPUs."""
        check(self.measured is not None, RuntimeError, "plan: no step has been run and measured")
        return self._by_name(busy(self.measured or []))

    @property
    def peaks(self) -> dict[str, int]:
        """Predicted bytes at most on each device."""
        return {self._name(p): peak.bytes for p, peak in sorted(self.found.peaks.items())}

    @property
    def device_map(self) -> dict[str, str]:
        """The device of each part of the model by its name."""
        atoms, stages = self.found.recorded.atoms, self.found.stages
        placed = {atoms[a].name: self._name(s.place) for s in stages for a in s.atoms}
        return {atom.name: placed[atom.name] for atom in atoms}

    @property
    def treatments(self) -> dict[str, str]:
        """What is done with the parts that do not simply stay: "recompute" or "offload" of their
        activations, "host" where their weights wait on the host."""
        atoms, found = self.found.recorded.atoms, {}
        for stage in self.found.stages:
            for atom in stage.atoms:
                what = [stage.treatments[atom]] if atom in stage.treatments else []
                what += ["host"] if atom in stage.on_host else []
                if what:
                    found[atoms[atom].name] = "+".join(what)
        return found

    def _name(self, place: int) -> str:
        return self.machine.places[place].device

    def _by_name(self, values: dict[int, float]) -> dict[str, float]:
        return {self._name(place): value for place, value in values.items()}

    def timeline(self, measured: bool = False, width: int = 72) -> str:
        """Who works when, as text: a letter for each micro-batch, small in forward and large in
        backward."""
        spans = self.measured if measured else self.found.spans
        check(spans is not None, RuntimeError, "plan: no step has been run and measured")
        names = {p: self._name(p) for p in sorted(self.found.peaks)}
        return drawn(spans or [], names, width)

    def explain(self) -> str:
        """The plan as text: a table, a drawing, the predicted step and what was assumed."""
        return str(importlib.import_module("ember.devices.planning.explain").explained(self))

    def drawing(self) -> str:
        """The plan as an SVG picture that needs nothing else, light and dark."""
        return str(importlib.import_module("ember.devices.planning.drawing").drawing(self))

    def __str__(self) -> str:
        return self.explain()

    def __repr__(self) -> str:
        return (
            f"<Plan: {len(self.found.stages)} of {described(self.machine)}, "
            f"{self.micro_batches} micro-batches, {self.schedule}>"
        )

    # what is done with it

    def apply(self, model: Module) -> Module:
        """Move the model's weights to their places, and let its forward run there; the same object
        is returned, with the same parameters and names in its state dict.

        RuntimeError if this process has not the plan's devices. Losses and gradients are those of
        one device; `undo` gives the model its own forward again.
        """
        needed = {self._name(s.place) for s in self.found.stages}
        gpus = [n for n in needed if n != "cpu"]
        there = device_count() if is_available() else 0
        check(
            all((Device(n).index or 0) < there for n in gpus),
            RuntimeError,
            f"plan: it is for {', '.join(sorted(gpus))}, but this process has {there} GPUs: "
            f"simulate them with `ember run --gpus {len(self.machine.places)} SCRIPT` or "
            f"torch.cuda.simulate({len(self.machine.places)}), or plan for those that are there",
        )
        check(self._applied is None, RuntimeError, "plan: it is applied already; undo() it first")
        self._devices = [Device(p.device) for p in self.machine.places]
        units = units_of(model, self._fine)
        how = self._assignments()
        first = self._devices[self.found.parts[0].place]
        for unit in units:  # what the sample's forward did not use goes to the first device
            how.setdefault(unit.name, Assignment(first))
        self._applied = Applied(model, units, how, first)
        return model

    def _assignments(self) -> dict[str, Assignment]:
        atoms = self.found.recorded.atoms
        found = {}
        for stage in self.found.stages:
            for atom in stage.atoms:
                found[atoms[atom].name] = Assignment(
                    self._devices[stage.place],
                    stage.treatments.get(atom, "keep"),
                    atom in stage.on_host,
                )
        return found

    def undo(self) -> None:
        """Give the model its own forward again; its weights stay where they are."""
        if self._applied is not None:
            self._applied.undo()
            self._applied = None

    def step(
        self,
        loss_fn: Callable[..., Tensor],
        inputs: Any,
        targets: Any = None,
        optimizer: Any = None,
        *,
        mean: bool = True,
    ) -> Tensor:
        """One training step: the batch split into micro-batches, these run by the plan's schedule,
        then `optimizer.step()` and `zero_grad()` if one is given. Returns the loss, detached.

        `inputs` is what the model takes (a tensor, or a tuple or dict of arguments), split along
        dim 0; `loss_fn(output, targets)` or, without targets, `loss_fn(output)` is a mean over the
        batch, or a sum with `mean=False`, so that the gradients are those of the whole batch.
        """
        applied = self._applied_now
        tensors = [t for t in tree_leaves(inputs) if isinstance(t, Tensor) and t.ndim]
        check(tensors, ValueError, "step: the inputs have no tensor with a batch dim")
        batch = int(tensors[0].shape[0])
        bounds = _bounds(batch, self.micro_batches)
        passes: list[Pass] = []
        losses: list[Tensor] = []
        for low, high in bounds:
            rows = _rows(inputs, batch, low, high), _rows(targets, batch, low, high)
            weight = (high - low) / batch if mean else 1.0
            run = _runner(applied.model, loss_fn, *rows, weight, losses)
            devices = [self._devices[p.place] for p in self.found.parts]
            passes.append(Pass(applied.placed, devices, run))
        self._run(passes)
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()
        total = losses[0]
        for loss in losses[1:]:
            total = total + loss.to(total.device)
        return total

    @property
    def _applied_now(self) -> Applied:
        check(self._applied is not None, RuntimeError, "plan: apply it to a model before step()")
        assert self._applied is not None
        return self._applied

    def _run(self, passes: list[Pass]) -> None:
        """All micro-batches, in the order in which the timeline says that they start."""
        question = self.question._replace(training=True)
        rows = rows_of(question, self.found.parts, len(passes))
        costs = [p.costs for p in self.found.parts]
        spent: dict[Action, float] = {}
        with stopped_at_exit(passes):
            for span in timeline(rows, costs):
                action = span.action
                clock = _clock(self._devices[self.found.parts[action.stage].place])
                before = clock()
                one = passes[action.micro_batch]
                (one.advance if action.kind == "F" else one.go_back)(action.stage)
                spent[action] = clock() - before
                self._applied_now.rest()
        self.measured = timeline(rows, costs, spent)


def _runner(
    model: Any, loss_fn: Any, inputs: Any, targets: Any, weight: float, losses: list[Tensor]
) -> Callable[[Any], Tensor]:
    def run(following: Any) -> Tensor:
        output = model(**inputs) if isinstance(inputs, dict) else model(*_tuple(inputs))
        loss = loss_fn(output) if targets is None else loss_fn(output, targets)
        loss = loss * weight
        losses.append(loss.detach())
        return loss

    return run


def _tuple(inputs: Any) -> tuple[Any, ...]:
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


def _bounds(batch: int, parts: int) -> list[tuple[int, int]]:
    """The first and last rows of micro-batches, as even as can be."""
    parts = min(parts, batch)
    edges = [batch * p // parts for p in range(parts + 1)]
    return list(itertools.pairwise(edges))


def _rows(tree: Any, batch: int, low: int, high: int) -> Any:
    def cut(value: Any) -> Any:
        is_batch = isinstance(value, Tensor) and value.ndim and value.shape[0] == batch
        return value[low:high] if is_batch else value

    return tree_map(cut, tree)


def _clock(device: Device) -> Callable[[], float]:
    """The simulated clock of a device, or the host's."""
    if is_simulated(device):
        queue = backend().queue(device.index or 0)
        return lambda: float(queue.now)
    return time.perf_counter


def plan(
    model: Module,
    sample: Any,
    devices: Any = None,
    *,
    training: bool = True,
    optimizer: Any = AdamW,
    loss: Callable[[Any], Tensor] | None = None,
    schedule: str = "1F1B",
    micro_batches: int | None = None,
    remedies: Sequence[str] = REMEDIES,
) -> Plan:
    """Where the parts of a model go on devices that differ, so that a step fits and is fast.

    `sample` is a batch as the model takes it: a tensor, or a tuple or dict of arguments. `devices`
    are those of this process (a list; None: all GPUs) or a machine that need not be there:
    "2x24GiB", "24GiB+8GiB@pcie", "4xA100". `optimizer(parameters)` and `loss(output)` (default:
    the sum) make the step; with `training=False` only the forward counts. `schedule` is "1F1B" or
    "GPipe"; `micro_batches` is searched for if it is None. `remedies` are what may be done where
    memory is short: activations "recompute"d or "offload"ed, weights left on the "host".

    A step is run without data (`meta`) for its bytes and operations. Then the sequence of parts is
    cut by dynamic programming: among the cuts whose slowest device is within 5 % of the best, the
    one over which the fewest bytes go. Tied weights stay together. RuntimeError that says how much
    is missing, and what would do, if nothing fits; ValueError for what is not understood.

    >>> import ember as torch
    >>> net = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(8)))
    >>> found = torch.devices.plan(net, torch.ones(64, 256), "2x4MiB")
    >>> sorted(set(found.device_map.values()))
    ['cuda:0', 'cuda:1']
    """
    start = time.perf_counter()
    question = _asked(model, sample, devices, training, optimizer, loss, schedule, remedies)
    check(
        micro_batches is None or 1 <= micro_batches <= question.batch,
        ValueError,
        f"plan: {micro_batches} micro-batches of a batch of {question.batch}",
    )
    choices = [micro_batches] if micro_batches else _choices(question)
    fine: frozenset[str] = frozenset()
    for _ in range(4):
        recordings = Recordings(question, fine)
        usable = [float(p.memory) for p in question.machine.places]
        found, missing = _best(question, recordings, choices, usable)
        if found is not None:
            return Plan(question, found, time.perf_counter() - start, fine)
        finer = _finer(question, fine, min(usable))
        if finer == fine:
            break
        fine = finer
    raise RuntimeError(_too_large(question, fine, choices, missing))


def _asked(
    model: Any, sample: Any, devices: Any, training: bool, optimizer: Any, loss: Any,
    schedule: str, remedies: Sequence[str],
) -> Question:  # fmt: skip
    check(
        isinstance(model, Module),
        TypeError,
        f"plan: the model must be a torch.nn.Module, not {type(model).__name__}",
    )
    planned = [m for m in model.modules() if isinstance(vars(m).get("forward"), FORWARDS)]
    check(
        not planned,
        RuntimeError,
        "plan: this model follows a plan already: undo() that one first",
    )
    unknown = [r for r in remedies if r not in REMEDIES]
    check(not unknown, ValueError, f"plan: remedies are {', '.join(REMEDIES)}, not {unknown}")
    sample = sample if isinstance(sample, (tuple, list, dict)) else (sample,)
    tensors = [t for t in tree_leaves(sample) if isinstance(t, Tensor) and t.ndim]
    check(tensors, ValueError, "plan: the sample has no tensor with a batch dim")
    if isinstance(devices, str):
        machine = parse(devices)
        rates = [published(p.figures) for p in machine.places]
    else:
        if devices is None:
            check(
                is_available(),
                RuntimeError,
                "plan: this process has no GPU: name a machine, as in plan(model, sample, "
                "'2x24GiB'), or simulate one with torch.cuda.simulate('2x24GiB')",
            )
            devices = [Device("cuda", i) for i in range(device_count())]
        machine, rates = this_machine(devices, _held_now(model))
    batch = int(tensors[0].shape[0])
    return Question(
        model, sample, batch, machine, rates, optimizer, loss, training, named(schedule),
        tuple(remedies),
    )  # fmt: skip


def _held_now(model: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for tensor in {id(t): t for t in (*model.parameters(), *model.buffers())}.values():
        name = str(tensor.device)
        found[name] = found.get(name, 0) + tensor.nbytes
    return {name: count for name, count in found.items() if Device(name) is not CPU}


def _choices(question: Question) -> list[int]:
    """Numbers of micro-batches to try."""
    count = len(question.machine.places)
    wanted = [1] if count == 1 else [1, count, 2 * count, 4 * count]
    return sorted({min(n, question.batch) for n in wanted})


def _best(
    question: Question, recordings: Recordings, choices: list[int], memory: list[float]
) -> tuple[Found | None, float]:
    """The fastest plan whose replayed peaks fit, too."""
    usable = list(memory)
    missing = 0.0
    for _ in range(8):
        candidates, missing = searched(question, recordings, choices, usable)
        if not candidates:
            return None, missing
        _, count, stages = candidates[0]
        found = verified(question, recordings, count, stages)
        over = {p: k.bytes - memory[p] for p, k in found.peaks.items() if k.bytes > memory[p]}
        if not over:
            return found, 0.0
        for place, excess in over.items():  # what the estimate did not see
            usable[place] -= 1.05 * excess
    return None, max(over.values())


def _finer(question: Question, fine: frozenset[str], memory: float) -> frozenset[str]:
    """Cut the parts that are too large for one device into their children."""
    found = set(fine)
    for unit in units_of(question.model, fine):
        if unit.module is None or not list(unit.module.children()):
            continue
        weights = sum(t.nbytes for t in unit.tensors)
        if weights * (4 if question.training else 1) > memory / 2:
            found.add(unit.name)
    return frozenset(found)


def _too_large(question: Question, fine: frozenset[str], choices: list[int], missing: float) -> str:
    """What does not fit, and what would."""
    machine = question.machine
    lines = [
        f"plan: a step with batch {question.batch} does not fit on {described(machine)}"
        + (f": at least {size(missing)} are missing" if 0 < missing < float("inf") else "")
    ]
    left_out = [r for r in REMEDIES if r not in question.may]
    recordings = Recordings(question, fine)
    if left_out:
        allowed = question._replace(may=REMEDIES)
        if searched(allowed, recordings, choices, [p.memory for p in machine.places])[0]:
            lines.append(f"it would with remedies={REMEDIES}")
    factor = 1.0
    for _ in range(24):
        factor *= 1.25
        usable = [p.memory * factor for p in machine.places]
        if searched(question, recordings, choices, usable)[0]:
            per = size(usable[0]) if len(set(usable)) == 1 else f"{factor:.1f} times the memory"
            lines.append(f"the same number of devices with {per} each would do")
            break
    if question.batch > max(choices):
        lines.append("so may smaller micro-batches (micro_batches=) or a smaller batch")
    return "; ".join(lines)
