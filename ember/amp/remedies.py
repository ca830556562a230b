"""What helps against an op that overflowed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ember import dtypes
from ember.amp.step_template import Noted

LARGEST = {dtypes.float16: 65504.0, dtypes.bfloat16: 3.39e38, dtypes.float32: 3.40e38}
_BY_OP = {
    "div": "the divisor has zeros or numbers close to them: add a small eps, or clamp it away",
    "true_divide": "the divisor has zeros or numbers close to them: add a small eps, or clamp it",
    "reciprocal": "the operand has zeros or numbers close to them: add a small eps, or clamp it",
    "log": "the operand has zeros or negatives: clamp(min=eps), or log_softmax for log of softmax",
    "log2": "the operand has zeros or negatives: clamp(min=eps)",
    "log10": "the operand has zeros or negatives: clamp(min=eps)",
    "log1p": "the operand reaches -1 or less: clamp it",
    "sqrt": "the slope of sqrt at 0 is infinite, and below 0 it is NaN: clamp(min=eps) before it",
    "rsqrt": "the operand has zeros or negatives: add a small eps",
    "exp": "exp of more than 88.7 leaves float32 (11.1: float16): subtract the largest value "
    "first, as softmax and logsumexp do",
    "expm1": "exp of more than 88.7 leaves float32 (11.1: float16): clamp the operand",
    "pow": "the power is too large, or the base is 0 or negative: clamp the base",
    "softmax": "a row is all -inf, as when a mask hides everything: let each row see something",
    "log_softmax": "a row is all -inf, as when a mask hides everything: let each row see something",
    "acos": "the operand reaches 1, where the slope is infinite: clamp it inside (-1, 1)",
    "asin": "the operand reaches 1, where the slope is infinite: clamp it inside (-1, 1)",
    "norm": "the slope of the norm at 0 is NaN: add a small eps inside the root",
    "std": "the slope of std is NaN where all elements are equal: add a small eps to the variance",
}


def magnitude(values: Any) -> str:
    """The range of the magnitudes of finite elements, and how many are not finite."""
    finite = np.isfinite(values)
    count = int(values.size - finite.sum())
    with np.errstate(all="ignore"):
        sizes = np.abs(values[finite]).astype(np.float64)
    if not sizes.size:
        return "none of it finite"
    text = f"{sizes.min():.4g} to {sizes.max():.4g} in magnitude"
    if not count:
        return text
    nan = int(np.isnan(values).sum())
    parts = [f"{nan} NaN"] * bool(nan) + [f"{count - nan} inf"] * bool(count - nan)
    return f"{text}, and {' and '.join(parts)} of {values.size}"


def remedy(entry: Noted, forward: Noted | None, phase: str, made: bool) -> str:
    """One sentence."""
    if not made:
        return (
            "the step was given it: look at the data (torch.isfinite(batch).all()) and at the "
            "weights, which an earlier step may have spoilt"
        )
    name = (forward or entry).name
    dtype = next((spec.dtype for _, spec, _ in entry.outs), None)
    if dtype is dtypes.float16:
        if phase == "backward":
            return (
                "a float16 gradient passed 65504: a smaller loss scale (GradScaler backs off by "
                "itself), bfloat16, or float32 for this op (torch.autocast(..., enabled=False))"
            )
        wide = "bfloat16 (torch.autocast(..., dtype=torch.bfloat16)), or float32 for this op"
        return f"float16 ends at 65504: scale its operands down, or use {wide}"
    if name in _BY_OP:
        return _BY_OP[name]
    return (
        "its operands are too large for the result's dtype: a smaller learning rate, "
        "torch.nn.utils.clip_grad_norm_, or a normalization before it"
    )
