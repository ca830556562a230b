"""Averaged stochastic gradient descent (Polyak and Juditsky, 1992)."""

from __future__ import annotations

from typing import Any

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.ops.optimizers import asgd_
from ember.optim.arguments import check_learning_rate, check_not_negative
from ember.optim.optimizer import ParamsT
from ember.optim.parameterwise import ParameterwiseOptimizer, apply, in_tensors, new_scalar, number

__all__ = ["ASGD"]


class ASGD(ParameterwiseOptimizer):
    """Gradient descent whose iterates are averaged from step `t0` on, into the state "ax".

    p ← (1 - λ·η)·p - η·g, ax ← ax + μ·(p - ax), with η = lr/(1 + λ·lr·t)^alpha and μ = 1/max(1, t -
    t0). ValueError for negative options.

    >>> import ember as torch
    >>> weight = torch.nn.Parameter(torch.zeros(1))
    >>> optimizer = torch.optim.ASGD([weight], lr=0.5)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> weight.item()
    -0.5
    """

    _host_state = ("step", "eta", "mu")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_learning_rate(lr)
        check_not_negative(weight_decay=weight_decay)
        options = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, options)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        lr = number(group["lr"], group)
        eta = new_scalar(param, group, 0.0 if isinstance(lr, Tensor) else lr)
        return {
            "step": new_scalar(param, group),
            "eta": eta.copy_(lr) if isinstance(lr, Tensor) else eta,
            "mu": new_scalar(param, group, 1.0),
            "ax": ops.zeros_like(param),
        }

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        step, lr = self._count(param, state, group), number(group["lr"], group)
        eta, mu = state["eta"], state["mu"]
        apply(
            asgd_,
            group,
            param,
            grad,
            state["ax"],
            eta=number(eta, group),
            shrink=1 - group["lambd"] * number(eta, group),
            mu=None if not in_tensors(group) and mu.item() == 1 else number(mu, group),
            weight_decay=group["weight_decay"] or None,
            maximize=group["maximize"],
        )
        new_eta = lr / ((1 + group["lambd"] * lr * step) ** group["alpha"])
        if in_tensors(group):
            eta.copy_(new_eta)
            mu.copy_(1 / ops.clamp(step - group["t0"], min=1))
        else:
            eta.fill_(new_eta)
            mu.fill_(1 / max(1, step - group["t0"]))
