"""A plan in words: a table, a drawing, who works when, and what was assumed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ember.devices.amounts import size
from ember.devices.planning.machines import LINKS, described

BAR = 24  # characters of a full memory


def explained(plan: Any) -> str:
    """All of it, one part after another."""
    parts = [headline(plan), table(plan), picture(plan), plan.timeline(), times(plan)]
    parts.append("Assumed:\n" + "\n".join(f"- {line}" for line in assumptions(plan)))
    return "\n\n".join(parts)


def headline(plan: Any) -> str:
    """What is planned, in a line."""
    count, batch = plan.micro_batches, plan.batch
    work = "A step" if plan.question.training else "A forward pass"
    stages = len(plan.found.parts)
    used = len(plan.found.stages)
    how = f"{stages} stages on {used} devices" if stages > 1 else "on one device"
    split = f", {count} micro-batches of {-(-batch // count)}, {plan.schedule}" if count > 1 else ""
    return f"{work} of batch {batch} on {described(plan.machine)}: {how}{split}"


def ranges(names: Sequence[str]) -> str:
    """Names of parts, those that differ in a last number as a range: layers.0-5."""
    found: list[list[str]] = []
    for name in names:
        head, _, last = name.rpartition(".")
        if found and last.isdigit():
            before = found[-1][-1].rpartition(".")
            if before[0] == head and before[2].isdigit() and int(before[2]) + 1 == int(last):
                found[-1].append(name)
                continue
        found.append([name])
    return ", ".join(
        run[0] if len(run) == 1 else f"{run[0]}-{run[-1].rpartition('.')[2]}" for run in found
    )


def names_of(plan: Any, atoms: Sequence[int]) -> str:
    """The parts of some atoms."""
    return ranges([plan.found.recorded.atoms[a].name for a in atoms])


def seconds(value: float) -> str:
    """A time in the unit that suits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return "0 s" if value <= 0 else f"{value / 1e-9:.3g} ns"


def table(plan: Any) -> str:
    """By device: what it holds, how full it is at most, how long it works."""
    rows = [
        ("device", "weights", "gradients", "state", "the rest", "at most", "of", "fw", "bw", "busy")
    ]
    busy = plan.utilisation
    for stage in plan.found.stages:
        place = plan.machine.places[stage.place]
        peak = plan.found.peaks[stage.place]
        amounts = (peak.weights, peak.gradients, peak.state, peak.rest, peak.bytes, place.memory)
        spent = seconds(stage.forward), seconds(stage.backward) if plan.question.training else "-"
        rows.append(
            (place.device, *(size(a) for a in amounts), *spent, f"{busy[place.device]:.0%}")
        )
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    lines = [
        "  ".join(
            f"{cell:<{w}}" if c == 0 else f"{cell:>{w}}"
            for c, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join([*lines, *_treated(plan)])


def _treated(plan: Any) -> list[str]:
    words = {
        "recompute": "activations are computed again in backward",
        "offload": "activations wait on the host",
        "host": "weights stay on the host, with their gradients and optimizer state",
    }
    by_kind: dict[str, list[str]] = {}
    for name, kinds in plan.treatments.items():
        for kind in kinds.split("+"):
            by_kind.setdefault(kind, []).append(name)
    return [f"{ranges(names)}: {words[kind]}" for kind, names in by_kind.items()]


def picture(plan: Any) -> str:
    """The stages in order, with the bytes that go over each cut."""
    lines = []
    parts = plan.found.parts
    for position, part in enumerate(parts):
        place = plan.machine.places[part.place]
        peak = plan.found.peaks[part.place]
        filled = min(round(BAR * peak.bytes / place.memory), BAR)
        bar = "█" * filled + "░" * (BAR - filled)
        lines.append(f"{place.device:<8} {bar}  {names_of(plan, part.atoms)}")
        if position < len(parts) - 1:
            both = "there and back" if plan.question.training else "over"
            lines.append(f"   │ {size(part.crossing)} of a micro-batch {both}")
    return "\n".join(lines)


def times(plan: Any) -> str:
    """The predicted step."""
    found = plan.found
    ends = max((span.end for span in found.spans), default=0.0)
    mean = sum(plan.utilisation.values()) / max(len(plan.utilisation), 1)
    line = f"Predicted: {seconds(found.seconds)} a step"
    if plan.question.training:
        line += f", {seconds(found.optimizer_seconds)} of it the optimizer's"
    return (
        f"{line}; devices work {mean:.0%} of the other {seconds(ends)}. "
        f"Found in {plan.planning_seconds:.1f} s."
    )


def assumptions(plan: Any) -> list[str]:
    """What the prediction rests on."""
    lines = list(plan.machine.assumptions)
    lines.append(
        "a call takes its launch and the longer of its bytes and its operations at those rates; "
        "copies to and from the host go beside the work"
    )
    if any(p.guessed for p in plan.machine.places) or plan.machine.link in LINKS:
        lines.append("all memory is the plan's: a real GPU's driver and libraries take some of it")
    if plan.question.training and plan.question.loss is None:
        lines.append("the loss is the sum of the output (loss= says otherwise)")
    return lines


def grouped(plan: Any) -> list[tuple[str, list[Any]]]:
    """The parts by device, in the order of the forward pass."""
    return [
        (plan.machine.places[place].device, list(parts))
        for place, parts in itertools.groupby(plan.found.parts, key=lambda part: part.place)
    ]
