"""RMSprop (Hinton, Coursera lecture 6e, 2012)."""

from __future__ import annotations

from typing import Any

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.ops.optimizers import (
    mean_weights,
    rmsprop_,
    rmsprop_centered_,
    rmsprop_centered_momentum_,
    rmsprop_momentum_,
)
from ember.optim.arguments import check_learning_rate, check_not_negative
from ember.optim.optimizer import ParamsT
from ember.optim.parameterwise import ParameterwiseOptimizer, apply, new_scalar, number

__all__ = ["RMSprop"]

# The update and the state that it uses, by (centered, with momentum)
_VARIANTS: dict[tuple[bool, bool], tuple[Any, tuple[str, ...]]] = {
    (False, False): (rmsprop_, ("square_avg",)),
    (False, True): (rmsprop_momentum_, ("square_avg", "momentum_buffer")),
    (True, False): (rmsprop_centered_, ("square_avg", "grad_avg")),
    (True, True): (rmsprop_centered_momentum_, ("square_avg", "grad_avg", "momentum_buffer")),
}


class RMSprop(ParameterwiseOptimizer):
    """RMSprop: v ← α·v + (1-α)·g², p ← p - lr·g/(√v + eps).

    `centered` divides by √(v - ḡ²), with ḡ the running mean of g (Graves, 2013); `momentum`
    accumulates the steps. ValueError for negative options.

    >>> import ember as torch
    >>> weight = torch.nn.Parameter(torch.zeros(1))
    >>> optimizer = torch.optim.RMSprop([weight], lr=0.5, alpha=0.75)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> weight.item()
    -1.0
    """

    _is_recordable = True

    _later_options = (
        ("momentum", 0),
        ("centered", False),
        ("foreach", None),
        ("maximize", False),
        ("differentiable", False),
        ("capturable", False),
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_learning_rate(lr)
        check_not_negative(eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        options = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, options)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": new_scalar(param, group), "square_avg": ops.zeros_like(param)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = ops.zeros_like(param)
        if group["centered"]:
            state["grad_avg"] = ops.zeros_like(param)
        return state

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        self._count(param, state, group)
        numbers = {
            "lr": number(group["lr"], group),
            "alpha": group["alpha"],
            "weight": 1 - group["alpha"],
            "eps": group["eps"],
            "weight_decay": group["weight_decay"] or None,
            "maximize": group["maximize"],
        }
        if group["momentum"] > 0:
            numbers["momentum"] = group["momentum"]
        if group["centered"]:
            numbers.update(mean_weights(group["alpha"]))
        update, names = _VARIANTS[bool(group["centered"]), group["momentum"] > 0]
        apply(update, group, param, grad, *(state[name] for name in names), **numbers)
