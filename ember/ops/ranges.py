"""Factories of regular numbers: ranges, spaces between bounds, the identity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ember import dtypes
from ember.backends.cpu.box_muller import fused_double
from ember.core import modes
from ember.core.factory import finish, from_values, place
from ember.core.registry import FUNCTION, OUT, composite
from ember.core.tensor import Tensor
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.source_lines import warn


@composite(FUNCTION | OUT)
def arange(
    *bounds: Any,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    **kw: Any,
) -> Tensor:
    """Numbers from start (0) to before end in steps of step (1). arange(end), arange(start, end,
    step)."""
    start, end, step = _bounds(bounds, kw)
    numbers = [n.item() if isinstance(n, (Tensor, np.generic)) else n for n in (start, end, step)]
    if dtype is None:
        integral = all(isinstance(n, int) for n in numbers)
        dtype = dtypes.int64 if integral else modes.get_default_dtype()
    if dtype is dtypes.bool_ or dtype.is_complex:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{dtype.title}'")
    start, end, step = numbers
    check(step != 0, RuntimeError, "step must be nonzero")
    check(
        all(math.isfinite(n) for n in (start, end)),
        RuntimeError,
        f"unsupported range: {start} -> {end}",
    )
    check(
        (step > 0 and end >= start) or (step < 0 and end <= start),
        RuntimeError,
        "upper bound and lower bound inconsistent with step sign",
    )
    if dtype.category == dtypes.INTEGRAL:
        if dtype is dtypes.int64:
            start, end, step = int(start), int(end), int(step)
            check(step != 0, ValueError, "step must be nonzero")
            count = max(0, -((start - end) // step))
        else:  # counted before the numbers are cut, as in PyTorch
            count = math.ceil((end - start) / step)
            start, step = int(start), int(step)
        values = (start + step * np.arange(count, dtype=np.int64)).astype(dtype.numpy)
    else:
        count = math.ceil((end - start) / step)
        values = (start + step * np.arange(count, dtype=np.float64)).astype(dtype.numpy)
    return finish(from_values(values, dtype, place(device)), requires_grad)


def _bounds(bounds: tuple[Any, ...], kw: dict[str, Any]) -> tuple[Any, Any, Any]:
    named = dict(kw)
    for name in ("layout", "pin_memory"):
        named.pop(name, None)
    positions = ("end",) if len(bounds) == 1 and "end" not in named else ("start", "end", "step")
    named = {**dict(zip(positions, bounds, strict=False)), **named}
    check(
        "end" in named and len(bounds) <= 3,
        TypeError,
        "arange() takes (end), (start, end) or (start, end, step)",
    )
    return named.get("start", 0), named["end"], named.get("step", 1)


@composite(FUNCTION | OUT, name="range")
def range_(
    start: Any = 0, end: Any = 0, step: Any = 1, *, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """Deprecated: from start to end, both included."""
    warn(
        "torch.range is deprecated and will be removed in a future release because its behavior "
        "is inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end)."
    )
    check(step != 0, RuntimeError, "step must be nonzero")
    check(
        (step > 0 and end >= start) or (step < 0 and end <= start),
        RuntimeError,
        "upper bound and lower bound inconsistent with step sign",
    )
    count = int((end - start) / step) + 1
    dtype = dtype or modes.get_default_dtype()
    values = (start + step * np.arange(count, dtype=np.float64)).astype(dtype.numpy)
    return finish(from_values(values, dtype, place(device)))


@composite(FUNCTION | OUT)
def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    **kw: Any,
) -> Tensor:
    """`steps` evenly spaced numbers from start to end, both included."""
    check(steps >= 0, RuntimeError, "number of steps must be non-negative")
    start, end = (n.item() if isinstance(n, Tensor) else n for n in (start, end))
    complex_ = isinstance(start, complex) or isinstance(end, complex)
    dtype = dtype or (
        modes.get_default_dtype().to_complex() if complex_ else modes.get_default_dtype()
    )
    values = _spaced(start, end, steps, dtype).astype(dtype.numpy)
    return finish(from_values(values, dtype, place(device)), requires_grad)


def _spaced(start: Any, end: Any, steps: int, dtype: DType) -> np.ndarray[Any, Any]:
    """Evenly spaced numbers, the upper half counted down from the end; integers between truncated
    bounds, each product and sum rounded once, as PyTorch's vector units do."""
    if dtype.category == dtypes.INTEGRAL:
        start, end = int(start), int(end)
    if steps <= 1:
        return np.array([start] * steps)
    index = np.arange(steps)
    if dtype.category == dtypes.INTEGRAL:
        step = (end - start) / (steps - 1)
        low = fused_double(index.astype(np.float64), step, float(start))
        high = fused_double((steps - 1 - index).astype(np.float64), -step, float(end))
        return np.trunc(np.where(index < steps // 2, low, high)).astype(np.int64)
    step = (np.complex128 if dtype.is_complex else np.float64)((end - start) / (steps - 1))
    return np.where(index < steps // 2, start + step * index, end - step * (steps - 1 - index))


@composite(FUNCTION | OUT)
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    **kw: Any,
) -> Tensor:
    """base to the powers of `linspace(start, end, steps)`."""
    check(steps >= 0, RuntimeError, "number of steps must be non-negative")
    start, end = (n.item() if isinstance(n, Tensor) else n for n in (start, end))
    dtype = dtype or modes.get_default_dtype()
    if dtype.category == dtypes.INTEGRAL:
        start, end = int(start), int(end)
    powers = _spaced(start, end, steps, dtypes.complex128 if dtype.is_complex else dtypes.float64)
    with np.errstate(all="ignore"):
        values = np.power(base, powers).astype(dtype.numpy)
    return finish(from_values(values, dtype, place(device)), requires_grad)


@composite(FUNCTION | OUT)
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    **kw: Any,
) -> Tensor:
    """Ones on the main diagonal of an n x m matrix of zeros."""
    check(n >= 0, RuntimeError, f"n must be greater or equal to 0, got {n}")
    check(m is None or m >= 0, RuntimeError, f"m must be greater or equal to 0, got {m}")
    dtype = dtype or modes.get_default_dtype()
    return finish(
        from_values(np.eye(n, m).astype(dtype.numpy), dtype, place(device)), requires_grad
    )
