"""Resilient backpropagation (Riedmiller and Braun, 1993)."""

from __future__ import annotations

from typing import Any

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops.optimizers import rprop_
from ember.optim.arguments import check_learning_rate
from ember.optim.optimizer import ParamsT
from ember.optim.parameterwise import ParameterwiseOptimizer, apply, new_scalar, number

__all__ = ["Rprop"]


class Rprop(ParameterwiseOptimizer):
    """Rprop: each element has a step of its own, grown while its gradient keeps its sign and shrunk
    when it turns.

    `etas` are the factors for shrinking and growing, `step_sizes` the bounds; the first steps are
    lr. ValueError unless 0 < etas[0] < 1 < etas[1].

    >>> import ember as torch
    >>> weight = torch.nn.Parameter(torch.zeros(2))
    >>> optimizer = torch.optim.Rprop([weight], lr=0.5)
    >>> (weight * torch.tensor([3.0, -0.1])).sum().backward()
    >>> optimizer.step()
    >>> weight.tolist()
    [-0.5, 0.5]
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_learning_rate(lr)
        check(
            0.0 < etas[0] < 1.0 < etas[1],
            ValueError,
            lambda: f"Invalid eta values: {etas[0]}, {etas[1]}",
        )
        options = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, options)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        lr = number(group["lr"], {})
        first = complex(lr, lr) if param.is_complex() else lr
        return {
            "step": new_scalar(param, group),
            "prev": ops.zeros_like(param),
            "step_size": ops.full_like(param, first, requires_grad=False),
        }

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        self._count(param, state, group)
        shrink, grow = group["etas"]
        smallest, largest = group["step_sizes"]
        apply(
            rprop_,
            group,
            param,
            grad,
            state["prev"],
            state["step_size"],
            shrink=shrink,
            grow=grow,
            smallest=smallest,
            largest=largest,
            maximize=group["maximize"],
        )
