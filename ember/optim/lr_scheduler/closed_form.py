"""Schedules with a formula: steps, factors, exponentials, polynomials, cosines."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from ember.errors import check
from ember.optim.lr_scheduler.base import LRScheduler
from ember.optim.optimizer import Optimizer

__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "StepLR",
]

Lambdas = Callable[[int], float] | list[Callable[[int], float]]


class _WithLambdas(LRScheduler):
    """A schedule from one function of the epoch a group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Lambdas, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        if isinstance(lr_lambda, (list, tuple)):
            check(
                len(lr_lambda) == count,
                ValueError,
                f"Expected {count} lr_lambdas, but got {len(lr_lambda)}",
            )
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * count
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and the functions; of callable objects, their attributes."""
        state = {
            key: value
            for key, value in self.__dict__.items()
            if key not in ("optimizer", "lr_lambdas")
        }
        state["lr_lambdas"] = [
            None if isinstance(function, FunctionType) else dict(function.__dict__)
            for function in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; functions stay, callable objects get their
        attributes."""
        rest = {key: value for key, value in state_dict.items() if key != "lr_lambdas"}
        self.__dict__.update(rest)
        for function, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=False):
            if attributes is not None:
                function.__dict__.update(attributes)


class LambdaLR(_WithLambdas):
    """lr = initial lr · lr_lambda(epoch). ValueError for a list of functions that is not one a
    group.

    >>> import ember as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5)
    >>> scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def get_lr(self) -> list[Any]:
        """The rates of the present epoch."""
        self._warn_outside_step()
        return [
            base * f(self.last_epoch)
            for f, base in zip(self.lr_lambdas, self.base_lrs, strict=False)
        ]


class MultiplicativeLR(_WithLambdas):
    """Each epoch after the first multiplies lr by lr_lambda(epoch). ValueError as for `LambdaLR`.

    >>> import ember as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5)
    >>> scheduler = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def get_lr(self) -> list[Any]:
        """The rates of the present epoch."""
        self._warn_outside_step()
        rates = self._rates()
        if self._is_initial:
            return rates
        return [rate * f(self.last_epoch) for f, rate in zip(self.lr_lambdas, rates, strict=False)]


class StepLR(LRScheduler):
    """Multiplies lr by `gamma` every `step_size` epochs.

    >>> import ember as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5)
    >>> scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates of the present epoch."""
        self._warn_outside_step()
        rates = self._rates()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return rates
        return [rate * self.gamma for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiplies lr by `gamma` at each of the `milestones`, epochs of which one may be named more
    than once.

    >>> import ember as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5)
    >>> scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 5], gamma=0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates of the present epoch."""
        self._warn_outside_step()
        rates = self._rates()
        if self.last_epoch not in self.milestones:
            return rates
        return [rate * self.gamma ** self.milestones[self.last_epoch] for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """lr·factor for the first `total_iters` epochs, lr afterwards. ValueError unless 0 <= factor <=
    1.

    >>> import ember as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5)
    >>> torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5).get_last_lr()
    [0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        check(
            0 <= factor <= 1.0,
            ValueError,
            "Constant multiplicative factor expected to be between 0 and 1.",
        )
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates of the present epoch."""
        self._warn_outside_step()
        rates = self._rates()
        if self.last_epoch == 0:
            return [rate * self.factor for rate in rates]
        if self.last_epoch != self.total_iters:
            return rates
        return [rate * (1.0 / self.factor) for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """lr·f, where f goes in a straight line from `start_factor` to `end_factor` in `total_iters`
    epochs.

    ValueError unless 0 < start_factor <= 1 and 0 <= end_factor <= 1.

    >>> import ember as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        check(
            0 < start_factor <= 1.0,
            ValueError,
            "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.",
        )
        check(
            0 <= end_factor <= 1.0,
            ValueError,
            "Ending multiplicative factor expected to be between 0 and 1.",
        )
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates of the present epoch."""
        self._warn_outside_step()
        rates = self._rates()
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in rates]
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return [rate * (1.0 + rise / before) for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        rise = (
            (self.end_factor - self.start_factor)
            * min(self.total_iters, self.last_epoch)
            / self.total_iters
        )
        return [base * (self.start_factor + rise) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiplies lr by `gamma` every epoch.

    >>> import ember as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5)
    >>> scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates of the present epoch."""
        self._warn_outside_step()
        rates = self._rates()
        return rates if self._is_initial else [rate * self.gamma for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """lr·(1 - epoch/total_iters)^power, and 0 from `total_iters` on.

    >>> import ember as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=2, power=2.0)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates of the present epoch."""
        self._warn_outside_step()
        rates = self._rates()
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates
        left, left_before = (
            1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1)
        )
        return [rate * (left / left_before) ** self.power for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


def _pi_fraction(epoch: float, period: float) -> float:
    """cos(π·epoch/period), the shape of cosine annealing."""
    return math.cos(math.pi * epoch / period)


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from lr down to `eta_min` in `T_max` epochs, and up again (Loshchilov and
    Hutter, 2016).

    >>> import ember as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates of the present epoch."""
        self._warn_outside_step()
        epoch, low, rates = self.last_epoch, self.eta_min, self._rates()
        if epoch == 0 or self._is_initial:
            return rates
        if (epoch - 1 - self.T_max) % (
            2 * self.T_max
        ) == 0:  # the rate before was eta_min: nothing to scale
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                rate + (base - low) * rise for base, rate in zip(self.base_lrs, rates, strict=False)
            ]
        ratio = (1 + _pi_fraction(epoch, self.T_max)) / (1 + _pi_fraction(epoch - 1, self.T_max))
        return [ratio * (rate - low) + low for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        low, height = self.eta_min, 1 + _pi_fraction(self.last_epoch, self.T_max)
        return [low + (base - low) * height / 2 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosines from lr to `eta_min` one after another: the first lasts `T_0` epochs, each later one
    `T_mult` times longer.

    `step(epoch)` takes fractions of epochs. ValueError unless T_0 and T_mult are integers of at
    least 1 (Loshchilov and Hutter, 2016).

    >>> import ember as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> scheduler.step(1)
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        check(
            T_0 > 0 and isinstance(T_0, int),
            ValueError,
            f"Expected positive integer T_0, but got {T_0}",
        )
        check(
            T_mult >= 1 and isinstance(T_mult, int),
            ValueError,
            f"Expected integer T_mult >= 1, but got {T_mult}",
        )
        check(
            isinstance(eta_min, (float, int)),
            ValueError,
            f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}",
        )
        self.T_0 = T_0
        self.T_i: float = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates of the present epoch."""
        self._warn_outside_step()
        height = 1 + _pi_fraction(self.T_cur, self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on by one epoch, or to `epoch`, which may be a fraction. ValueError for a negative
        one."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            check(epoch >= 0, ValueError, f"Expected non-negative epoch, but got {epoch}")
            self._place(epoch)
        self.last_epoch = math.floor(epoch)
        with self._inside_step():
            values = self.get_lr()
        self._set_rates(values)

    def _place(self, epoch: float) -> None:
        """Find the cosine that `epoch` falls into, and how far into it."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n
