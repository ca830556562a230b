"""The memory of each device over a step, replayed from a recording in the order of a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ember.backends.sim.backend import rounded
from ember.devices.planning.recording import BACKWARD, FORWARD, Recorded
from ember.devices.planning.schedules import Action


class Amounts(NamedTuple):
    """Bytes that a stage takes, in order, while it works; negative ones are given back."""

    forward: list[int]
    first_backward: list[int]  # of a step: gradients stay
    backward: list[int]  # gradients are added to what is there


class Peak(NamedTuple):
    """The most bytes that a device holds, and what they are."""

    bytes: int
    weights: int
    gradients: int
    state: int

    @property
    def rest(self) -> int:
        """Activations and workspace."""
        return self.bytes - self.weights - self.gradients - self.state


def amounts(
    recorded: Recorded, stage_of: Sequence[int], stages: int, on_host: frozenset[int]
) -> list[Amounts]:
    """What each stage takes for one micro-batch, where atom a belongs to stage `stage_of[a]`, and
    gradients of the atoms `on_host` leave at once."""
    forward: list[list[int]] = [[] for _ in range(stages)]
    backward: list[list[tuple[int, bool, bool]]] = [[] for _ in range(stages)]
    late = [0] * stages
    for hand in recorded.hands:
        for stage in {stage_of[u] for u in hand.users} - {stage_of[hand.maker]}:
            size = rounded(hand.bytes)
            forward[stage].append(size)
            if recorded.training:
                late[stage] -= size
                if hand.trained:  # its gradient comes back
                    backward[stage_of[hand.maker]].append((size, False, False))
                    late[stage_of[hand.maker]] -= size
    for event in recorded.events:
        here = stage_of[event.atom] if event.atom >= 0 else stages - 1
        made = stage_of[event.made_in] if event.made_in >= 0 else here
        if event.phase == FORWARD:
            if event.bytes > 0 or made == here or not recorded.training:
                forward[here if event.bytes > 0 else made].append(event.bytes)
            else:
                late[made] += event.bytes  # held until its gradient has come
        elif event.phase == BACKWARD:
            gradient = event.kind == "gradients"
            if event.bytes > 0 or made == here:
                backward[here].append((event.bytes, gradient, event.made_in in on_host))
            elif event.made_phase == FORWARD:
                late[made] += event.bytes
            else:
                backward[made].append((event.bytes, gradient, event.made_in in on_host))
    found = []
    for stage in range(stages):
        first: list[int] = []
        later: list[int] = []
        for size, gradient, leaves in backward[stage]:
            first += [size, -size] if gradient and leaves else [size]
            later += [size, -size] if gradient else [size]
        found.append(Amounts(forward[stage], [*first, late[stage]], [*later, late[stage]]))
    return found


def peaks(
    stages: Sequence[Amounts],
    rows: dict[int, list[Action]],
    fixed: dict[int, tuple[int, int, int]],
    step_extra: int,
) -> dict[int, Peak]:
    """The peak of each device whose row of actions is given; `fixed` has its bytes of weights,
    gradients and optimizer state."""
    found = {}
    for device, row in rows.items():
        weights, gradients, state = fixed[device]
        now = most = 0
        seen: set[int] = set()
        started: dict[tuple[int, int], int] = {}
        for action in row:
            amount = stages[action.stage]
            before = now
            key = (action.stage, action.micro_batch)
            if action.kind == "F":
                changes = amount.forward
            else:
                changes = amount.backward if action.stage in seen else amount.first_backward
            for change in changes:
                now += change
                most = max(most, now)
            if action.kind == "F":
                started[key] = now - before
            else:  # what a micro-batch took is gone after its backward, but for the gradients
                stays = 0 if action.stage in seen else _gradients_of(amount)
                now = before - started.pop(key, 0) + stays
                seen.add(action.stage)
        step = gradients + step_extra if any(a.kind == "B" for a in row) else 0
        found[device] = Peak(weights + state + max(most, step), weights, gradients, state)
    return found


def _gradients_of(amount: Amounts) -> int:
    return sum(amount.first_backward) - sum(amount.backward)
