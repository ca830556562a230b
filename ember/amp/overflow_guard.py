"""The overflow guard: which op made the first inf or NaN of a training step, and what to do."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy import vdot

import ember.ops as ops
from ember.amp import step_search
from ember.amp.remedies import magnitude, remedy
from ember.amp.step_record import StepRecord
from ember.amp.step_template import Behind, Noted
from ember.core.executor import set_executor
from ember.core.modes import no_grad
from ember.core.tensor import Tensor, tensor_of
from ember.dtypes import float32
from ember.errors import check
from ember.kernel.array import Array
from ember.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from ember.source_lines import short, warn

__all__ = ["NonFinite", "NonFiniteError", "guard"]
ACTIONS = ("raise", "warn", "note")


class NonFinite(NamedTuple):
    """The first op of a step that made inf or NaN; `str` of it is the whole story."""

    op: str
    phase: str  # forward or backward
    file: str
    line: int
    module: str
    made: str  # inf, NaN, or "" where the step was given it
    operands: tuple[str, ...]
    remedy: str
    count: int = 0  # how many of the step's gradients are not finite

    def __str__(self) -> str:
        where = f"{short(self.file)}:{self.line}" + (f" in {self.module}" if self.module else "")
        op = f"the gradient of {self.op}" if self.phase == "backward" else self.op
        if self.made:
            first = f"{op} made the first {self.made} of this step, at {where}"
        else:
            first = f"{op} was given what is not finite, at {where}"
        lines = [first, *(f"  {operand}" for operand in self.operands), f"  {self.remedy}"]
        return "\n".join(lines)


class NonFiniteError(FloatingPointError):
    """A step made inf or NaN; `report` is its NonFinite."""

    def __init__(self, report: NonFinite):
        super().__init__(str(report))
        self.report = report


class guard:
    """Watches training steps in a `with` block: before an optimizer steps on gradients that are not
    finite, the first op that made inf or NaN is named.

    Each step costs one look at the loss and the gradients and a note of each call. Only when there
    is trouble is the step run again, from what it was given, and searched; of a step of more than
    `most` calls the last ones. `action` is "raise" (NonFiniteError), "warn", "note" (see
    `reports`), or a function of the report. Steps without optimizers end with `step()`, or
    `step(*tensors)` to look at these. ValueError for another action.

    >>> import ember as torch
    >>> x = torch.tensor([0.0, 1.0], requires_grad=True)
    >>> optimizer = torch.optim.SGD([x], lr=0.1)
    >>> with torch.amp.guard(action="note") as watch:
    ...     x.sqrt().sum().backward()
    ...     optimizer.step()
    >>> watch.reports[0].op, watch.reports[0].phase, watch.reports[0].made
    ('sqrt', 'backward', 'inf')
    """

    def __init__(self, action: str | Callable[[NonFinite], Any] = "raise", most: int = 20_000):
        check(
            callable(action) or action in ACTIONS,
            ValueError,
            f"guard: action is one of {', '.join(ACTIONS)} or a function, not {action!r}",
        )
        self.action = action
        self.reports: list[NonFinite] = []
        self.looks = (
            True  # at each step; a GradScaler looks itself, and asks when it found something
        )
        self.record = StepRecord(most)
        self._steps = 0
        self._marks: list[Any] = []

    def __enter__(self) -> guard:
        self.record.begin()
        self._marks = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        return self

    def __exit__(self, kind: Any, *rest: object) -> None:
        try:
            if kind is None and not self._steps and self.record.entries:
                self._search_and_tell([], {ref[0] for ref in self.record.entries[-1].outs})
        finally:
            self.close()

    def close(self) -> None:
        """Stop watching."""
        for mark in self._marks:
            mark.remove()
        self.record.end()

    # the ends of steps

    def step(self, *tensors: Tensor) -> NonFinite | None:
        """End a step here, after a look at `tensors`."""
        self._steps += 1
        arrays = [tensor._array for tensor in tensors]
        found = self._look(arrays)
        self.forget(arrays)
        return found

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._steps += 1
        arrays = gradients_of(optimizer)
        if self.looks and not all_finite([*arrays, *self.record.roots()]):
            self._look(arrays)
        self.record.clear(arrays, paused=True)
        self.record.pause(True)  # what the optimizer does is not of the step

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.record.pause(False)

    def forget(self, ends: list[Any] | None = None) -> None:
        """Let go what was noted of the step so far; `ends` were looked at."""
        self.record.clear(ends)

    def explain(self, optimizer: Any) -> NonFinite | None:
        """What made the gradients of an optimizer not finite; None if they are, or nothing is
        known of them."""
        return self._search(gradients_of(optimizer))

    def _look(self, arrays: list[Any]) -> NonFinite | None:
        return self._search_and_tell(arrays, set())

    def _search_and_tell(self, arrays: list[Any], numbers: set[int]) -> NonFinite | None:
        found = self._search(arrays, numbers)
        if found is None:
            return None
        self.reports.append(found)
        if callable(self.action):
            self.action(found)
        elif self.action == "warn":
            warn(str(found))
        elif self.action == "raise":
            self.forget()
            raise NonFiniteError(found)
        return found

    # the search

    def _search(self, arrays: list[Any], numbers: set[int] = frozenset()) -> NonFinite | None:
        slot = set_executor(None)
        try:
            record = self.record
            record.leave_template(missed=False)
            ends = zip(record.numbers_of(arrays), arrays, strict=True)
            bad = [number for number, array in ends if not_finite(array)]
            roots = {record.known(a.storage) for a in record.roots() if not_finite(a)}
            wanted = ({*bad, *roots} - {None}) | set(numbers)
            found = step_search.first_culprit(record, wanted) if wanted else None
            if found is None:
                return _unexplained(len(bad)) if bad and record.followed() else None
            return self._report(found)._replace(count=len(bad))
        finally:
            set_executor(slot)

    def _report(self, found: step_search.Culprit) -> NonFinite:
        entry = found.entry
        forward = entry if entry.node is None else self._forward_of(entry)
        phase = "forward" if entry.node is None else "backward"
        file, line, module = forward.place if forward is not None else ("?", 0, "")
        op = entry.name
        if entry.node is not None and forward is not None:
            op = forward.name
        made = ("", "inf", "NaN")[found.state] if found.made else ""
        operands = tuple(described(found))
        advice = remedy(entry, forward, phase, found.made)
        return NonFinite(op, phase, file, line, module, made, operands, advice)

    def _forward_of(self, entry: Noted) -> Noted | None:
        """The call of the forward whose node an entry of the backward belongs to."""
        number, best = entry.node.sequence, None
        first = 0
        if type(entry.node) is not Behind:  # nodes of this step have nothing to do with older ones
            first = self.record.since
        for other in self.record.entries:
            if other.node is None and first <= other.stamp < number:
                best = other if best is None or other.stamp > best.stamp else best
        return best


def _unexplained(count: int) -> NonFinite:
    """A step that took its own way, and what it did cannot be run again."""
    text = "run it again: steps that differ from those before are noted call by call"
    return NonFinite("an op that was not noted", "", "?", 0, "", "inf or NaN", (), text, count)


def not_finite(array: Any) -> bool:
    """Whether an array holds inf or NaN."""
    return step_search.state_of(array) != step_search.FINE


def gradients_of(optimizer: Any) -> list[Any]:
    """The arrays of the gradients that an optimizer would step on."""
    arrays = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            grad = parameter._grad
            if grad is not None and grad._array.kind == "strided":
                arrays.append(grad._array)
    return arrays


def all_finite(arrays: list[Any]) -> bool:
    """One flag for many arrays: the sum of their squares, which inf and NaN make bad; only where
    that is not finite (it may also be too large) each is looked at."""
    total, far = 0.0, []
    for array in arrays:
        if type(array.storage.buffer) is not np.ndarray:  # simulated GPUs have such memory too
            far.append(array)
        elif array.spec.dtype is float32:
            values = array.host()
            total += float(vdot(values, values))
        elif array.spec.dtype.is_floating_point:
            total += _flag(step_search.host_values(array))
    if not isfinite(total) and any(not_finite(a) for a in arrays if a not in far):
        return False
    far = [a for a in far if a.spec.dtype.is_floating_point and a.spec.numel]
    return not far or _all_finite_far(far)


def _flag(values: Any) -> float:
    """A number that is not finite if an element is not."""
    if values.dtype == np.float16:  # of the exponents: its squares and sums are slow in NumPy
        bits = np.ascontiguousarray(values).view(np.uint16)
        return inf if ((bits & 0x7C00) == 0x7C00).any() else 0.0
    return float(vdot(values, values))


def _all_finite_far(arrays: list[Any]) -> bool:
    """The same on GPUs, whose memory the host does not see: one kernel each looks at all, and one
    number comes back."""
    looks = importlib.import_module("ember.backends.cuda.finite")  # where there is such a GPU
    together: dict[Any, list[Any]] = {}
    others = []
    for array in arrays:
        kernels = getattr(array.storage.buffer, "kernels", None)
        if kernels is not None and looks.fits(array):
            together.setdefault(kernels, []).append(array)
        else:
            others.append(array)
    if not all(looks.all_finite(kernels, members) for kernels, members in together.items()):
        return False
    slot = set_executor(None)
    try:
        with no_grad():
            return all(bool(ops.isfinite(tensor_of(a)).all()) for a in others)
    finally:
        set_executor(slot)


def described(found: step_search.Culprit) -> list[str]:
    """The operands of an entry with their ranges, and the result's."""
    entry = found.entry
    names = getattr(entry.call, "names", None)
    lines = []
    for position, operand in enumerate(found.operands):
        name = names[position] if names and position < len(names) else f"operand {position + 1}"
        arrays = operand if isinstance(operand, list) else [operand]
        lines += [f"{name}: {_array_text(a)}" for a in arrays if isinstance(a, Array)]
        if isinstance(operand, (int, float)) and not isinstance(operand, bool):
            lines.append(f"{name}: the number {operand}")
    if not entry.writes or entry.call is None:
        lines += [f"result: {_array_text(out)}" for out in found.outs]
    return lines[:6]


def _array_text(array: Any) -> str:
    spec = array.spec
    text = f"{str(spec.dtype).removeprefix('torch.')} {list(spec.shape)}"
    if not spec.dtype.is_floating_point or not spec.numel:
        return text
    return f"{text}, {magnitude(step_search.host_values(array))}"
