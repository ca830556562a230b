"""Schedules made of schedules: one after another, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ember.errors import check
from ember.optim.lr_scheduler.base import LRScheduler
from ember.optim.lr_scheduler.plateau import ReduceLROnPlateau
from ember.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


def _check_members(name: str, schedulers: Sequence[Any], optimizer: Any) -> None:
    """TypeError for what has no optimizer, ValueError for a scheduler of another one or one that
    needs arguments."""
    for number, scheduler in enumerate(schedulers):
        check(
            hasattr(scheduler, "optimizer"),
            TypeError,
            f"{name} at index {number} should have `optimizer` as its attribute.",
        )
        check(
            not isinstance(scheduler, ReduceLROnPlateau),
            ValueError,
            f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional "
            f"kwargs to be specified when calling `step`, but got one at index {number} in the "
            "given schedulers sequence.",
        )
        check(
            scheduler.optimizer is optimizer,
            ValueError,
            lambda number=number, scheduler=scheduler: (
                f"{name} expects all schedulers to belong to the same optimizer, but got "
                f"scheduler {type(scheduler).__name__} at index {number} has "
                f"{scheduler.optimizer}, which is different from {type(optimizer).__name__}."
            ),
        )


class _Composed(LRScheduler):
    """A schedule whose state includes that of the schedules in `_schedulers`."""

    _schedulers: list[Any]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, with the members' own dicts under "_schedulers"."""
        state = {
            key: value
            for key, value in self.__dict__.items()
            if key not in ("optimizer", "_schedulers")
        }
        return {**state, "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave, members included."""
        self.__dict__.update(
            {key: value for key, value in state_dict.items() if key != "_schedulers"}
        )
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=False):
            scheduler.load_state_dict(state)


class SequentialLR(_Composed):
    """Runs `schedulers` one after another, going on to the next at each of the `milestones`.

    ValueError unless there is one milestone fewer than schedulers, all of this optimizer.

    >>> import ember as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    >>> warm = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=1)
    >>> decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, decay], milestones=[1])
    >>> rates = []
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     rates += scheduler.get_last_lr()
    ...     scheduler.step()
    >>> rates
    [0.5, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        check(
            len(schedulers) >= 1,
            ValueError,
            "SequentialLR expects at least one scheduler, but got no scheduler.",
        )
        _check_members("SequentialLR", schedulers, optimizer)
        check(
            len(milestones) == len(schedulers) - 1,
            ValueError,
            "Sequential Schedulers expects number of schedulers provided to be one more than the "
            f"number of milestone points, but got number of schedulers {len(schedulers)} and the "
            f"number of milestones to be equal to {len(milestones)}",
        )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Every member set the rates when it was made: go back to the beginning, and let
        # the first do it again
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self.recursive_undo()
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take back the first step of the members, and of theirs."""
        scheduler = self if sched is None else sched
        if hasattr(scheduler, "_schedulers"):
            for member in scheduler._schedulers:
                self.recursive_undo(member)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    def step(self) -> None:
        """Go on by one epoch, of the schedule whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Composed):
    """Steps all `schedulers` at once; each changes the rates that the one before it left.

    ValueError for an empty list and for schedulers of different optimizers.

    >>> import ember as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    >>> half = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=4)
    >>> decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = torch.optim.lr_scheduler.ChainedScheduler([half, decay], optimizer)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        check(
            len(schedulers) >= 1,
            ValueError,
            "ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.",
        )
        optimizer = optimizer or getattr(schedulers[0], "optimizer", None)
        _check_members("ChainedScheduler", schedulers, optimizer)
        self._schedulers = list(schedulers)
        self.optimizer = optimizer
        self._last_lr = self._rates()

    def step(self) -> None:
        """Go on by one epoch of every schedule."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates()
