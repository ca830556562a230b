"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops.optimizers import sgd_, sgd_momentum_
from ember.optim.arguments import (
    check_fused,
    check_fused_param,
    check_learning_rate,
    check_not_negative,
)
from ember.optim.optimizer import ParamsT
from ember.optim.parameterwise import ParameterwiseOptimizer, apply, number

__all__ = ["SGD"]


class SGD(ParameterwiseOptimizer):
    """Stochastic gradient descent: p ← p - lr·g, or with momentum μ: b ← μ·b + (1 - dampening)·g, p
    ← p - lr·b.

    `weight_decay` adds its multiple of p to g; `nesterov` steps along g + μ·b (Sutskever et al.,
    2013); `maximize` climbs. ValueError for negative options, and for Nesterov without momentum or
    with dampening.

    >>> import ember as torch
    >>> weight = torch.nn.Parameter(torch.ones(2))
    >>> optimizer = torch.optim.SGD([weight], lr=0.1)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> weight.tolist()
    [0.8999999761581421, 0.8999999761581421]
    """

    _is_recordable = True

    _later_options = (
        ("nesterov", False),
        ("maximize", False),
        ("foreach", None),
        ("differentiable", False),
        ("fused", False),
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_learning_rate(lr)
        check_not_negative(momentum=momentum, weight_decay=weight_decay)
        options = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        check(
            not nesterov or (momentum > 0 and dampening == 0),
            ValueError,
            "Nesterov momentum requires a momentum and zero dampening",
        )
        super().__init__(params, options)
        check_fused(fused, foreach, differentiable)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any] | None:
        if group["fused"]:
            check_fused_param(param)
        return {} if group["momentum"] != 0 else None

    def _update_sparsely(
        self, param: Tensor, grad: Any, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        decay, momentum = number(group["weight_decay"], group), group["momentum"]
        check(
            not decay,
            RuntimeError,
            "add(sparse, dense) is not supported: SGD has no weight_decay for sparse gradients, "
            "set it to 0. Use add(dense, sparse) instead.",
        )
        grad = -grad if group["maximize"] else grad
        if momentum != 0:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = grad.detach().clone()
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        param.add_(grad, alpha=-number(group["lr"], group))  # type: ignore[attr-defined]

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        lr, decay = number(group["lr"], group), number(group["weight_decay"], group) or None
        if group["momentum"] == 0:
            apply(sgd_, group, param, grad, lr=lr, weight_decay=decay, maximize=group["maximize"])
            return
        buffer = state.get("momentum_buffer")
        first = buffer is None
        if first:
            buffer = state["momentum_buffer"] = ops.zeros_like(param)
        apply(
            sgd_momentum_,
            group,
            param,
            grad,
            buffer,
            lr=lr,
            momentum=group["momentum"],
            share=1.0
            if first
            else 1 - group["dampening"],  # the first buffer is the gradient itself
            weight_decay=decay,
            nesterov=group["nesterov"],
            maximize=group["maximize"],
        )
