"""`GradScaler`: multiplies the loss so that float16 gradients do not vanish, and skips steps
that overflow."""

from __future__ import annotations

import importlib
import warnings
import weakref
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

import ember.ops as ops
from ember import dtypes
from ember.amp.autocast_mode import has_gpu
from ember.core.modes import no_grad
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops.optimizers import update_scale_
from ember.source_lines import warn

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """What was done with an optimizer's gradients since the last `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scales losses by a factor that grows while gradients stay finite and backs off when they do
    not.

    `scale(loss).backward()` gives scaled gradients; `step(optimizer)` unscales them and steps
    unless one is infinite or NaN; `update()` multiplies the factor by `backoff_factor` after such a
    step, and by `growth_factor` after `growth_interval` good ones in a row. `unscale_(optimizer)`
    unscales earlier, for clipping. With `enabled=False` everything passes through. AssertionError
    for factors on the wrong side of 1. With `explain=True` a step that is skipped warns of the op
    that overflowed first, kept as `last_overflow`; see `torch.amp.guard`.

    >>> import ember as torch
    >>> weight = torch.nn.Parameter(torch.ones(1))
    >>> optimizer = torch.optim.SGD([weight], lr=0.5)
    >>> scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    >>> scaler.scale(weight.sum()).backward()
    >>> weight.grad.item()
    4.0
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> weight.item(), scaler.get_scale()
    (0.5, 4.0)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
        *,
        explain: bool = False,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not has_gpu():
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2,
            )
            self._enabled = False
        if self._enabled:
            check(growth_factor > 1.0, AssertionError, "The growth factor must be > 1.0.")
            check(backoff_factor < 1.0, AssertionError, "The backoff factor must be < 1.0.")
            self._init_scale = init_scale
            self._scale: Tensor | None = None  # made on the device of the first loss
            self._growth_factor = growth_factor
            self._backoff_factor = backoff_factor
            self._growth_interval = growth_interval
            self._init_growth_tracker = 0
            self._growth_tracker: Tensor | None = None
            self._per_optimizer_states: Any = defaultdict(_refresh_per_optimizer_state)
        self._watch: Any = None
        self.last_overflow: Any = None
        if explain and self._enabled:
            guards = importlib.import_module("ember.amp.overflow_guard")  # only those who ask pay
            self._watch = guards.guard(action="note").__enter__()
            self._watch.looks = False
            weakref.finalize(self, self._watch.close)

    def _started(self, what: str) -> tuple[Tensor, Tensor]:
        """The factor and the count of good steps. AssertionError before the first `scale`."""
        scale, tracker = self._scale, self._growth_tracker
        if scale is None or tracker is None:
            raise AssertionError(
                f"Attempted {what} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )
        return scale, tracker

    # ------------------------------------------------------------------ the loss

    def scale(self, outputs: Any) -> Any:
        """Outputs (a tensor, or a list, tuple or other iterable of them) times the factor."""
        if not self._enabled:
            return outputs
        return self._scaled(outputs, {})

    def _scaled(self, value: Any, factors: dict[Any, Tensor]) -> Any:
        if isinstance(value, Tensor):
            place = value.device
            if self._scale is None:
                self._scale = ops.full((), self._init_scale, dtype=dtypes.float32, device=place)
                self._growth_tracker = ops.full(
                    (), self._init_growth_tracker, dtype=dtypes.int32, device=place
                )
            if place not in factors:
                factors[place] = self._scale.to(place)
            return value * factors[place]
        check(
            isinstance(value, Iterable),
            ValueError,
            "outputs must be a Tensor or an iterable of Tensors",
        )
        scaled = (self._scaled(v, factors) for v in value)
        return type(value)(scaled) if isinstance(value, (list, tuple)) else scaled

    # ------------------------------------------------------------------ the gradients

    @no_grad()
    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        """Multiply the gradients by `inv_scale`; for each device, 1 if one was not finite, else
        0."""
        grads: defaultdict[Any, list[Tensor]] = defaultdict(list)
        for group in optimizer.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                check(
                    allow_fp16 or param.grad.dtype is not dtypes.float16,
                    ValueError,
                    "Attempting to unscale FP16 gradients.",
                )
                grads[param.grad.device].append(param.grad)
        found = {}
        for place, members in grads.items():
            factor = inv_scale.to(place)
            for grad in members:
                grad.mul_(factor)
            finite = ops.stack([ops.isfinite(grad).all() for grad in members]).all()
            found[place] = ops.maximum(found_inf.to(place), finite.logical_not().to(dtypes.float32))
        return found

    def unscale_(self, optimizer: Any) -> None:
        """Divide an optimizer's gradients by the factor, in place, before `step` would; once per
        `update`.

        ValueError for float16 gradients: parameters should be float32, and autocast do the halving.
        """
        if not self._enabled:
            return
        scale, _ = self._started("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        check(
            state["stage"] is not OptState.UNSCALED,
            RuntimeError,
            "unscale_() has already been called on this optimizer since the last update().",
        )
        check(
            state["stage"] is not OptState.STEPPED,
            RuntimeError,
            "unscale_() is being called after step().",
        )
        inv_scale = scale.double().reciprocal().float()
        state["found_inf_per_device"] = self._unscale_grads_(
            optimizer, inv_scale, ops.zeros_like(scale), False
        )
        state["stage"] = OptState.UNSCALED

    # ------------------------------------------------------------------ the step

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(*args, **kwargs)` on unscaled gradients, skipped if one is not finite;
        once per `update`.

        RuntimeError for a closure, which would need gradients at other places.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        check(
            "closure" not in kwargs,
            RuntimeError,
            "Closure use is not currently supported if GradScaler is enabled.",
        )
        self._started("step")
        state = self._per_optimizer_states[id(optimizer)]
        check(
            state["stage"] is not OptState.STEPPED,
            RuntimeError,
            "step() has already been called since the last update().",
        )
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_that_unscales(optimizer, state, args, kwargs)
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        found = state["found_inf_per_device"]
        check(found, AssertionError, "No inf checks were recorded for this optimizer.")
        result = None
        if not any(flag.item() for flag in found.values()):
            result = optimizer.step(*args, **kwargs)
        elif self._watch is not None:
            self._explain(optimizer)
        state["stage"] = OptState.STEPPED
        return result

    def _explain(self, optimizer: Any) -> None:
        """Warn about the op that made the gradients not finite."""
        self.last_overflow = self._watch.explain(optimizer)
        if self.last_overflow is not None:
            warn(f"a step is skipped (loss scale {self.get_scale():g}): {self.last_overflow}")

    def _step_that_unscales(
        self, optimizer: Any, state: dict[str, Any], args: Any, kwargs: Any
    ) -> Any:
        """The step of an optimizer that takes the factor and the flag itself, as attributes."""
        import inspect

        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed "
                "optimizer. In the near future GradScaler registers `grad_scale: Tensor` and "
                "`found_inf: Tensor` to the passed optimizer and let the optimizer use them "
                "directly.",
                FutureWarning,
                stacklevel=3,
            )
            result = optimizer.step(*args, **kwargs, grad_scaler=self)
            state["stage"] = OptState.STEPPED
            return result
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        scale, _ = self._started("step")
        flags = [flag.to(scale.device) for flag in state["found_inf_per_device"].values()]
        optimizer.grad_scale = None if state["stage"] is OptState.UNSCALED else scale
        optimizer.found_inf = sum(flags)
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            state["stage"] = OptState.STEPPED
            del optimizer.grad_scale, optimizer.found_inf

    def _check_inf_per_device(self, optimizer: Any) -> Any:
        """Look for gradients that are not finite, without unscaling."""
        scale, _ = self._started("_check_inf_per_device")
        found = self._unscale_grads_(optimizer, ops.ones_like(scale), ops.zeros_like(scale), True)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _found_inf_per_device(self, optimizer: Any) -> Any:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    # ------------------------------------------------------------------ the factor

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the factor to what the steps found, or set it to `new_scale`; ends the iteration.

        AssertionError if no step looked for infinities since the last update.
        """
        if not self._enabled:
            return
        scale, tracker = self._started("update")
        if new_scale is None:
            self._adapt(scale, tracker)
        elif isinstance(new_scale, Tensor):
            check(
                new_scale.numel() == 1 and not new_scale.requires_grad,
                AssertionError,
                "new_scale should be a float or a 1-element torch.cuda.FloatTensor or "
                "torch.FloatTensor with requires_grad=False.",
            )
            scale.copy_(new_scale.reshape(()))
        else:
            scale.fill_(new_scale)
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)
        if self._watch is not None:
            self._watch.forget()

    def _adapt(self, scale: Tensor, tracker: Tensor) -> None:
        flags = [
            flag.to(scale.device)
            for state in self._per_optimizer_states.values()
            for flag in state["found_inf_per_device"].values()
        ]
        check(flags, AssertionError, "No inf checks were recorded prior to update.")
        update_scale_(
            scale,
            tracker,
            sum(flags),
            growth=self._growth_factor,
            backoff=self._backoff_factor,
            interval=self._growth_interval,
        )

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def get_scale(self) -> float:
        """The factor; 1.0 when disabled. Waits for the device."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """What the factor is multiplied by after `growth_interval` good steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Change the growth factor."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the factor is multiplied by after a step that was skipped."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Change the backoff factor."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """How many good steps in a row make the factor grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Change the growth interval."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return (
            self._init_growth_tracker
            if self._growth_tracker is None
            else int(self._growth_tracker.item())
        )

    def is_enabled(self) -> bool:
        """Whether the scaler does anything."""
        return self._enabled

    # ------------------------------------------------------------------ checkpoints

    def state_dict(self) -> dict[str, Any]:
        """The factor, the options and the count of good steps; empty when disabled. Call it
        after `update`."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave. RuntimeError if it came from a disabled scaler."""
        if not self._enabled:
            return
        check(
            len(state_dict) > 0,
            RuntimeError,
            "The source state dict is empty, possibly because it was saved from a disabled "
            "instance of GradScaler.",
        )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_watch"] = None
        if self._enabled:
            check(
                len(self._per_optimizer_states) == 0,
                AssertionError,
                "A GradScaler instance may only be pickled at the beginning of an iteration, or "
                "at the end after scaler.update().",
            )
            state["_init_scale"], state["_init_growth_tracker"] = (
                self.get_scale(),
                self._get_growth_tracker(),
            )
            state["_scale"] = state["_growth_tracker"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
