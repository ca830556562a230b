"""The loop over parameters that most optimizers share: a subclass says what one parameter's
state and update are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ember.ops as ops
from ember import dtypes
from ember.core.executor import current_executor
from ember.core.history import check_write, written
from ember.core.modes import enable_grad, get_default_dtype
from ember.core.tensor import Tensor
from ember.device import CPU
from ember.errors import check
from ember.ops.optimizers import run_update
from ember.optim.arguments import CAPTURABLE_DEVICES
from ember.optim.optimizer import Optimizer, _get_value, _use_grad_for_differentiable

__all__ = ["ParameterwiseOptimizer"]


class ParameterwiseOptimizer(Optimizer):
    """An optimizer that updates each parameter from its own gradient and state alone.

    Subclasses define `_start`, the state of a parameter at its first step, and `_update`.
    """

    # Options that checkpoints of older versions lack, with the value that they stood for
    _later_options: tuple[tuple[str, Any], ...] = (
        ("maximize", False),
        ("foreach", None),
        ("differentiable", False),
        ("capturable", False),
    )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._later_options:
                group.setdefault(name, value)
            for param in group["params"]:
                entry = self.state.get(param) or {}
                if "step" in entry and not isinstance(entry["step"], Tensor):
                    entry["step"] = ops.tensor(float(entry["step"]), dtype=_scalar_dtype(group))

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any] | None:
        """The state of a parameter that has none yet; None for an update that keeps none."""
        raise NotImplementedError

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One step of one parameter, written into it and its state."""
        raise NotImplementedError

    def _update_sparsely(
        self, param: Tensor, grad: Any, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """The same for a sparse gradient: RuntimeError where an optimizer has no such step."""
        name = type(self).__name__.replace("AdamW", "Adam")
        hint = ", please consider SparseAdam instead" if name == "Adam" else ""
        raise RuntimeError(f"{name} does not support sparse gradients{hint}")

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; returns what `closure`, called first,
        returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                grad = param.grad
                if grad is not None:
                    update = (
                        self._update if grad._array.kind == "strided" else self._update_sparsely
                    )
                    update(param, grad, self.state.get(param) or self._started(param, group), group)
        return loss

    def _started(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = self._start(param, group)
        if state is None:
            return {}
        self.state[param].update(state)
        return self.state[param]

    @staticmethod
    def _count(param: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Any:
        """Advance the step counter. The number it reached, or its tensor where the update is
        made of tensors."""
        step = state["step"]
        if group.get("capturable"):
            check(
                param.device.type in CAPTURABLE_DEVICES and step.device.type in CAPTURABLE_DEVICES,
                AssertionError,
                "If capturable=True, params and state_steps must be on supported devices: "
                f"{CAPTURABLE_DEVICES}.",
            )
        if not in_tensors(group):
            return advanced(step)
        step += 1
        return step


def advanced(step: Tensor) -> float:
    """Add 1 to a counter and read it; on the CPU in its memory, which is quicker than an op."""
    recording = current_executor()
    if recording is not None and recording.tape is not None:
        counted: float = recording.advanced(step)
        return counted
    if step.device is CPU and (recording is None or recording.steps_aside):
        check_write(step)
        cell = step._array.host()
        cell += 1
        written(step)
        return float(cell)
    step += 1
    return step.item()


def in_tensors(group: dict[str, Any]) -> bool:
    """Whether a group's numbers stay tensors: to be differentiated, or so that no step waits for
    the device."""
    return bool(group.get("differentiable") or group.get("capturable"))


def number(value: Any, group: dict[str, Any]) -> Any:
    """An option that may be a tensor, as the number that it holds unless the group computes in
    tensors."""
    return value if in_tensors(group) else _get_value(value)


def apply(
    update: Any, group: dict[str, Any], param: Tensor, grad: Tensor, *state: Tensor, **numbers: Any
) -> None:
    """Run an update of ember.ops.optimizers on a parameter; complex ones are updated as pairs of
    real numbers."""
    tensors = (param, grad, *state)
    if param.is_complex():
        tensors = tuple(ops.view_as_real(t) for t in tensors)
    run_update(update, tensors, numbers, in_tensors(group))


def _scalar_dtype(group: dict[str, Any]) -> dtypes.dtype:
    if group.get("fused"):
        return dtypes.float32
    return dtypes.float64 if get_default_dtype() is dtypes.float64 else dtypes.float32


def new_scalar(param: Tensor, group: dict[str, Any], value: float = 0.0) -> Tensor:
    """A bookkeeping number: float32 on the CPU, or on the parameter's device where nothing may
    wait for that. (PyTorch's fused optimizers count on the device; here all updates are fused, and
    the host tells their kernels the numbers.)"""
    device = param.device if group.get("capturable") else "cpu"
    return ops.full((), value, dtype=_scalar_dtype(group), device=device)
