"""Formula ops in place: results stored into arguments, with the checks and the history that this
takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember.core import dispatch, executor, modes
from ember.core.array import copy_of
from ember.core.dispatch import needs_grad
from ember.core.history import check_overlap, check_write, rebind, written
from ember.core.levels import INTO_ONE, LevelArray
from ember.core.lifting import lifted, raise_to
from ember.core.node import Saved
from ember.core.outputs import check_result
from ember.core.plan import Plan
from ember.core.tensor import Tensor, connected
from ember.errors import check
from ember.kernel.array import Spec
from ember.layout import broadcast_shapes, like_strides


def write(op: Any, values: Sequence[Any], targets: tuple[int, ...]) -> Any:
    """Run with results stored into the arguments at `targets`."""
    frame = None
    key: Any = ("write", *op.key(values))
    plan = op.plans.get(key)
    if plan is None or modes.SPECIAL[0]:
        moved = op.with_numbers_moved(values)
        values = list(values) if moved is None else moved
        if modes.SPECIAL[0]:
            frame, values = _above(values, targets)
        key, plan = None, None
    owned = [values[t] for t in targets]
    for tensor in owned:
        op.check_input(tensor)
        check_write(tensor)
    if plan is None:
        key = ("write", *op.key(values))
        plan = op.plans.get(key)
    if plan is None:
        plan = op.plans[key] = _plan_write(op, values, key[1:], targets)
    read: list[Tensor] = []
    given: list[Any] = []
    for position in plan.positions:
        value = values[position]
        if isinstance(value, Tensor):
            read.append(value)
            given.append(value._array)
        else:
            given.append(value)
    operands = tuple(given)
    for tensor in owned:
        target = tensor._array
        for other in read:
            source = other._array
            if source.storage is target.storage and source is not target:
                check_overlap(target, source)
    recording = modes.state.grad and any(map(needs_grad, read))
    old = _before_write(op, plan, values) if recording else None
    version = owned[0]._array.storage.version
    slot = executor._slot[0]
    if frame is not None:
        frame.write(op, values, plan)
    elif slot is None:
        plan.runner(*operands)
    else:
        slot.run(plan.call, plan.runner, operands)
    for tensor in owned:
        written(tensor)
    if recording and plan.differentiable:
        node = op.record(plan, values, owned[0], old)
        if node is None:
            node = op.blank_node(plan)
        _keep_version(node, owned[0], version)
        self_position = plan.positions.index(0) if 0 in plan.positions and node.edges else None
        rebind(owned[0], node, self_position)
    return owned[0] if len(owned) == 1 else tuple(owned)


def _above(values: Sequence[Any], targets: tuple[int, ...]) -> tuple[Any, Sequence[Any]]:
    """The arguments on the level of the target, which must be the innermost of theirs."""
    frame, above = lifted(values)
    if frame is not None:
        check(len(targets) == 1, NotImplementedError, "vmap: this op writes several tensors")
        for target in targets:
            tensor = values[target]
            if above[target] is not tensor:  # the target itself is of a lower level
                others: list[Any] = [v for v in above if isinstance(v, Tensor)]
                check(not any(v._array.batched for v in others), RuntimeError, INTO_ONE)
                if modes.state.grad and any(needs_grad(v) for v in others):
                    raise_to(frame, tensor)
                    return _above(values, targets)
                return _above([_below(v, frame) for v in values], targets)
    return frame, above


def _below(value: Any, frame: Any) -> Any:
    array = value._array if isinstance(value, Tensor) else None
    return array.value if isinstance(array, LevelArray) and array.frame is frame else value


def _keep_version(node: Any, written_to: Tensor, version: int) -> None:
    """Let values that the node saved from the written memory count as they were before: backward
    finds them changed."""
    for saved in node.saved.values():
        if isinstance(saved, Saved) and saved.array is not None and not saved.is_output:
            if saved.array.storage is written_to._array.storage:
                saved.version = version


def _before_write(op: Any, plan: Plan, values: Sequence[Any]) -> Tensor | None:
    """A copy of the first argument if a gradient reads it, with its history."""
    first = values[0]
    read = False
    for name, position in zip(plan.reading.names, plan.positions, strict=True):
        value = values[position]
        if isinstance(value, Tensor) and needs_grad(value):
            rule = op.gradient(plan, name)
            read = read or (rule is not None and op.parameters[0] in rule[1])
    if not read:
        return None
    node, index = dispatch.edges_of([first])[0]
    array = first._array
    copy = copy_of(array, like_strides(array.shape, array.strides))
    return connected(copy, node, index)


def _plan_write(op: Any, values: Sequence[Any], key: Any, targets: tuple[int, ...]) -> Plan:
    own = values[targets[0]]._array.spec
    call, positions, reading = op.describe(values, key, own)
    if len(targets) == 1:
        shape = broadcast_shapes(*(s.shape for s in call.in_specs if isinstance(s, Spec)))
        check_result(call.out_specs[0].dtype, shape, own)
    call.writes = tuple(positions.index(t) for t in targets)
    call.out_specs = tuple(values[t]._array.spec for t in targets)
    return Plan(call, executor.prepare(call, own.device), positions, reading)
