"""Muon (Jordan et al., 2024): momentum whose matrix is orthogonalised by Newton-Schulz
iterations."""

from __future__ import annotations

from typing import Any

import ember.ops as ops
from ember import dtypes
from ember.core.tensor import Tensor
from ember.errors import check
from ember.optim.arguments import check_learning_rate
from ember.optim.optimizer import ParamsT, _get_value
from ember.optim.parameterwise import ParameterwiseOptimizer

__all__ = ["Muon"]


class Muon(ParameterwiseOptimizer):
    """Muon: b ← μ·b + (1-μ)·g, p ← (1 - lr·decay)·p - lr·scale·orthogonalised(b); for matrices
    only.

    `adjust_lr_fn` is None or "original" (scale √max(1, rows/columns)) or "match_rms_adamw"
    (0.2·√max(rows, columns)). The iterations run in bfloat16. ValueError for options out of range
    and for parameters that are no matrices, RuntimeError for complex ones.

    >>> import ember as torch
    >>> weight = torch.nn.Parameter(torch.eye(2))
    >>> optimizer = torch.optim.Muon([weight], lr=0.1)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> bool((weight < torch.eye(2)).all())
    True
    """

    _later_options = ()

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_learning_rate(lr, "Learning rate should be >= 0 but is: {}")
        check(momentum >= 0.0, ValueError, f"momentum should be >= 0 but is: {momentum}")
        check(
            weight_decay >= 0.0, ValueError, f"weight decay should be >= 0 but is: {weight_decay}"
        )
        check(
            adjust_lr_fn in (None, "original", "match_rms_adamw"),
            ValueError,
            f"Adjust learning rate function {adjust_lr_fn} is not supported",
        )
        options = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, options)
        for group in self.param_groups:
            for param in group["params"]:
                check(
                    param.dim() == 2,
                    ValueError,
                    "Muon only supports 2D parameters whereas we found a parameter with size: "
                    f"{param.size()}",
                )

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        check(not param.is_complex(), RuntimeError, "Muon does not support complex parameters")
        return {"momentum_buffer": ops.zeros_like(param)}

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        lr, momentum = _get_value(group["lr"]), group["momentum"]
        buffer = state["momentum_buffer"]
        buffer.lerp_(grad, 1 - momentum)
        update = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
        update = orthogonalised(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = param.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            scale = 0.2 * max(rows, columns) ** 0.5
        else:
            scale = max(1, rows / columns) ** 0.5
        param.mul_(1 - lr * group["weight_decay"])
        param.add_(update, alpha=-lr * scale)


def orthogonalised(
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """A matrix with the singular vectors of `matrix` and singular values near 1, in bfloat16.

    X ← a·X + (b·XXᵀ + c·(XXᵀ)²)·X for `steps` times, from X = matrix/‖matrix‖.
    """
    check(
        steps < 100,
        ValueError,
        "Number of steps must be less than 100 for computational efficiency",
    )
    check(len(coefficients) == 3, ValueError, "Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = matrix.size(0) > matrix.size(1)
    x = matrix.to(dtypes.bfloat16)
    x = x.t() if tall else x
    x = x.div(x.norm().clamp(min=eps))
    for _ in range(steps):
        gram = x @ x.t()
        x = ops.addmm(x, ops.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.t() if tall else x
