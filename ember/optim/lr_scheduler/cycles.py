"""Schedules that go up and down, of the rate and, against it, of the momentum."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar

from ember.errors import check
from ember.optim.lr_scheduler.base import LRScheduler, per_group, set_option
from ember.optim.optimizer import Optimizer

__all__ = ["CyclicLR", "OneCycleLR"]


def _uses_beta1(optimizer: Optimizer) -> bool:
    """Whether the momentum to cycle is the first beta. ValueError if the optimizer has none of
    either."""
    check(
        "momentum" in optimizer.defaults or "betas" in optimizer.defaults,
        ValueError,
        "optimizer must support momentum or beta1 with `cycle_momentum` option enabled",
    )
    return "betas" in optimizer.defaults


def _set_momentum(group: dict[str, Any], momentum: Any, use_beta1: bool) -> None:
    if use_beta1:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


class CyclicLR(LRScheduler):
    """Triangles between `base_lr` and `max_lr` (Smith, 2015), up in `step_size_up` steps and down
    in `step_size_down`.

    "triangular2" halves the height each cycle, "exp_range" scales it by gammaˢᵗᵉᵖ; `scale_fn` of
    the cycle or, with `scale_mode="iterations"`, of the step replaces both. `cycle_momentum` moves
    the momentum the other way. ValueError for an unknown mode, lists not one a group, or an
    optimizer without momentum to cycle.

    >>> import ember as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5, momentum=0.9)
    >>> scheduler = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.5, 1.5, step_size_up=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        base_lrs = per_group("base_lr", optimizer, base_lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        check(
            mode in ("triangular", "triangular2", "exp_range") or scale_fn is not None,
            ValueError,
            "mode is invalid and scale_fn is None",
        )
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self.scale_mode = (
            scale_mode if scale_fn is not None or mode != "exp_range" else "iterations"
        )
        self._scale_fn_custom = scale_fn
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _uses_beta1(optimizer)
            self.base_momentums = per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("max_momentum", optimizer, max_momentum)
        if last_epoch == -1:
            self._prepare(optimizer, base_lrs)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _prepare(self, optimizer: Optimizer, base_lrs: list[Any]) -> None:
        for number, group in enumerate(optimizer.param_groups):
            set_option(group, "lr", base_lrs[number])
            if self.cycle_momentum:
                highest, lowest = self.max_momentums[number], self.base_momentums[number]
                _set_momentum(group, highest, self.use_beta1)
                group["max_momentum"], group["base_momentum"] = highest, lowest

    def scale_fn(self, x: float) -> float:
        """The height of the triangle at cycle (or iteration) x, as a part of the whole."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Any]:
        """The rates of the present step; sets the momenta as well."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        part = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        rates = [
            base + (top - base) * part * scale
            for base, top in zip(self.base_lrs, self.max_lrs, strict=False)
        ]
        if self.cycle_momentum:
            bounds = zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=False
            )
            for base, top, group in bounds:
                _set_momentum(group, top - (top - base) * part * scale, self.use_beta1)
        return rates

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and a scale function; of a callable object, its
        attributes."""
        state = super().state_dict()
        function = state.pop("_scale_fn_custom")
        saved = function is not None and not isinstance(function, FunctionType)
        state["_scale_fn_custom"] = dict(function.__dict__) if saved else None
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; a scale function stays, a callable object gets its
        attributes."""
        attributes = state_dict["_scale_fn_custom"]
        super().load_state_dict(
            {key: value for key, value in state_dict.items() if key != "_scale_fn_custom"}
        )
        if attributes is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(attributes)


class OneCycleLR(LRScheduler):
    """One cycle (Smith and Topin, 2017): up from max_lr/div_factor to `max_lr` in the first
    `pct_start` of the steps,

    then down to max_lr/(div_factor·final_div_factor); with `three_phase` back to the start first.
    The momentum goes the other way. The steps are `total_steps`, or epochs·steps_per_epoch.
    ValueError for arguments out of range, and for stepping beyond the end.

    >>> import ember as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5, momentum=0.9)
    >>> scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> round(scheduler.get_last_lr()[0], 4), optimizer.param_groups[0]["momentum"]
    (1.0, 0.85)
    """

    # Each phase: from and to which of a group's rates, and of its momenta
    _TWO: ClassVar = [
        ("initial_lr", "max_lr", "max_momentum", "base_momentum"),
        ("max_lr", "min_lr", "base_momentum", "max_momentum"),
    ]
    _THREE: ClassVar = [
        ("initial_lr", "max_lr", "max_momentum", "base_momentum"),
        ("max_lr", "initial_lr", "base_momentum", "max_momentum"),
        ("initial_lr", "min_lr", "max_momentum", "max_momentum"),
    ]

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        check(
            isinstance(pct_start, float) and 0 <= pct_start <= 1,
            ValueError,
            f"Expected float between 0 and 1 pct_start, but got {pct_start}",
        )
        check(
            anneal_strategy in ("cos", "linear"),
            ValueError,
            f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}",
        )
        self._schedule_phases = self._phases(pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        max_lrs = per_group("max_lr", optimizer, max_lr)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _uses_beta1(optimizer)
            max_momentums = per_group("max_momentum", optimizer, max_momentum)
            base_momentums = per_group("base_momentum", optimizer, base_momentum)
        if last_epoch == -1:
            for number, group in enumerate(optimizer.param_groups):
                group["initial_lr"] = max_lrs[number] / div_factor
                group["max_lr"] = max_lrs[number]
                group["min_lr"] = group["initial_lr"] / final_div_factor
                if cycle_momentum:
                    group["max_momentum"] = max_momentums[number]
                    group["base_momentum"] = base_momentums[number]
                    _set_momentum(group, group["max_momentum"], self.use_beta1)
        super().__init__(optimizer, last_epoch)

    def _phases(self, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
        peak = float(pct_start * self.total_steps) - 1
        ends = [peak, 2 * pct_start * self.total_steps - 2] if three_phase else [peak]
        names = ("start_lr", "end_lr", "start_momentum", "end_momentum")
        shape = self._THREE if three_phase else self._TWO
        return [
            {"end_step": end, **dict(zip(names, phase, strict=True))}
            for end, phase in zip([*ends, self.total_steps - 1], shape, strict=True)
        ]

    def _anneal_func(self, start: float, end: float, part: float) -> float:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)
        return (end - start) * part + start

    def get_lr(self) -> list[Any]:
        """The rates of the present step; sets the momenta as well."""
        self._warn_outside_step()
        step = self.last_epoch
        check(
            step <= self.total_steps,
            ValueError,
            f"Tried to step {step} times. The specified number of total steps is "
            f"{self.total_steps}",
        )
        start, phase = 0.0, self._schedule_phases[0]
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        part = (step - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal_func(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, self._anneal_func(*ends, part), self.use_beta1)
        return rates


def _total_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is not None:
        _check_positive(total_steps=total_steps)
        return total_steps
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    _check_positive(epochs=epochs, steps_per_epoch=steps_per_epoch)
    return epochs * steps_per_epoch


def _check_positive(**values: Any) -> None:
    for name, value in values.items():
        check(
            isinstance(value, int) and value > 0,
            ValueError,
            f"Expected positive integer {name}, but got {value}",
        )
