"""Adam for sparse gradients: only the rows that have a gradient are touched."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ember.ops as ops
from ember.core.modes import enable_grad, no_grad
from ember.core.tensor import Tensor
from ember.errors import check
from ember.optim.optimizer import Optimizer, ParamsT, _get_value

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam (Kingma and Ba, 2015) in which moments and parameters change only where the gradient, a
    sparse tensor, has elements.

    ValueError for options out of range and sparse parameters; RuntimeError for a dense gradient.

    >>> import ember as torch
    >>> table = torch.nn.Embedding(10, 3, sparse=True)
    >>> optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
    >>> table(torch.tensor([1, 4])).sum().backward()
    >>> optimizer.step()
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check(_get_value(lr) > 0, ValueError, f"Invalid learning rate: {lr}")
        check(eps > 0, ValueError, f"Invalid epsilon value: {eps}")
        for index, beta in enumerate(betas):
            check(0 <= beta < 1, ValueError, f"Invalid beta parameter at index {index}: {beta}")
        options = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        super().__init__(params, options)
        sparse = [
            [at, position]
            for at, group in enumerate(self.param_groups)
            for position, param in enumerate(group["params"])
            if param._array.kind != "strided"
        ]
        check(
            not sparse,
            ValueError,
            f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors",
        )

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; returns what `closure`, called first,
        returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self._update(param, param.grad, group)
        return loss

    def _update(self, param: Any, grad: Any, group: dict[str, Any]) -> None:
        check(
            grad._array.kind == "sparse_coo",
            RuntimeError,
            "SparseAdam does not support dense gradients, please consider Adam instead",
        )
        state = self.state[param]
        if not state:
            state["step"] = 0
            state["exp_avg"] = ops.zeros_like(param)
            state["exp_avg_sq"] = ops.zeros_like(param)
        state["step"] += 1
        grad = (-grad if group["maximize"] else grad).coalesce()
        if not grad._nnz():
            return
        (beta1, beta2), step = group["betas"], state["step"]
        values = grad.values()
        mean = self._moved(state["exp_avg"], grad, values, beta1)
        spread = self._moved(state["exp_avg_sq"], grad, values * values, beta2)
        rate = _get_value(group["lr"]) * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        change = mean / (spread.sqrt() + group["eps"])
        param.add_(ops.sparse_coo_tensor(grad.indices(), change, grad.shape), alpha=-rate)

    @staticmethod
    def _moved(moment: Any, grad: Any, values: Tensor, beta: float) -> Any:
        """Let a moment go towards `values` where the gradient is; what it is there afterwards."""
        before: Any = moment.sparse_mask(grad)._values()
        change = (values - before) * (1 - beta)
        moment.add_(ops.sparse_coo_tensor(grad.indices(), change, grad.shape))
        return before + change
