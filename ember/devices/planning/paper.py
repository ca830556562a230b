"""What if: data, tensor and pipeline parallel on machines that are not here, to thousands of GPUs.

Two micro-batches, of one row and of two, are recorded without data, and everything else is
arithmetic. A step of M micro-batches over P pipeline stages takes (M + P - 1) times the slowest
stage, the all-reduces of tensor parallel layers in it, the hops between stages, then the
all-reduce of gradients over the data parallel copies, 2(D - 1)/D of their bytes (rings), and the
optimizer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ember.core.tensor import Tensor
from ember.devices.amounts import size
from ember.devices.planning.costs import LAUNCH, Rates
from ember.devices.planning.explain import seconds
from ember.devices.planning.machines import LINKS, Machine, parse
from ember.devices.planning.recording import Recorded, on_meta, record
from ember.devices.planning.search import Question, problem_of
from ember.errors import check
from ember.optim.adamw import AdamW
from ember.pytree import tree_leaves

BANDWIDTH = 0.8  # of the published bytes a second that kernels reach
HOP = 5e-6  # seconds that one step of a ring, or a hop, takes beside its bytes


class Split(NamedTuple):
    """One way to use the GPUs, with what it takes."""

    data: int
    tensor: int
    pipeline: int
    micro_batches: int
    rows: int  # of a micro-batch
    recompute: bool
    sharded: bool  # optimizer state split over the data parallel copies
    seconds: float
    bytes: float  # of a GPU's memory
    useful: float  # the part of the GPUs' peak operations that the model needs

    @property
    def gpus(self) -> int:
        """How many it uses."""
        return self.data * self.tensor * self.pipeline

    def __str__(self) -> str:
        extra = ["recompute"] * self.recompute + ["split optimizer state"] * self.sharded
        return (
            f"{self.data} data x {self.tensor} tensor x {self.pipeline} pipeline, "
            f"{self.micro_batches} micro-batches of {self.rows}"
            + "".join(f", {word}" for word in extra)
        )


class Parts:
    """The atoms of a model as arrays, for any number of rows."""

    def __init__(self, one: Recorded, two: Recorded, weights: list[Any], narrow: bool):
        half = 0.5 if narrow else 1.0
        self.forward = [_calls(a.forward, b.forward) for a, b in _pairs(one, two)]
        self.backward = [_calls(a.backward, b.backward) for a, b in _pairs(one, two)]
        self.kept = half * _line([a.kept for a in one.atoms], [a.kept for a in two.atoms])
        self.extra = half * _line([a.extra for a in one.atoms], [a.extra for a in two.atoms])
        self.crossing = half * _line(one.crossing(), two.crossing())
        self.weights = half * np.array([w.weights for w in weights], float)
        self.gradients = half * np.array([w.gradients for w in weights], float)
        # With narrow weights the optimizer keeps a wide copy of them.
        self.state = np.array([w.state + (w.weights if narrow else 0) for w in weights], float)
        self.half = half

    def operations(self) -> float:
        """Of a row, forward and backward."""
        return sum(float(c[0, 0].sum()) for c in (*self.forward, *self.backward) if c.size)

    def times(self, rows: int, tensor: int, rates: Rates) -> np.ndarray:
        """Seconds of each atom, forward and backward, with its weights split over `tensor` GPUs."""
        return np.array(
            [
                [self._time(calls, rows, tensor, rates) for calls in pair]
                for pair in zip(self.forward, self.backward, strict=True)
            ]
        )

    def _time(self, calls: np.ndarray, rows: int, tensor: int, rates: Rates) -> float:
        if not calls.size:
            return 0.0
        operations, moved = calls[0] + (rows - 1) * calls[1]
        moved = np.maximum(moved, 0) * self.half
        work = np.maximum(operations / rates.flops, moved / rates.bandwidth) / tensor
        return float(work.sum() + operations.size * rates.overhead)


def _pairs(one: Recorded, two: Recorded) -> Any:
    return zip(one.atoms, two.atoms, strict=True)


def _calls(one: list[Any], two: list[Any]) -> np.ndarray:
    """[value at one row, growth by row] x [operations, bytes] x call."""
    if not one or len(one) != len(two):
        return np.zeros(0)
    first, second = (np.array([c[:2] for c in calls], float).T for calls in (one, two))
    return np.array([first, second - first])


def _line(one: Any, two: Any) -> np.ndarray:
    first, second = np.array(one, float), np.array(two, float)
    return np.array([first, second - first])


class Paper:
    """The answer of `what_if`: every split that fits, the fastest first; `str` of it is a table."""

    def __init__(self, machine: Machine, batch: int, splits: list[Split], notes: list[str]):
        self.machine, self.batch, self.splits, self.notes = machine, batch, splits, notes
        self.too_large: Split | None = None  # if none fits, the one that needs least memory
        self.searched, self.spent = 0, 0.0

    @property
    def best(self) -> Split:
        """The fastest split. RuntimeError that says what is missing if none fits."""
        if not self.splits:
            least, memory = self.too_large, self.machine.places[0].memory
            raise RuntimeError(
                f"what_if: nothing fits on {self.machine.text}"
                + (f": {least} needs {size(least.bytes)} of {size(memory)}" if least else "")
            )
        return self.splits[0]

    def distinct(self) -> list[Split]:
        """The fastest split for each number of data, tensor and pipeline parallel GPUs."""
        found: dict[tuple[int, int, int], Split] = {}
        for split in self.splits:
            found.setdefault((split.data, split.tensor, split.pipeline), split)
        return list(found.values())

    def __str__(self) -> str:
        memory = self.machine.places[0].memory
        lines = [f"{self.machine.text}, a step of batch {self.batch}:"]
        if not self.splits:
            least = self.too_large
            lines.append("nothing fits" + (f"; nearest: {least}" if least else ""))
            if least is not None:
                lines.append(f"which needs {size(least.bytes)} of {size(memory)} on each GPU")
        else:
            rows = [("a step", "rows/s", "of peak", "memory", "split")]
            for split in self.distinct()[:8]:
                rows.append(
                    (
                        seconds(split.seconds),
                        f"{self.batch / split.seconds:,.0f}",
                        f"{split.useful:.0%}",
                        size(split.bytes),
                        str(split),
                    )
                )
            widths = [max(len(r[c]) for r in rows) for c in range(4)]
            lines += [
                "  ".join([*(f"{cell:>{w}}" for cell, w in zip(r, widths, strict=False)), r[4]])
                for r in rows
            ]
        lines.append(f"{self.searched:,} splits compared in {self.spent:.1f} s. Assumed:")
        return "\n".join([*lines, *(f"- {note}" for note in self.notes)])


def what_if(
    model: Any,
    sample: Any,
    machine: str,
    *,
    batch: int | None = None,
    node: int = 8,
    network: str = "infiniband",
    precision: str = "bfloat16",
    efficiency: float = 0.5,
    optimizer: Any = AdamW,
    loss: Callable[[Any], Tensor] | None = None,
) -> Paper:
    """Splits of a training step over equal GPUs that need not be there, the fastest first.

    `machine` is as for `plan`: "1024x80GiB:H100@nvlink". `batch` rows make a step (default: the
    sample's for each GPU). `node` GPUs share the link, others the `network`. `precision` is
    "bfloat16" (narrow weights, gradients and activations, a wide copy in the optimizer) or
    "float32"; `efficiency` is the part of the published operations that kernels reach. The
    answer's `notes` say what was assumed. ValueError for what is not understood.

    >>> import ember as torch
    >>> net = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8)))
    >>> torch.devices.what_if(net, torch.ones(32, 512), "4xA100").best.gpus
    4
    """
    start = time.perf_counter()
    there = parse(machine)
    check(
        len({(p.memory, p.figures) for p in there.places}) == 1,
        ValueError,
        f"what_if: GPUs that differ ({machine!r}) are plan()'s business",
    )
    check(precision in ("bfloat16", "float32"), ValueError, f"what_if: no precision {precision!r}")
    check(network in LINKS, ValueError, f"what_if: no network {network!r}: there are {list(LINKS)}")
    count, rows = len(there.places), _rows(sample)
    batch = rows * count if batch is None else batch
    parts, trained = _parts(model, sample, there, optimizer, loss, precision)
    found = Paper(there, batch, [], _notes(there, node, network, precision, efficiency))
    figures = there.places[0].figures
    flops = figures.half_flops if precision == "bfloat16" else figures.flops
    rates = Rates(flops * efficiency, flops * efficiency, figures.bandwidth * BANDWIDTH, LAUNCH)
    whole = parts.operations() * batch / (count * flops)
    for shape in _shapes(count, batch, node, len(trained)):
        for split in _priced(parts, there, shape, rates, (node, LINKS[network]), whole):
            found.searched += 1
            if split.bytes <= there.places[0].memory:
                found.splits.append(split)
            elif found.too_large is None or split.bytes < found.too_large.bytes:
                found.too_large = split
    found.splits.sort(key=lambda s: (s.seconds, s.bytes))
    found.spent = time.perf_counter() - start
    return found


def _rows(sample: Any) -> int:
    tensors = [t for t in tree_leaves(sample) if isinstance(t, Tensor) and t.ndim]
    check(tensors, ValueError, "what_if: the sample has no tensor with a batch dim")
    return int(tensors[0].shape[0])


def _parts(
    model: Any, sample: Any, machine: Machine, optimizer: Any, loss: Any, precision: str
) -> tuple[Parts, list[Any]]:
    sample = sample if isinstance(sample, (tuple, list, dict)) else (sample,)
    rows = _rows(sample)

    def of(count: int) -> Recorded:
        def split(tree: Any) -> Any:
            return on_meta(tree, rows, count)

        return record(model, sample, count, split, optimizer, loss, True, {})

    one, two = of(1), of(2)
    rates = [Rates(1.0, 1.0, 1.0, 0.0)]
    question = Question(model, sample, rows, machine, rates, optimizer, loss, True, "1F1B", ())
    weights = problem_of(question, one).weights
    wide = all(p.dtype.itemsize >= 4 for p in model.parameters())
    return Parts(one, two, weights, precision == "bfloat16" and wide), one.atoms


def _shapes(
    gpus: int, batch: int, node: int, atoms: int
) -> Iterator[tuple[int, int, int, int, int]]:
    """(data, tensor, pipeline, micro-batches, rows) that use all GPUs."""
    for tensor in _divisors(min(node, gpus)):
        if gpus % tensor:
            continue
        for pipeline in _divisors(gpus // tensor):
            data = gpus // tensor // pipeline
            if pipeline > atoms or batch % data:
                continue
            for rows in _divisors(batch // data):
                if rows <= 64:
                    yield data, tensor, pipeline, batch // data // rows, rows


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _priced(
    parts: Parts, machine: Machine, shape: Any, rates: Rates, around: tuple[int, float],
    whole: float,
) -> Iterator[Split]:  # fmt: skip
    data, tensor, pipeline, count, rows = shape
    node, network = around
    near = machine.link_speed
    far = near if data * tensor * pipeline <= node else network
    growth = rows - 1
    crossing = parts.crossing[0] + growth * parts.crossing[1]
    times = parts.times(rows, tensor, rates)
    if tensor > 1:  # two all-reduces of what a part hands on, each way
        ring = 2 * (2 * (tensor - 1) / tensor * crossing / near + 2 * (tensor - 1) * HOP)
        times = times + np.where(parts.weights > 0, ring, 0.0)[:, None]
    held = min(count, pipeline)
    kept = (parts.kept[0] + growth * parts.kept[1]) / tensor
    extra = (parts.extra[0] + growth * parts.extra[1]) / tensor
    for again in (False, True):
        spent = times[:, 0] * (2 if again else 1) + times[:, 1]
        edges = _cut(spent, pipeline)
        slowest = max(spent[a:b].sum() for a, b in edges)
        hop = max((crossing[b - 1] for _, b in edges[:-1]), default=0.0) / far + HOP
        step = (count + pipeline - 1) * slowest + 2 * (pipeline - 1) * hop
        for sharded in (False, True) if data > 1 else (False,):
            memory = grads = moved = 0.0
            for a, b in edges:
                own = [x[a:b].sum() / tensor for x in (parts.weights, parts.gradients)]
                state = parts.state[a:b].sum() / tensor / (data if sharded else 1)
                acts = crossing[a:b].sum() if again else kept[a:b].sum()
                room = extra[a:b].max() + (kept[a:b].max() if again else 0.0)
                memory = max(memory, sum(own) + state + held * acts + room)
                grads = max(grads, own[1])
                moved = max(moved, 2 * own[0] + own[1] + 2 * state)
            reduce = 2 * (data - 1) / data * grads / far + 2 * (data - 1) * HOP * (data > 1)
            total = step + reduce + moved / rates.bandwidth
            yield Split(
                data, tensor, pipeline, count, rows, again, sharded, float(total), float(memory),
                whole / float(total),
            )  # fmt: skip


def _cut(spent: np.ndarray, pieces: int) -> list[tuple[int, int]]:
    """Runs of atoms, of which the slowest takes as little as can be."""
    low, high = float(spent.max()), float(spent.sum())
    best: list[tuple[int, int]] = []
    for _ in range(30):
        middle = (low + high) / 2
        edges = _packed(spent, middle)
        if len(edges) <= pieces:
            best, high = edges, middle
        else:
            low = middle
    best = best or _packed(spent, high * (1 + 1e-9))
    while len(best) < pieces:  # equal times may leave some without work: share what there is
        widest = max(range(len(best)), key=lambda i: best[i][1] - best[i][0])
        a, b = best[widest]
        best[widest : widest + 1] = [(a, (a + b) // 2), ((a + b) // 2, b)]
    return best


def _packed(spent: np.ndarray, most: float) -> list[tuple[int, int]]:
    edges, start, total = [], 0, 0.0
    for position, value in enumerate(spent):
        if position > start and total + value > most:
            edges.append((start, position))
            start, total = position, 0.0
        total += value
    return [*edges, (start, len(spent))]


def _notes(
    machine: Machine, node: int, network: str, precision: str, efficiency: float
) -> list[str]:
    lines = list(machine.assumptions)
    count = len(machine.places)
    if count > node:
        lines.append(
            f"{node} GPUs in a machine; {network} between machines: "
            f"{LINKS[network] / 1e9:.0f} GB/s each way for each GPU"
        )
    launch, hop = LAUNCH * 1e6, HOP * 1e6
    lines.append(
        f"{precision}; kernels reach {efficiency:.0%} of the published operations and "
        f"{BANDWIDTH:.0%} of the bytes; a call takes {launch:.0f} us, a step of a ring {hop:.0f} us"
    )
    lines.append(
        "tensor parallel splits the work and memory of every part evenly, and adds two "
        "all-reduces of what it hands on, forward and backward; it stays inside a machine"
    )
    lines.append("pipelines are 1F1B; no all-reduce of gradients goes beside the backward")
    lines.append("all memory is the plan's: a GPU's driver and libraries take some of it")
    return lines
