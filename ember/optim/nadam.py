"""NAdam (Dozat, 2016): Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.ops.optimizers import mean_weights, nadam_
from ember.optim.arguments import check_betas, check_learning_rate, check_not_negative
from ember.optim.optimizer import ParamsT
from ember.optim.parameterwise import ParameterwiseOptimizer, apply, in_tensors, new_scalar, number

__all__ = ["NAdam"]


class NAdam(ParameterwiseOptimizer):
    """Adam that looks ahead: with μₜ = β₁·(1 - 0.96^(t·momentum_decay)/2) the step is

    p ← p - lr·((1-μₜ)/(1-∏μ)·g + μₜ₊₁/(1-∏μ·μₜ₊₁)·m)/(√v̂ + eps). ValueError for options out of
    range.

    >>> import ember as torch
    >>> weight = torch.nn.Parameter(torch.zeros(1))
    >>> optimizer = torch.optim.NAdam([weight], lr=0.5)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 4)
    -0.5282
    """

    _later_options = (
        ("maximize", False),
        ("foreach", None),
        ("capturable", False),
        ("differentiable", False),
        ("decoupled_weight_decay", False),
    )
    _host_state = ("step", "mu_product")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_learning_rate(lr)
        check_not_negative(eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay, momentum_decay=momentum_decay)
        options = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, options)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": new_scalar(param, group),
            "mu_product": new_scalar(param, group, 1.0),
            "exp_avg": ops.zeros_like(param),
            "exp_avg_sq": ops.zeros_like(param),
        }

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        step, lr = self._count(param, state, group), number(group["lr"], group)
        beta1, beta2 = (number(beta, group) for beta in group["betas"])
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
        next_mu = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * group["momentum_decay"]))
        state["mu_product"] *= mu
        product = state["mu_product"] if in_tensors(group) else state["mu_product"].item()
        decay, decoupled = group["weight_decay"], group["decoupled_weight_decay"]
        apply(
            nadam_,
            group,
            param,
            grad,
            state["exp_avg"],
            state["exp_avg_sq"],
            grad_size=lr * (1.0 - mu) / (1.0 - product),
            mean_size=lr * next_mu / (1.0 - product * next_mu),
            shrink=1 - lr * decay if decay and decoupled else None,
            weight_decay=decay if decay and not decoupled else None,
            **mean_weights(beta1),
            beta2=beta2,
            weight2=1 - beta2,
            bias2=1 - beta2**step,
            eps=group["eps"],
            maximize=group["maximize"],
        )
