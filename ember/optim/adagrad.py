"""Adagrad (Duchi, Hazan and Singer, 2011)."""

from __future__ import annotations

from typing import Any

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops.optimizers import adagrad_
from ember.optim.arguments import (
    check_fused,
    check_fused_param,
    check_learning_rate,
    check_not_negative,
)
from ember.optim.optimizer import ParamsT
from ember.optim.parameterwise import ParameterwiseOptimizer, apply, new_scalar, number

__all__ = ["Adagrad"]


class Adagrad(ParameterwiseOptimizer):
    """Adagrad: s ← s + g², p ← p - lr/(1 + (t-1)·lr_decay)·g/(√s + eps). ValueError for negative
    options.

    >>> import ember as torch
    >>> weight = torch.nn.Parameter(torch.zeros(1))
    >>> optimizer = torch.optim.Adagrad([weight], lr=0.5)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> weight.item()
    -0.5
    """

    _is_recordable = True

    _later_options = (
        ("foreach", None),
        ("maximize", False),
        ("differentiable", False),
        ("fused", None),
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_learning_rate(lr)
        check_not_negative(
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        options = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, options)
        check_fused(fused, foreach, differentiable)
        # Unlike the others, Adagrad keeps state from the beginning: checkpoints made
        # before a step have it
        for group in self.param_groups:
            for param in group["params"]:
                self._started(param, group)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if group["fused"]:
            check_fused_param(param)
        value = group["initial_accumulator_value"]
        start = complex(value, value) if param.is_complex() else value
        return {
            "step": new_scalar(param, group),
            "sum": ops.full_like(param, start, requires_grad=False),
        }

    def share_memory(self) -> None:
        """Move the state to shared memory, for processes that train the same parameters."""
        for entry in self.state.values():
            entry["step"].share_memory_()
            entry["sum"].share_memory_()

    def _update_sparsely(
        self, param: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        check(
            group["weight_decay"] == 0,
            RuntimeError,
            "weight_decay option is not compatible with sparse gradients",
        )
        step, lr = self._count(param, state, group), number(group["lr"], group)
        grad = (-grad if group["maximize"] else grad).coalesce()
        state["sum"].add_(grad * grad)
        slopes = state["sum"].sparse_mask(grad)._values().sqrt() + group["eps"]
        moved = ops.sparse_coo_tensor(grad.indices(), grad.values() / slopes, grad.shape)
        param.add_(moved, alpha=-lr / (1 + (step - 1) * group["lr_decay"]))

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        step, lr = self._count(param, state, group), number(group["lr"], group)
        apply(
            adagrad_,
            group,
            param,
            grad,
            state["sum"],
            rate=lr / (1 + (step - 1) * group["lr_decay"]),
            eps=group["eps"],
            weight_decay=group["weight_decay"] or None,
            maximize=group["maximize"],
        )
