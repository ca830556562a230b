"""`fp32_precision` of a kind of op: whether float32 inputs may be rounded ("tf32", "bf16") or not
("ieee"); "none" leaves it to the setting above."""

from __future__ import annotations

from typing import Any

from ember.errors import check

PRECISIONS = ("none", "ieee", "tf32", "bf16")


class Precision:
    """The precision of one kind of op, such as `torch.backends.cudnn.conv`. On the CPU and on
    simulated GPUs it changes nothing: float32 is computed as float32.

    >>> import ember as torch
    >>> torch.backends.cudnn.conv.fp32_precision
    'tf32'
    """

    def __init__(self, fp32_precision: str = "none"):
        self.fp32_precision = fp32_precision

    def __setattr__(self, name: str, value: Any) -> None:
        check(name == "fp32_precision", AttributeError, f"Unknown attribute {name}")
        check(
            value in PRECISIONS,
            RuntimeError,
            f"fp32_precision is one of {', '.join(PRECISIONS)}, not {value!r}",
        )
        super().__setattr__(name, value)
