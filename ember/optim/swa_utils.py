"""Averages of a model's weights over training: stochastic weight averaging and exponential
moving averages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

import ember.ops as ops
from ember import dtypes
from ember.core.modes import no_grad
from ember.core.tensor import Tensor
from ember.errors import check
from ember.nn.modules.batchnorm import _BatchNorm
from ember.nn.modules.module import Module
from ember.optim.lr_scheduler.base import LRScheduler, per_group
from ember.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage = Callable[[Any, Any, Any], None]


def _check_decay(decay: float) -> None:
    check(
        0.0 <= decay <= 1.0,
        ValueError,
        f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.",
    )


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """A `multi_avg_fn` for exponential averages: ema ← ema + (1 - decay)·(current - ema), for
    lists of tensors."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list: Any, current_param_list: Any, _: Any) -> None:
        for ema, current in zip(ema_param_list, current_param_list, strict=True):
            if ema.is_floating_point() or ema.is_complex():
                ema.lerp_(current, 1 - decay)
            else:
                ema.copy_(ema * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> MultiAverage:
    """A `multi_avg_fn` for equal weights: mean ← mean + (current - mean)/(n + 1), for lists of
    tensors."""

    @no_grad()
    def swa_update(averaged_param_list: Any, current_param_list: Any, num_averaged: Any) -> None:
        weight = 1 / (int(num_averaged) + 1)
        for averaged, current in zip(averaged_param_list, current_param_list, strict=True):
            if averaged.is_floating_point() or averaged.is_complex():
                averaged.lerp_(current, weight)
            else:
                averaged.copy_(averaged + (current - averaged) * weight)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """An `avg_fn` for exponential averages: decay·ema + (1 - decay)·current."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Average:
    """An `avg_fn` for equal weights: mean + (current - mean)/(n + 1)."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of `model` whose parameters `update_parameters` averages with the model's; calling it
    runs the copy.

    `avg_fn(average, current, n)` returns the new average of one tensor, `multi_avg_fn(averages,
    currents, n)` writes those of lists; with neither all models count equally. Buffers are copied,
    or with `use_buffers` averaged too. AssertionError if both functions are given.

    >>> import ember as torch
    >>> model = torch.nn.Linear(1, 1)
    >>> average = torch.optim.swa_utils.AveragedModel(model)
    >>> average.update_parameters(model)
    >>> average.n_averaged.item()
    1
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        check(
            avg_fn is None or multi_avg_fn is None,
            AssertionError,
            "Only one of avg_fn and multi_avg_fn should be provided",
        )
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", ops.tensor(0, dtype=dtypes.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged copy gives."""
        return self.module(*args, **kwargs)

    def _tensors(self, model: Any) -> list[Tensor]:
        return list(
            chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()
        )

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Take the present parameters of `model` into the average; the first time, copy them."""
        averages = self._tensors(self.module)
        currents = [c.to(a.device) for a, c in zip(averages, self._tensors(model), strict=True)]
        if self.n_averaged == 0:
            for average, current in zip(averages, currents, strict=True):
                average.copy_(current)
        elif self.avg_fn is not None:
            count = self.n_averaged
            for average, current in zip(averages, currents, strict=True):
                average.copy_(self.avg_fn(average, current, count.to(average.device)))
        else:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averages, currents, self.n_averaged)
        if not self.use_buffers:
            for own, other in zip(self.module.buffers(), model.buffers(), strict=True):
                own.copy_(other.to(own.device))
        self.n_averaged += 1


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of the model's batch norms anew, by one pass over the data.

    Batches are inputs, or lists and tuples that begin with them; they are moved to `device`.
    """
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    was_training = model.training
    model.train()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # equal weights for all batches
    for batch in loader:
        data = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(data if device is None else data.to(device))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Moves each group's rate to `swa_lr` in `anneal_epochs`, along a cosine or a straight line,
    and keeps it there.

    ValueError for a strategy that is not "cos" or "linear", and for epochs that are not an integer
    of at least 0.

    >>> import ember as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    >>> scheduler = torch.optim.swa_utils.SWALR(optimizer, 0.5, 2, anneal_strategy="linear")
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(
            per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True
        ):
            group["swa_lr"] = rate
        check(
            anneal_strategy in ("cos", "linear"),
            ValueError,
            f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}",
        )
        check(
            isinstance(anneal_epochs, int) and anneal_epochs >= 0,
            ValueError,
            f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}",
        )
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _way(self, step: int) -> float:
        """How much of the way to `swa_lr` is behind after some steps."""
        part = max(0, min(1, step / max(1, self.anneal_epochs)))
        return part if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * part)) / 2

    def get_lr(self) -> list[Any]:
        """The rates of the present epoch."""
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._way(step - 1), self._way(step)
        rates = []
        for group in self.optimizer.param_groups:
            rate, target = group["lr"], group["swa_lr"]
            start = target if before == 1 else (rate - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates
