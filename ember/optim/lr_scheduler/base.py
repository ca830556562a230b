"""`LRScheduler`: counts epochs and writes the learning rates that its subclasses compute."""

from __future__ import annotations

import contextlib
import functools
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from ember.core.tensor import Tensor
from ember.errors import check
from ember.optim.optimizer import Optimizer

__all__ = ["LRScheduler"]

_DOCS = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available. Please open an issue if you are unable to replicate your use case: "
    "https://github.com/pytorch/pytorch/issues/new/choose."
)
_OVERRIDDEN = (
    "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
    "initialization. Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. "
    f"{_DOCS}"
)
_TOO_EARLY = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and "
    "later, you should call them in the opposite order: `optimizer.step()` before "
    "`lr_scheduler.step()`.  Failure to do this will result in PyTorch skipping the first value "
    f"of the learning rate schedule. {_DOCS}"
)


def own(value: Any) -> Any:
    """A rate that later changes of the group's, which may be a tensor, do not reach."""
    return value.clone() if isinstance(value, Tensor) else value


def group_values(optimizer: Optimizer, key: str) -> list[Any]:
    """Copies of an option of all groups."""
    return [own(group[key]) for group in optimizer.param_groups]


def set_option(group: dict[str, Any], key: str, value: Any) -> None:
    """Set a group's option; one that is a tensor is filled in place, as captured steps read it
    there."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value)
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value a group, from a list of them or one for all. ValueError for a list of another
    length."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [own(value) for _ in range(count)]
    check(
        len(value) == count,
        ValueError,
        f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} "
        f"values, param_groups has {count}.",
    )
    return [own(v) for v in value]


def check_optimizer(optimizer: Any) -> None:
    """TypeError for what is no optimizer."""
    check(
        isinstance(optimizer, Optimizer),
        TypeError,
        lambda: f"{type(optimizer).__name__} is not an Optimizer",
    )


@contextlib.contextmanager
def _flag(scheduler: Any, name: str) -> Iterator[None]:
    setattr(scheduler, name, True)
    try:
        yield
    finally:
        setattr(scheduler, name, False)


def _track_steps(optimizer: Optimizer) -> None:
    """Wrap the optimizer's `step` so that it leaves a mark that it was called."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    step: Callable[..., Any] = optimizer.step
    reference = weakref.ref(optimizer)

    @functools.wraps(step)
    def marked(*args: Any, **kwargs: Any) -> Any:
        target = reference()
        if target is not None:
            target._opt_called = True
        return step(*args, **kwargs)

    marked._wrapped_by_lr_sched = True
    optimizer.step = marked


class LRScheduler:
    """The base of schedules: `step`, once an epoch, sets each group's rate to what `get_lr`
    computes.

    `last_epoch` is the number of steps done; -1 starts anew. TypeError for what is no optimizer,
    KeyError when resuming with groups that have no "initial_lr".
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", own(group["lr"]))
            check(
                "initial_lr" in group,
                KeyError,
                f"param 'initial_lr' is not specified in param_groups[{number}] when resuming "
                "scheduler with last_epoch >= 0.\nThis typically happens when:\n1. You're trying "
                "to resume training from a checkpoint but haven't properly loaded the optimizer "
                "state\n2. You're using last_epoch >= 0 for a fresh training run (not "
                "recommended)",
            )
        self.base_lrs: list[Any] = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _track_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        with _flag(self, "_is_initial"):
            self.step()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, as a dict."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that the last `step` set, one a group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates of the present epoch, computed from those of the epoch before."""
        raise NotImplementedError(f"{type(self).__name__} defines no get_lr()")

    def step(self, epoch: int | None = None) -> None:
        """Go on by one epoch (or, deprecated, to `epoch`) and set the rates. Call it after
        `optimizer.step()`."""
        if self._step_count == 1:
            if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
                warnings.warn(_OVERRIDDEN, UserWarning, stacklevel=2)
            elif not getattr(self.optimizer, "_opt_called", False):
                warnings.warn(_TOO_EARLY, UserWarning, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        closed_form = getattr(self, "_get_closed_form_lr", None)
        with self._inside_step():
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                values = self.get_lr() if closed_form is None else closed_form()
        self._set_rates(values)

    def _set_rates(self, values: list[Any]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=False):
            set_option(group, "lr", value)
        self._last_lr: list[Any] = self._rates()

    def _rates(self) -> list[Any]:
        return group_values(self.optimizer, "lr")

    def _inside_step(self) -> contextlib.AbstractContextManager[None]:
        return _flag(self, "_get_lr_called_within_step")

    def _warn_outside_step(self) -> None:
        """Warn a user who calls `get_lr`, whose chained form would step the rate a second time."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )
