"""Who works when: the orders of GPipe and 1F1B, and the timeline that follows from durations.

GPipe (Huang et al., 2019) runs all micro-batches forward and then all backward. 1F1B (Narayanan et
al., 2019) alternates as soon as it can, so that stage s of S holds at most S - s micro-batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ember.errors import check

NAMES = {"gpipe": "GPipe", "1f1b": "1F1B"}


class Action(NamedTuple):
    """One micro-batch forward ("F") or backward ("B") through one stage."""

    kind: str
    stage: int
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.micro_batch}"


class Span(NamedTuple):
    """An action on a device, from one time to another, in seconds."""

    device: int
    action: Action
    start: float
    end: float


class Costs(NamedTuple):
    """Seconds that a stage takes for a micro-batch, and that its result takes to the next one."""

    forward: float
    backward: float
    transfer: float


def named(schedule: str) -> str:
    """The schedule's name as PyTorch writes it. ValueError for one that there is not."""
    found = NAMES.get(str(schedule).lower().removeprefix("schedule"))
    if found is None:
        raise ValueError(
            f"Unknown schedule name {schedule!r}: there are {', '.join(NAMES.values())}"
        )
    return found


def in_flight(schedule: str, stage: int, stages: int, micro_batches: int) -> int:
    """How many micro-batches a stage holds at most between forward and backward."""
    return micro_batches if schedule == "GPipe" else min(micro_batches, stages - stage)


def orders(
    schedule: str, devices: Sequence[int], micro_batches: int, training: bool = True
) -> dict[int, list[Action]]:
    """What each device does, in order, where stage s is on `devices[s]`.

    >>> [str(a) for a in orders("1F1B", [0, 1], 3)[0]]
    ['0F0', '0F1', '0B0', '0F2', '0B1', '0B2']
    """
    count = len(devices)
    if len(set(devices)) < count and training:
        return _by_turns(schedule, devices, micro_batches)
    found: dict[int, list[Action]] = {}
    for stage, device in enumerate(devices):
        forwards = [Action("F", stage, m) for m in range(micro_batches)]
        backwards = [Action("B", stage, m) for m in range(micro_batches)] if training else []
        early = in_flight(schedule, stage, count, micro_batches) if training else micro_batches
        row = forwards[:early]
        for position, backward in enumerate(backwards):
            row.append(backward)
            row += forwards[early + position : early + position + 1]
        found.setdefault(device, []).extend(row)
    if len(set(devices)) < count:
        for row in found.values():
            row.sort(key=lambda a: (a.micro_batch, a.stage))
    return found


def _by_turns(schedule: str, devices: Sequence[int], micro_batches: int) -> dict[int, list[Action]]:
    """Orders where a device has several stages: in each turn every device does what is ready, a
    backward first (1F1B) or last (GPipe)."""
    count = len(devices)
    done: set[Action] = set()
    held = [0] * count
    found: dict[int, list[Action]] = {d: [] for d in dict.fromkeys(devices)}
    everything = [
        Action(kind, s, m) for m in range(micro_batches) for s in range(count) for kind in "FB"
    ]
    while len(done) < len(everything):
        turn = []
        for device, row in found.items():
            ready = [
                a
                for a in everything
                if a not in done and devices[a.stage] == device and _ready(a, done, count)
            ]
            ready = [
                a
                for a in ready
                if a.kind == "B"
                or held[a.stage] < in_flight(schedule, a.stage, count, micro_batches)
            ]
            if schedule == "GPipe":
                ready.sort(key=lambda a: (a.kind == "B", a.micro_batch, -a.stage))
            else:
                ready.sort(key=lambda a: (a.kind == "F", a.micro_batch, -a.stage))
            if ready:
                row.append(ready[0])
                turn.append(ready[0])
        for action in turn:
            done.add(action)
            held[action.stage] += 1 if action.kind == "F" else -1
    return found


def _needs(action: Action, stages: int) -> Action | None:
    kind, stage, micro_batch = action
    if kind == "F":
        return Action("F", stage - 1, micro_batch) if stage else None
    if stage == stages - 1:
        return Action("F", stage, micro_batch)
    return Action("B", stage + 1, micro_batch)


def _ready(action: Action, done: set[Action], stages: int) -> bool:
    needed = _needs(action, stages)
    return needed is None or needed in done


def timeline(
    rows: dict[int, list[Action]], stages: Sequence[Costs], spent: dict[Action, float] | None = None
) -> list[Span]:
    """When each action starts and ends if every device does its row in order, each action as soon
    as what it needs has arrived. `spent` has measured durations to be used instead."""
    ends: dict[Action, float] = {}
    free = dict.fromkeys(rows, 0.0)
    position = dict.fromkeys(rows, 0)
    found: list[Span] = []
    left = sum(len(row) for row in rows.values())
    while left:
        before = left
        for device, row in rows.items():
            while position[device] < len(row):
                action = row[position[device]]
                needed = _needs(action, len(stages))
                if needed is not None and needed not in ends:
                    break
                start = free[device]
                if needed is not None:
                    hop = _hop(action, needed, stages)
                    start = max(start, ends[needed] + hop)
                costs = stages[action.stage]
                length = costs.forward if action.kind == "F" else costs.backward
                length = length if spent is None else spent.get(action, length)
                ends[action] = free[device] = start + length
                found.append(Span(device, action, start, start + length))
                position[device] += 1
                left -= 1
        check(left < before, RuntimeError, "a schedule whose devices wait for one another")
    return sorted(found, key=lambda span: (span.start, span.action.stage))


def _hop(action: Action, needed: Action, stages: Sequence[Costs]) -> float:
    if action.stage == needed.stage:
        return 0.0
    return stages[min(action.stage, needed.stage)].transfer


def length(spans: Sequence[Span]) -> float:
    """Seconds from the first start to the last end."""
    return max((span.end for span in spans), default=0.0)


def busy(spans: Sequence[Span]) -> dict[int, float]:
    """The part of the time in which each device works, 0 to 1."""
    whole = length(spans) or 1.0
    sums: dict[int, float] = {}
    for span in spans:
        sums[span.device] = sums.get(span.device, 0.0) + span.end - span.start
    return {device: total / whole for device, total in sorted(sums.items())}


def drawn(spans: Sequence[Span], names: dict[int, str], width: int = 72) -> str:
    """The timeline as text: a row for each device, a letter for each micro-batch, small in forward
    and large in backward, a dot where nothing is done."""
    whole = length(spans) or 1.0
    wide = max((len(name) for name in names.values()), default=0)
    lines = []
    for device, name in names.items():
        row = ["."] * width
        for span in spans:
            if span.device != device:
                continue
            letter = chr(ord("a") + span.action.micro_batch % 26)
            letter = letter if span.action.kind == "F" else letter.upper()
            first = int(span.start / whole * width)
            last = max(int(span.end / whole * width), first + 1)
            row[first:last] = [letter] * (min(last, width) - first)
        lines.append(f"{name:<{wide}} {''.join(row)}")
    return "\n".join(lines)
