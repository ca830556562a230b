"""Sums that keep their digits: NumPy adds in pairs along the last dim only, so float32 sums down
other long dims are made in blocks here, whose totals are added up again (Higham, Accuracy and
Stability of Numerical Algorithms, 2002, section 4.2)."""

from __future__ import annotations

from typing import Any

import numpy as np

BLOCK = 64  # elements that are added one after another
FEW = 8  # elements that are multiplied one after another
LONG = 256  # a dim from this length is summed in blocks


def wants_blocks(shape: tuple[int, ...], axes: tuple[int, ...], dtype: Any) -> bool:
    """Whether a sum over these dims would lose digits: of float32, down a long dim before the
    last."""
    return dtype in (np.float32, np.complex64) and any(
        shape[a] >= LONG and a != len(shape) - 1 for a in axes
    )


def blocked_sum(x: Any, axes: tuple[int, ...]) -> Any:
    """The sum over dims, each kept with length 1."""
    for axis in axes:
        if axis != x.ndim - 1:
            while x.shape[axis] >= LONG:
                x = _in_blocks(x, axis)
    return np.add.reduce(x, axes, keepdims=True)


def _in_blocks(x: Any, axis: int) -> Any:
    """Totals of blocks along a dim; what is left over is a block too."""
    count = x.shape[axis] // BLOCK
    whole = count * BLOCK
    lead = (slice(None),) * axis
    head = x[(*lead, slice(0, whole))]
    split = head.reshape(*x.shape[:axis], count, BLOCK, *x.shape[axis + 1 :])
    totals = np.add.reduce(split, axis + 1)
    if whole == x.shape[axis]:
        return totals
    rest = np.add.reduce(x[(*lead, slice(whole, None))], axis, keepdims=True)
    return np.concatenate([totals, rest], axis)


def wants_halves(shape: tuple[int, ...], axes: tuple[int, ...], dtype: Any) -> bool:
    """Whether a product is one of many floats along the last dim alone, where NumPy multiplies
    each with what the one before gave."""
    return axes == (len(shape) - 1,) and shape[-1] >= LONG and np.dtype(dtype).kind == "f"


def halved_product(x: Any) -> Any:
    """The product along the last dim, kept with length 1: of halves with each other, whole vectors
    at a time."""
    while x.shape[-1] >= 2 * FEW:
        half = x.shape[-1] // 2
        made = x[..., :half] * x[..., half : 2 * half]
        if x.shape[-1] % 2:
            made[..., :1] *= x[..., -1:]
        x = made
    return np.multiply.reduce(x, -1, keepdims=True)
