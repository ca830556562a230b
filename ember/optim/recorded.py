"""A step of an optimizer inside a recording: its updates are recorded like any other work, and the
numbers that change from step to step are cells, asked for again at each replay."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

import numpy as np

from ember.backends.base import kernels_of
from ember.core.modes import no_grad
from ember.core.tensor import Tensor

PLAIN = (bool, str, type(None))


def is_followed(recording: Any, optimizer: Any, hooks: tuple[Any, ...]) -> bool:
    """Whether a replay can take the optimizer's step without its Python: what is not sure is the
    host's business."""
    if recording.tape is None or "_is_recordable" not in vars(type(optimizer)) or any(hooks):
        return False
    for group in optimizer.param_groups:
        if group.get("differentiable"):
            return False
        options = [v for v in _flat(group.values()) if isinstance(v, Tensor)]
        for param in group["params"]:
            if param.grad is not None:
                if id(param) not in recording.leaves or param.grad._array.kind != "strided":
                    return False
                if not _is_on_host(param) and not kernels_of(param.device).takes_slots:
                    return False  # its numbers are arguments of kernels, which a graph keeps
                step = (optimizer.state.get(param) or {}).get("step")
                options += [step] if isinstance(step, Tensor) else []
        if not all(_is_on_host(o) and recording.is_steady(o._array.storage) for o in options):
            return False
    return True


def _is_on_host(tensor: Tensor) -> bool:
    """Whether the host can look at a tensor without a copy."""
    return isinstance(tensor._array.storage.buffer, np.ndarray)


def step(recording: Any, optimizer: Any) -> None:
    """Take a step and have it recorded."""
    before = _states(optimizer)
    with no_grad():
        for number, group in enumerate(optimizer.param_groups):
            view = _with_cells(recording, optimizer, number, group)
            for param in group["params"]:
                if param.grad is not None:
                    state = optimizer.state.get(param) or optimizer._started(param, group)
                    optimizer._update(param, param.grad, state, view)
    recording.step_over()
    after = _states(optimizer)
    if [_identities(s) for _, s in before] != [_identities(s) for _, s in after]:
        recording.put_off("an optimizer makes its state at its first step")
        return
    for _, state in after:
        for value in state.values():
            if isinstance(value, Tensor):
                recording.held.add(id(value._array.storage))
    recording.checks.append(_check(optimizer))


def _flat(values: Any) -> list[Any]:
    return [v for value in values for v in (value if isinstance(value, tuple) else (value,))]


def _states(optimizer: Any) -> list[tuple[Tensor, dict[str, Any]]]:
    """The states of the parameters that a step updates, as they are now."""
    params = [p for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
    return [(p, dict(optimizer.state.get(p) or {})) for p in params]


def _identities(state: dict[str, Any]) -> list[Any]:
    return [
        (name, id(value), id(value._array.storage) if isinstance(value, Tensor) else None)
        for name, value in state.items()
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _with_cells(recording: Any, optimizer: Any, number: int, group: dict[str, Any]) -> Any:
    """A group's options, with cells for its numbers."""
    stays = bool(group.get("capturable"))

    def cell(name: str, index: int | None, value: Any) -> Any:
        if isinstance(value, Tensor) and stays:
            recording.held.add(id(value._array.storage))
        if not _is_number(value) and (stays or not isinstance(value, Tensor)):
            return value

        def ask(values: Any = None) -> float:
            found = optimizer.param_groups[number][name]
            found = found if index is None else found[index]
            return float(found._array.host().item() if isinstance(found, Tensor) else found)

        return recording.tape.cell((id(optimizer), number, name, index), ask(), ask)

    found: dict[str, Any] = {}
    for name, value in group.items():
        if isinstance(value, tuple):
            found[name] = tuple(cell(name, i, v) for i, v in enumerate(value))
        else:
            found[name] = value if name == "params" else cell(name, None, value)
    return found


def _check(optimizer: Any) -> Callable[[], bool]:
    """A check that the optimizer still has its groups, hooks and state."""
    groups = [(g, {**g, "params": list(g["params"])}) for g in optimizer.param_groups]
    dicts = list(optimizer.state.values())
    kept = [value for state in dicts for value in state.values()]
    tensors = [value for value in kept if isinstance(value, Tensor)]
    storages = [tensor._array.storage for tensor in tensors]

    def check() -> bool:
        if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
            return False
        now = optimizer.param_groups
        if len(now) != len(groups) or any(a is not b for a, (b, _) in zip(now, groups)):
            return False
        if not all(_is_alike(group, before) for group, before in groups):
            return False
        found = list(optimizer.state.values())
        if len(found) != len(dicts) or not all(map(is_, found, dicts)):
            return False
        values = [value for state in dicts for value in state.values()]
        if len(values) != len(kept) or not all(map(is_, values, kept)):
            return False
        return all(map(is_, [tensor._array.storage for tensor in tensors], storages))

    return check


def _is_alike(group: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether a group has options of the same kinds, and the same ones where they are no
    numbers."""
    if len(group) != len(before):
        return False
    for name, value in before.items():
        now: Any = group.get(name)
        if now is value:
            continue
        if name == "params":
            if len(now) != len(value) or not all(map(is_, now, value)):
                return False
        elif isinstance(value, tuple):
            if type(now) is not tuple or not all(map(_is_number, (*now, *value))):
                return False
        elif not (_is_number(now) and _is_number(value)) and not (
            type(now) is type(value) and type(value) in PLAIN and now == value
        ):
            return False
    return True
