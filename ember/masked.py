"""`torch.masked`: reductions, running sums and softmaxes that leave out elements where a mask is
False.

What is left out counts as the identity of the operation: 0 in a sum, −inf in a maximum. A mask
broadcasts to the input.
"""

from __future__ import annotations

from typing import Any

import ember.ops as ops
from ember import dtypes
from ember.core.tensor import Tensor
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.layout import wrap_dim, wrap_dims
from ember.missing import missing_attribute

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
    "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum",
    "var",
]  # fmt: skip


def _dims(input: Any, dim: Any) -> tuple[int, ...]:
    return wrap_dims(None if dim is None or dim == () else dim, input.ndim)


def _where(input: Any, mask: Tensor | None, value: Any) -> Any:
    """The input with a number where it is left out."""
    if mask is None:
        return input
    check(
        mask.dtype is dtypes.bool_,
        TypeError,
        f"a mask must be of bool, not {mask.dtype}: make one with != 0",
    )
    filler = ops.full((), value, dtype=input.dtype, device=input.device)
    return ops.where(mask.expand(input.shape), input, filler)


def _summed(input: Any, dtype: DType | None) -> Any:
    """The dtype that sums are made in: int64 of integers."""
    if dtype is None and input.dtype.category < dtypes.FLOAT:
        dtype = dtypes.int64
    return input if dtype is None else input.to(dtype)


def _cast(input: Any, dtype: DType | None) -> Any:
    return input if dtype is None else input.to(dtype)


def _lowest(dtype: DType) -> Any:
    if dtype.category >= dtypes.FLOAT:
        return -float("inf")
    return False if dtype is dtypes.bool_ else dtypes.iinfo(dtype).min


def _highest(dtype: DType) -> Any:
    if dtype.category >= dtypes.FLOAT:
        return float("inf")
    return True if dtype is dtypes.bool_ else dtypes.iinfo(dtype).max


def _reduced(function: Any, input: Any, dims: tuple[int, ...], keepdim: bool | None) -> Any:
    if dims or function is ops.logsumexp:  # whose second derivative by a number is zero
        return function(input, dims, keepdim=bool(keepdim))
    return input.clone()


def _count(input: Any, dims: tuple[int, ...], keepdim: Any, mask: Tensor | None) -> Any:
    """How many elements are not left out."""
    ones = ops.ones(input.shape, dtype=dtypes.int64, device=input.device)
    return (
        sum(ones, dims or None, keepdim=keepdim, mask=mask) if input.ndim else _where(ones, mask, 0)
    )


def sum(
    input: Any,
    dim: Any = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sum over `dim` of the elements where the mask is True.

    >>> import ember as torch
    >>> x = torch.tensor([1.0, 2.0, 3.0])
    >>> torch.masked.sum(x, mask=x > 1)
    tensor(5.)
    """
    input = _where(_summed(input, dtype), mask, 0)
    return _reduced(ops.sum, input, _dims(input, dim), keepdim)


def prod(
    input: Any,
    dim: Any = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product over `dim` of the elements where the mask is True."""
    input = _where(_summed(input, dtype), mask, 1)
    for d in sorted(_dims(input, dim), reverse=True):
        input = input.prod(d, keepdim=bool(keepdim))
    return input


def cumsum(
    input: Any, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Sums up to each element along `dim`, with 0 where the mask is False."""
    return _where(_summed(input, dtype), mask, 0).cumsum(dim)


def cumprod(
    input: Any, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Products up to each element along `dim`, with 1 where the mask is False."""
    return _where(_summed(input, dtype), mask, 1).cumprod(dim)


def amax(
    input: Any,
    dim: Any = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The greatest element over `dim` where the mask is True; the dtype's lowest if there is
    none."""
    input = _cast(input, dtype)
    input = _where(input, mask, _lowest(input.dtype))
    return _reduced(ops.amax, input, _dims(input, dim), keepdim)


def amin(
    input: Any,
    dim: Any = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The smallest element over `dim` where the mask is True; the dtype's highest if there is
    none."""
    input = _cast(input, dtype)
    input = _where(input, mask, _highest(input.dtype))
    return _reduced(ops.amin, input, _dims(input, dim), keepdim)


def argmax(
    input: Any,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The index of the greatest element along `dim` where the mask is True, as a number of
    the input's dtype."""
    input = _cast(input, dtype)
    made = _where(input, mask, _lowest(input.dtype)).argmax(dim, bool(keepdim))
    return made.to(input.dtype)


def argmin(
    input: Any,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The index of the smallest element along `dim` where the mask is True, as a number of
    the input's dtype."""
    input = _cast(input, dtype)
    made = _where(input, mask, _highest(input.dtype)).argmin(dim, bool(keepdim))
    return made.to(input.dtype)


def mean(
    input: Any,
    dim: Any = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean over `dim` of the elements where the mask is True; NaN if there is none."""
    dtype = input.dtype if dtype is None else dtype
    check(
        dtype.category >= dtypes.FLOAT,
        ValueError,
        "mean(): Could not infer output dtype. Input dtype must be either a floating point or "
        f"complex dtype. Got: {dtype}",
    )
    dims = _dims(input, dim)
    total = sum(input, dims or None, keepdim=keepdim, dtype=dtype, mask=mask)
    return total / _count(input, dims, keepdim, mask)


def median(
    input: Any,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The lower median along `dim` of the elements where the mask is True; NaN if there is none."""
    dtype = input.dtype if dtype is None else dtype
    check(
        dtype.is_floating_point,
        ValueError,
        f"input must be a floating point tensor to have a masked median, not of {dtype}",
    )
    input = input.to(dtype)
    if mask is None:
        return ops.median(input, dim, keepdim).values
    missing = input.isnan() & mask
    made = ops.nanmedian(_where(input, mask, float("nan")), dim, keepdim).values
    return made.masked_fill(missing.any(dim, keepdim), float("nan"))


def logsumexp(
    input: Any,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """log of the sum over `dim` of exp of the elements where the mask is True."""
    input = _cast(input, dtype)
    made = _where(input, mask, _lowest(input.dtype))
    return _reduced(ops.logsumexp, made, _dims(input, dim), keepdim).to(input.dtype)


def logaddexp(
    input: Any,
    other: Any,
    *,
    dtype: DType | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(input) + exp(other)), each left out where its mask is False."""
    first = _where(_cast(input, dtype), input_mask, -float("inf"))
    return ops.logaddexp(first, _where(_cast(other, dtype), other_mask, -float("inf")))


def norm(
    input: Any,
    ord: float | None = 2.0,
    dim: Any = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The norm of that order over `dim` of the elements where the mask is True."""
    order = 2.0 if ord is None else ord
    input = _where(_cast(input, dtype), mask, float("inf") if order < 0 else 0)
    return ops.norm(input, order, _dims(input, dim), bool(keepdim))


def normalize(
    input: Any,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Elements over the larger of eps and the norm along `dim`, where the mask is True."""
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _where(_cast(input, dtype), mask, 0) / size.clamp(min=eps)


def _softened(name: str, function: Any, filler: float) -> Any:
    def soft(
        input: Any, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
    ) -> Tensor:
        dim = wrap_dim(dim, input.ndim)
        return function(_where(_cast(input, dtype), mask, filler), dim)

    soft.__name__ = soft.__qualname__ = name
    soft.__doc__ = f"`{name}` along `dim` of the elements where the mask is True."
    return soft


softmax = _softened("softmax", ops.softmax, -float("inf"))
log_softmax = _softened("log_softmax", ops.log_softmax, -float("inf"))
softmin = _softened("softmin", lambda x, dim: ops.softmax(-x, dim), float("inf"))


def _variance(
    input: Any,
    dim: Any,
    unbiased: bool | None,
    correction: Any,
    keepdim: bool | None,
    dtype: DType | None,
    mask: Tensor | None,
) -> Any:
    check(
        unbiased is None or correction is None,
        ValueError,
        "Only one of unbiased and correction may be given",
    )
    less: Any = (1 if unbiased in (None, True) else 0) if correction is None else correction
    if dtype is None and input.dtype.category < dtypes.FLOAT:
        dtype = dtypes.float32
    input = _cast(input, dtype)
    stored = input.dtype
    input = input.to(dtypes.float32) if stored in dtypes.HALF else input
    dims = _dims(input, dim)
    count = _count(input, dims, True, mask)
    apart = input - sum(input, dims or None, keepdim=True, mask=mask) / count
    squares = apart * apart.conj() if apart.is_complex() else apart * apart
    total = sum(squares.real, dims or None, keepdim=keepdim, mask=mask)
    below = (_count(input, dims, keepdim, mask) - less).clamp(min=0)
    return (total / below).to(stored)


def var(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: Any = None,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance over `dim` of the elements where the mask is True."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask)


def std(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: Any = None,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation over `dim` of the elements where the mask is True."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


def __getattr__(name: str) -> Any:
    raise missing_attribute("torch.masked", name, lambda: __all__)
