"""Adafactor (Shazeer and Stern, 2018): Adam's second moment, kept as one row and one column."""

from __future__ import annotations

from typing import Any

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.dtypes import finfo
from ember.errors import check
from ember.optim.arguments import check_learning_rate
from ember.optim.optimizer import ParamsT, _get_value
from ember.optim.parameterwise import ParameterwiseOptimizer

__all__ = ["Adafactor"]


class Adafactor(ParameterwiseOptimizer):
    """Adafactor: v ≈ row·col/mean(row) of the running mean of g², u = g/√v clipped to
    root-mean-square d,

    p ← p - max(eps₂, rms(p))·min(lr, 1/√t)·u. A vector keeps its whole v. `eps` is (eps₁, eps₂);
    eps₁ None is the dtype's. ValueError for options out of range, RuntimeError for complex
    parameters.

    >>> import ember as torch
    >>> weight = torch.nn.Parameter(torch.ones(3, 2))
    >>> optimizer = torch.optim.Adafactor([weight])
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> sorted((name, tuple(value.shape)) for name, value in optimizer.state[weight].items())
    [('col_var', (1, 2)), ('row_var', (3, 1)), ('step', ())]
    """

    _later_options = (("foreach", None),)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_learning_rate(lr, "Learning rate should be >= 0 but is: {}")
        check(beta2_decay <= 0.0, ValueError, f"beta2_decay should be <= 0 but is: {beta2_decay}")
        check(
            eps[0] is None or eps[0] >= 0.0, ValueError, f"epsilon1 should be >= 0 but is: {eps[0]}"
        )
        check(eps[1] >= 0.0, ValueError, f"epsilon2 should be >= 0 but is: {eps[1]}")
        check(d >= 1.0, ValueError, f"Clipping threshold d should be >= 1 but is: {d}")
        check(
            weight_decay >= 0.0, ValueError, f"weight_decay should be >= 0 but is: {weight_decay}"
        )
        options = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, options)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        check(not param.is_complex(), RuntimeError, "Adafactor does not support complex parameters")
        state = {"step": ops.tensor(0.0)}
        if param.dim() > 1:
            state["row_var"] = param.new_zeros((*param.shape[:-1], 1))
            state["col_var"] = param.new_zeros((*param.shape[:-2], 1, param.shape[-1]))
        else:
            state["variance"] = ops.zeros_like(param)
        return state

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        eps1, eps2 = group["eps"]
        eps1 = finfo(param.dtype).eps if eps1 is None else eps1
        grad = -grad if group["maximize"] else grad
        step, lr = self._count(param, state, group), _get_value(group["lr"])
        rate = min(lr, 1 / step**0.5) * max(eps2, param.norm(2).item() / param.numel() ** 0.5)
        if group["weight_decay"] != 0:
            param.mul_(1 - lr * group["weight_decay"])
        variance = self._variance(grad, state, step ** group["beta2_decay"], eps1)
        update = variance.clamp_(min=eps1 * eps1).rsqrt_().mul_(grad)
        clipping = max(1.0, update.norm(2).item() / (update.numel() ** 0.5 * group["d"]))
        param.add_(update, alpha=-rate / clipping)

    @staticmethod
    def _variance(grad: Tensor, state: dict[str, Any], weight: float, eps1: float) -> Tensor:
        """The running mean of grad², from the means over rows and over columns; a fresh tensor."""
        if grad.dim() <= 1:
            return state["variance"].lerp_(grad.square(), weight).clone()
        row, col = state["row_var"], state["col_var"]
        row.lerp_(grad.norm(dim=-1, keepdim=True).square_().div_(grad.size(-1)), weight)
        col.lerp_(grad.norm(dim=-2, keepdim=True).square_().div_(grad.size(-2)), weight)
        return (row @ col).div_(row.mean(dim=-2, keepdim=True).clamp_(min=eps1))
