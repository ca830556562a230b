"""RAdam (Liu et al., 2019): Adam with a rectified adaptive rate."""

from __future__ import annotations

from typing import Any

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.ops.optimizers import mean_weights, radam_
from ember.optim.arguments import check_betas, check_learning_rate, check_not_negative
from ember.optim.optimizer import ParamsT
from ember.optim.parameterwise import ParameterwiseOptimizer, apply, in_tensors, new_scalar, number

__all__ = ["RAdam"]


class RAdam(ParameterwiseOptimizer):
    """Adam whose adaptive rate waits until its variance is finite (ρₜ > 5), and is scaled by its
    rectification r.

    p ← p - lr·m̂·r·√(1-β₂ᵗ)/(√v + eps) then, p ← p - lr·m̂ before. ValueError for options out of
    range.

    >>> import ember as torch
    >>> weight = torch.nn.Parameter(torch.zeros(1))
    >>> optimizer = torch.optim.RAdam([weight], lr=0.5)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 6)
    -0.5
    """

    _later_options = (
        ("maximize", False),
        ("foreach", None),
        ("differentiable", False),
        ("decoupled_weight_decay", False),
        ("capturable", False),
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
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
        check_not_negative(weight_decay=weight_decay)
        options = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, options)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": new_scalar(param, group),
            "exp_avg": ops.zeros_like(param),
            "exp_avg_sq": ops.zeros_like(param),
        }

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        step, lr = self._count(param, state, group), number(group["lr"], group)
        beta1, beta2 = (number(beta, group) for beta in group["betas"])
        decay, decoupled = group["weight_decay"], group["decoupled_weight_decay"]
        apply(
            radam_,
            group,
            param,
            grad,
            state["exp_avg"],
            state["exp_avg_sq"],
            lr=lr,
            bias1=1 - beta1**step,
            rectified=_rectification(beta2, step, in_tensors(group)),
            shrink=1 - lr * decay if decay and decoupled else None,
            weight_decay=decay if decay and not decoupled else None,
            **mean_weights(beta1),
            beta2=beta2,
            weight2=1 - beta2,
            eps=group["eps"],
            maximize=group["maximize"],
        )


def _rectification(beta2: Any, step: Any, tensors: bool) -> Any:
    """r·√(1-β₂ᵗ), the numerator of the adaptive rate; None (as a tensor: 0) while its variance
    is not finite."""
    bias2 = 1 - beta2**step
    longest = 2 / (1 - beta2) - 1  # ρ∞, the greatest length of the average
    length = longest - 2 * step * (beta2**step) / bias2
    if not tensors and length <= 5.0:
        return None
    variance = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    if tensors:
        return ops.where(length > 5.0, (variance * bias2) ** 0.5, 0.0)
    return variance**0.5 * bias2**0.5
