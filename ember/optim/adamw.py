"""Adam with decoupled weight decay (Loshchilov and Hutter, 2017)."""

from __future__ import annotations

from typing import Any

from ember.core.tensor import Tensor
from ember.optim.adam import Adam
from ember.optim.optimizer import ParamsT

__all__ = ["AdamW"]


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter by lr·weight_decay instead of adding to the
    gradient.

    Arguments and errors as for `Adam`.

    >>> import ember as torch
    >>> weight = torch.nn.Parameter(torch.ones(1))
    >>> torch.optim.AdamW([weight], lr=0.1).param_groups[0]["weight_decay"]
    0.01
    """

    _is_recordable = True

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
