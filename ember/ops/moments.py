"""Mean, variance and standard deviation."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.core.registry import FUNCTION, METHOD, OUT, composite
from ember.core.tensor import Tensor
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.layout import product, reduced_shape, wrap_dims
from ember.ops.arithmetic import share
from ember.ops.norms import root
from ember.ops.reduce import sum_
from ember.source_lines import warn

API = FUNCTION | METHOD | OUT


def _count(input: Tensor, dim: Any) -> int:
    dims = wrap_dims(dim if dim != () else None, input.ndim)
    return product(input.shape[d] for d in dims) if input.ndim else 1


@composite(API)
def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The arithmetic mean over `dim`, all dims by default. RuntimeError for integers.

    >>> import ember as torch
    >>> torch.mean(torch.tensor([[1.0, 2.0], [3.0, 5.0]]), dim=1)
    tensor([1.5000, 4.0000])
    """
    found = dtype or input.dtype
    what = "Input" if dtype is None else "Optional"
    check(
        found.category >= dtypes.FLOAT,
        RuntimeError,
        f"mean(): could not infer output dtype. {what} dtype must be either a floating point or "
        f"complex dtype. Got: {found.title}",
    )
    count = _count(input, dim)
    if found in dtypes.HALF:
        return share(sum_(input.to(dtypes.float32), dim, keepdim), count).to(found)
    return share(sum_(input, dim, keepdim, dtype=found), count)


def moments(input: Tensor, dim: Any, correction: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Variance and mean over dims, in two passes."""
    dims = wrap_dims(dim if dim != () else None, input.ndim)
    count = _count(input, dim)
    work = input.to(dtypes.float32) if input.dtype in dtypes.HALF else input
    center = sum_(work, dims, True) / count
    apart = work - center
    squares = (apart * apart.conj()).real if input.is_complex() else apart * apart
    below = max(count - correction, 0)
    variance = sum_(squares, dims, keepdim) / below
    if not keepdim:
        center = center.reshape(reduced_shape(input.shape, dims, False))
    return variance.to(input.dtype.to_real()), center.to(input.dtype)


def _correction(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, float, bool]:
    """(dim, correction, keepdim) of var and std, which take several forms."""
    named = dict(kwargs)
    positional = list(args)
    dim = named.pop("dim", named.pop("axis", None))
    unbiased = named.pop("unbiased", None)
    if positional and isinstance(positional[0], bool):
        unbiased = positional.pop(0)
    elif positional:
        dim = positional.pop(0)
        if positional and isinstance(positional[0], bool):
            unbiased = positional.pop(0)
    keepdim = positional.pop(0) if positional else named.pop("keepdim", False)
    correction = named.pop("correction", None)
    check(not named, TypeError, f"var/std got unexpected keyword argument(s): {', '.join(named)}")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return dim, correction, keepdim


def _spread(name: str, input: Tensor, args: Any, kwargs: Any) -> tuple[Tensor, Tensor]:
    both = "std_mean and var_mean" if "mean" in name else "std and var"
    check(
        input.dtype.category >= dtypes.FLOAT,
        RuntimeError,
        f"{both} only support floating point and complex dtypes",
    )
    dim, correction, keepdim = _correction(args, kwargs)
    if _count(input, dim) <= correction:
        warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
            "reduction factor (input numel divided by output numel)."
        )
    return moments(input, dim, correction, keepdim)


@composite(API)
def var(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The variance over `dim`: squared distances from the mean over count - correction (1)."""
    return _spread("var", input, args, kwargs)[0]


@composite(API)
def std(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The square root of the variance over `dim`."""
    return root(_spread("std", input, args, kwargs)[0], 2.0)


@composite(FUNCTION)
def var_mean(input: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Variance and mean over `dim`."""
    return _spread("var_mean", input, args, kwargs)


@composite(FUNCTION)
def std_mean(input: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over `dim`."""
    variance, center = _spread("std_mean", input, args, kwargs)
    return root(variance, 2.0), center
