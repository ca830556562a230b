"""Adam (Kingma and Ba, 2014), also with decoupled weight decay and AMSGrad."""

from __future__ import annotations

from typing import Any

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops.optimizers import adam_, adam_amsgrad_, mean_weights
from ember.optim.arguments import (
    check_betas,
    check_fused,
    check_fused_param,
    check_learning_rate,
    check_not_negative,
)
from ember.optim.optimizer import ParamsT
from ember.optim.parameterwise import ParameterwiseOptimizer, apply, new_scalar, number

__all__ = ["Adam"]


class Adam(ParameterwiseOptimizer):
    """Adam: m ← β₁·m + (1-β₁)·g, v ← β₂·v + (1-β₂)·g², p ← p - lr·m̂/(√v̂ + eps), m̂ = m/(1-β₁ᵗ),
    v̂ = v/(1-β₂ᵗ).

    `weight_decay` adds its multiple of p to g, or with `decoupled_weight_decay` shrinks p by lr
    times it (AdamW); `amsgrad` divides by the greatest v so far (Reddi et al., 2018). Rates and
    betas may be one-element tensors. ValueError for options out of range.

    >>> import ember as torch
    >>> weight = torch.nn.Parameter(torch.zeros(1))
    >>> optimizer = torch.optim.Adam([weight], lr=0.5)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 6)
    -0.5
    """

    _is_recordable = True

    _later_options = (
        ("amsgrad", False),
        ("maximize", False),
        ("foreach", None),
        ("capturable", False),
        ("differentiable", False),
        ("decoupled_weight_decay", False),
        ("fused", None),
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        _check_tensors(lr, betas, capturable, foreach)
        check_learning_rate(lr)
        check_not_negative(eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        options = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, options)
        check_fused(fused, foreach, differentiable)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if group["fused"]:
            check_fused_param(param)
        state = {
            "step": new_scalar(param, group),
            "exp_avg": ops.zeros_like(param),
            "exp_avg_sq": ops.zeros_like(param),
        }
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = ops.zeros_like(param)
        return state

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        step, lr = self._count(param, state, group), number(group["lr"], group)
        beta1, beta2 = number(group["betas"][0], group), number(group["betas"][1], group)
        decay, decoupled = group["weight_decay"], group["decoupled_weight_decay"]
        update, extra = adam_, ()
        if group["amsgrad"]:
            update, extra = adam_amsgrad_, (state["max_exp_avg_sq"],)
        apply(
            update,
            group,
            param,
            grad,
            state["exp_avg"],
            state["exp_avg_sq"],
            *extra,
            step_size=lr / (1 - beta1**step),
            shrink=1 - lr * decay if decay and decoupled else None,
            weight_decay=decay if decay and not decoupled else None,
            **mean_weights(beta1),
            beta2=beta2,
            weight2=1 - beta2,
            root2=(1 - beta2**step) ** 0.5,
            eps=group["eps"],
            maximize=group["maximize"],
        )


def _check_tensors(lr: Any, betas: tuple[Any, Any], capturable: bool, foreach: bool | None) -> None:
    hint = "as a Tensor is not supported for capturable=False and foreach=True"
    lists = foreach and not capturable
    check(not (isinstance(lr, Tensor) and lists), ValueError, f"lr {hint}")
    tensors = [isinstance(beta, Tensor) for beta in betas]
    check(
        all(tensors) or not any(tensors),
        ValueError,
        "betas must be either both floats or both Tensors",
    )
    for index, beta in enumerate(betas):
        if isinstance(beta, Tensor):
            check(not lists, ValueError, f"betas[{index}] {hint}")
            check(beta.numel() == 1, ValueError, f"Tensor betas[{index}] must be 1-element")
