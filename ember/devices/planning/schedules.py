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
    adding: float = 0.0  # of the backward: what the first micro-batch has no gradients to add to

    def of(self, action: Action) -> float:
        """Seconds of an action."""
        if action.kind == "F":
            return self.forward
        first = action.micro_batch == 0
        return max(self.backward - self.adding, 0.0) if first else self.backward


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
    schedule: str,
    devices: Sequence[int],
    micro_batches: int,
    training: bool = True,
    costs: Sequence[Costs] | None = None,
) -> dict[int, list[Action]]:
    """What each device does, in order, where stage s is on `devices[s]`; `costs` decide only where
    a device has several stages.

    >>> [str(a) for a in orders("1F1B", [0, 1], 3)[0]]
    ['0F0', '0F1', '0B0', '0F2', '0B1', '0B2']
    """
    count = len(devices)
    if len(set(devices)) < count and training:
        costs = costs or [Costs(1.0, 2.0, 0.0)] * count
        return _as_ready(schedule, devices, micro_batches, costs)
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


def _as_ready(
    schedule: str, devices: Sequence[int], micro_batches: int, costs: Sequence[Costs]
) -> dict[int, list[Action]]:
    """Orders where a device has several stages: it does what is ready first, and of several things
    a backward first (1F1B) or last (GPipe)."""
    count = len(devices)
    ends: dict[Action, float] = {}
    free = dict.fromkeys(devices, 0.0)
    held = [0] * count
    found: dict[int, list[Action]] = {device: [] for device in free}
    first = "F" if schedule == "GPipe" else "B"
    for _ in range(2 * count * micro_batches):
        ready = []
        for action in _next_actions(ends, count, micro_batches):
            stage = action.stage
            if action.kind == "F" and held[stage] >= in_flight(
                schedule, stage, count, micro_batches
            ):
                continue
            needed = _needs(action, count)
            arrived = 0.0 if needed is None else ends[needed] + _hop(action, needed, costs)
            start = max(free[devices[stage]], arrived)
            ready.append((start, action.kind != first, action.micro_batch, -stage, action))
        start, _, _, _, action = min(ready)
        ends[action] = free[devices[action.stage]] = start + costs[action.stage].of(action)
        held[action.stage] += 1 if action.kind == "F" else -1
        found[devices[action.stage]].append(action)
    return found


def _next_actions(ends: dict[Action, float], stages: int, micro_batches: int) -> list[Action]:
    """What is not done and waits for nothing."""
    found = []
    for stage in range(stages):
        for kind in "FB":
            for micro_batch in range(micro_batches):
                action = Action(kind, stage, micro_batch)
                if action not in ends:  # micro-batches of a stage keep their order
                    needed = _needs(action, stages)
                    if needed is None or needed in ends:
                        found.append(action)
                    break
    return found


def _needs(action: Action, stages: int) -> Action | None:
    kind, stage, micro_batch = action
    if kind == "F":
        return Action("F", stage - 1, micro_batch) if stage else None
    if stage == stages - 1:
        return Action("F", stage, micro_batch)
    return Action("B", stage + 1, micro_batch)


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
                length = stages[action.stage].of(action)
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
