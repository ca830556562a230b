"""Checks of the arguments that many optimizers share, with PyTorch's messages."""

from __future__ import annotations

from typing import Any

from ember.core.tensor import Tensor
from ember.errors import check

FUSED_DEVICES = ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]
CAPTURABLE_DEVICES = ["cuda", "xpu", "hpu", "privateuseone", "xla"]


def check_learning_rate(lr: Any, message: str = "Invalid learning rate: {}") -> None:
    """ValueError for a negative rate, or a tensor of several."""
    if isinstance(lr, Tensor):
        check(lr.numel() == 1, ValueError, "Tensor lr must be 1-element")
    check(0.0 <= lr, ValueError, lambda: message.format(lr))


def check_not_negative(**values: Any) -> None:
    """ValueError for the first of the named values that is below 0."""
    for name, value in values.items():
        name = "epsilon" if name == "eps" else name
        check(
            0.0 <= value,
            ValueError,
            lambda name=name, value=value: f"Invalid {name} value: {value}",
        )


def check_betas(betas: tuple[Any, Any]) -> None:
    """ValueError for a decay outside [0, 1)."""
    for index in (0, 1):
        beta = betas[index]
        check(
            0.0 <= beta < 1.0,
            ValueError,
            lambda i=index, b=beta: f"Invalid beta parameter at index {i}: {b}",
        )


def check_fused(fused: Any, foreach: Any, differentiable: Any) -> None:
    """RuntimeError for options that exclude each other."""
    if not fused:
        return
    check(not differentiable, RuntimeError, "`fused` does not support `differentiable`")
    check(not foreach, RuntimeError, "`fused` and `foreach` cannot be `True` together.")


def check_fused_param(param: Tensor) -> None:
    """RuntimeError for a parameter that a fused update does not take."""
    check(
        param.is_floating_point(),
        RuntimeError,
        lambda: (
            "`fused=True` requires all the params to be floating point Tensors of supported "
            f"devices: {FUSED_DEVICES} but {param.dtype} and {param.device.type}"
        ),
    )
