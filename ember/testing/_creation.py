"""`make_tensor`: random inputs for tests."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ember import dtypes, ops
from ember.core.tensor import Tensor
from ember.dtypes import dtype as DType
from ember.errors import check


def make_tensor(
    *shape: Any,
    dtype: DType,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor with elements drawn uniformly from [low, high), by default from -9 to 9 (floats and
    complex), from -9 to 10 (signed integers), from 0 to 10 (unsigned), False or True.

    ValueError for bounds that the dtype does not hold or that are the wrong way round.

    >>> import ember as torch
    >>> made = torch.testing.make_tensor(2, 3, dtype=torch.int64, device="cpu", low=1, high=3)
    >>> made.shape, bool(((made == 1) | (made == 2)).all())
    (torch.Size([2, 3]), True)
    """
    sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    check(
        not noncontiguous or memory_format is None,
        ValueError,
        "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
        f"noncontiguous={noncontiguous} and memory_format={memory_format}",
    )
    check(
        not requires_grad or dtype.category >= dtypes.FLOAT,
        ValueError,
        f"`requires_grad=True` is not supported for boolean and integral dtypes, but got "
        f"dtype={dtype}",
    )
    start, end = _bounds(dtype, low, high)
    made: Any = _drawn(tuple(sizes), dtype, device, start, end)
    if noncontiguous and made.numel() > 1:
        made = ops.repeat_interleave(made, 2, dim=-1)[..., ::2]
    elif memory_format is not None:
        made = made.clone(memory_format=memory_format)
    if exclude_zero:
        smallest = 1 if dtype.category < dtypes.FLOAT else dtypes.finfo(dtype).tiny
        made[made == 0] = smallest
    if requires_grad:
        made.requires_grad_(True)
    found: Tensor = made
    return found


def _bounds(dtype: DType, low: float | None, high: float | None) -> tuple[float, float]:
    """The bounds, kept to what the dtype holds."""
    if dtype.category in (dtypes.BOOL,):
        lowest, highest, default = 0, 2, (0, 2)
    elif dtype.category == dtypes.INTEGRAL:
        info = dtypes.iinfo(dtype)
        lowest, highest = info.min, info.max + (1 if dtype is not dtypes.int64 else 0)
        default = (-9, 10) if dtype.is_signed else (0, 10)
    else:
        largest = dtypes.finfo(dtype).max
        lowest, highest, default = -largest, largest, (-9, 9)
    start = default[0] if low is None else low
    end = default[1] if high is None else high
    check(
        not (math.isnan(start) or math.isnan(end)),
        ValueError,
        f"`low` and `high` cannot be NaN, but got low={start!r} and high={end!r}",
    )
    check(start <= end, ValueError, f"`low` must be less than `high`, but got {start} >= {end}")
    check(
        not (end < lowest or start >= highest) or math.isinf(start) or math.isinf(end),
        ValueError,
        f"The value interval specified by `low` and `high` is [{start}, {end}), but {dtype} only "
        f"supports [{lowest}, {highest})",
    )
    if start == end:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` is deprecated since 2.1 and will "
            "be removed in a future release.",
            FutureWarning,
            stacklevel=3,
        )
    start, end = max(start, lowest), min(end, highest)
    if dtype.category < dtypes.FLOAT:
        start, end = math.floor(start), math.ceil(end)
    return start, end


def _drawn(sizes: tuple[int, ...], dtype: DType, device: Any, start: float, end: float) -> Any:
    if start == end:
        return ops.full(sizes, start, dtype=dtype, device=device)
    if dtype.category < dtypes.FLOAT:
        return ops.randint(start, end, sizes, device=device, dtype=dtype)
    made = ops.empty(sizes, device=device, dtype=dtype)
    if dtype.is_complex:
        ops.view_as_real(made).uniform_(start, end)
        return made
    if dtype.itemsize == 1:  # the narrowest floats are drawn in a wider type
        return ops.empty(sizes, device=device).uniform_(start, end).to(dtype)
    return made.uniform_(start, end)
