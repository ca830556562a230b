"""Adadelta (Zeiler, 2012)."""

from __future__ import annotations

from typing import Any

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops.optimizers import adadelta_
from ember.optim.arguments import check_learning_rate, check_not_negative
from ember.optim.optimizer import ParamsT
from ember.optim.parameterwise import ParameterwiseOptimizer, apply, new_scalar, number

__all__ = ["Adadelta"]


class Adadelta(ParameterwiseOptimizer):
    """Adadelta: v ← ρ·v + (1-ρ)·g², d = √(u + eps)/√(v + eps)·g, u ← ρ·u + (1-ρ)·d², p ← p - lr·d.

    ValueError for options out of range.

    >>> import ember as torch
    >>> weight = torch.nn.Parameter(torch.zeros(1))
    >>> optimizer = torch.optim.Adadelta([weight], rho=0.75)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> round(weight.item(), 6)
    -0.002
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_learning_rate(lr)
        check(0.0 <= rho <= 1.0, ValueError, f"Invalid rho value: {rho}")
        check_not_negative(eps=eps, weight_decay=weight_decay)
        options = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, options)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": new_scalar(param, group),
            "square_avg": ops.zeros_like(param),
            "acc_delta": ops.zeros_like(param),
        }

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        self._count(param, state, group)
        apply(
            adadelta_,
            group,
            param,
            grad,
            state["square_avg"],
            state["acc_delta"],
            lr=number(group["lr"], group),
            rho=group["rho"],
            weight=1 - group["rho"],
            eps=group["eps"],
            weight_decay=group["weight_decay"] or None,
            maximize=group["maximize"],
        )
