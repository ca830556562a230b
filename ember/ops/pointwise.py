"""The elementwise ops that Python's operators and other families build on, under one name."""

from __future__ import annotations

from ember.ops.arithmetic import (
    abs_,
    add,
    floor_divide,
    mul,
    neg,
    power,
    remainder,
    sub,
    true_divide,
)
from ember.ops.choices import where_
from ember.ops.comparisons import (
    bitwise_and,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    eq,
    ge,
    gt,
    le,
    lt,
    ne,
)

__all__ = [
    "abs_", "add", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "eq", "floor_divide", "ge", "gt", "le", "lt", "mul",
    "ne", "neg", "power", "remainder", "sub", "true_divide", "where_",
]  # fmt: skip
