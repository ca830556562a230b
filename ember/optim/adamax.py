"""Adamax (Kingma and Ba, 2014): Adam with the maximum norm."""

from __future__ import annotations

from typing import Any

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.ops.optimizers import adamax_, mean_weights
from ember.optim.arguments import check_betas, check_learning_rate, check_not_negative
from ember.optim.optimizer import ParamsT
from ember.optim.parameterwise import ParameterwiseOptimizer, apply, new_scalar, number

__all__ = ["Adamax"]


class Adamax(ParameterwiseOptimizer):
    """Adamax: m ← β₁·m + (1-β₁)·g, u ← max(β₂·u, |g| + eps), p ← p - lr/(1-β₁ᵗ)·m/u.

    ValueError for options out of range.

    >>> import ember as torch
    >>> weight = torch.nn.Parameter(torch.zeros(1))
    >>> optimizer = torch.optim.Adamax([weight], lr=0.5)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 6)
    -0.5
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_learning_rate(lr)
        check_not_negative(eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        options = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, options)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": new_scalar(param, group),
            "exp_avg": ops.zeros_like(param),
            "exp_inf": ops.zeros_like(param),
        }

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        step, lr = self._count(param, state, group), number(group["lr"], group)
        beta1, beta2 = (number(beta, group) for beta in group["betas"])
        apply(
            adamax_,
            group,
            param,
            grad,
            state["exp_avg"],
            state["exp_inf"],
            step_size=lr / (1 - beta1**step),
            weight_decay=group["weight_decay"] or None,
            **mean_weights(beta1),
            beta2=beta2,
            eps=group["eps"],
            maximize=group["maximize"],
        )
