"""Reductions: sums, products, extremes, truth; and what is composed of them."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.core.dispatch import floated
from ember.core.reduction import ints_to_int64, truth
from ember.core.registry import FUNCTION, METHOD, OUT, composite, reduction
from ember.core.tensor import Tensor
from ember.dtypes import ANY, COMPLEX_TYPES
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.layout import product, reduced_shape, wrap_dim, wrap_dims
from ember.scalar import primitives as p

API = FUNCTION | METHOD | OUT


@reduction(API, name="sum", zero=0, promote=ints_to_int64, takes_dtype=True)
def sum_(a: Any, b: Any) -> Any:
    """The sum over `dim`, all dims by default; integers add up in int64."""
    return a + b


sum_.grad = lambda g: g


@reduction(zero=1, promote=ints_to_int64, takes_dtype=True)
def product_of(a: Any, b: Any) -> Any:
    """The product over dims."""
    return a * b


@reduction(API, accepts=ANY - COMPLEX_TYPES)
def amax(a: Any, b: Any) -> Any:
    """The greatest element over `dim`; NaN if there is one. Equal ones share the gradient."""
    return p.maximum(a, b)


@reduction(API, accepts=ANY - COMPLEX_TYPES)
def amin(a: Any, b: Any) -> Any:
    """The smallest element over `dim`; NaN if there is one. Equal ones share the gradient."""
    return p.minimum(a, b)


def _shared(g: Any, input: Any, result: Any, dim: Any) -> Any:
    hit = (input == result).to(g.dtype)
    return g * hit / (hit.sum(dim, keepdim=True) if dim else hit)


amax.grad = _shared
amin.grad = _shared


@reduction(zero=False, promote=truth)
def any_of(a: Any, b: Any) -> Any:
    """Whether any element is nonzero."""
    return p.logical_or(a, b)


@reduction(zero=True, promote=truth)
def all_of(a: Any, b: Any) -> Any:
    """Whether all elements are nonzero."""
    return p.logical_and(a, b)


@composite(API, name="any")
def any_(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether any element over `dim` is nonzero."""
    return any_of(input, dim, keepdim)


@composite(API, name="all")
def all_(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether all elements over `dim` are nonzero."""
    return all_of(input, dim, keepdim)


@composite(API)
def mean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The arithmetic mean over `dim`, all dims by default. RuntimeError for integers without a dtype."""
    found = dtype or input.dtype
    check(
        found.category >= dtypes.FLOAT,
        RuntimeError,
        f"mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: "
        f"{found.title}",
    )
    dims = wrap_dims(dim if dim != () else None, input.ndim)
    count = product(input.shape[d] for d in dims) if input.ndim else 1
    if found in dtypes.HALF:
        return (sum_(input.to(dtypes.float32), dim, keepdim) / count).to(found)
    return sum_(input, dim, keepdim, dtype=found) / count


def moments(input: Tensor, dim: Any, correction: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Variance and mean over dims, in two passes."""
    dims = wrap_dims(dim if dim != () else None, input.ndim)
    count = product(input.shape[d] for d in dims) if input.ndim else 1
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
        if positional and isinstance(positional[0], bool) and len(positional) >= 1:
            unbiased = positional.pop(0)
    keepdim = positional.pop(0) if positional else named.pop("keepdim", False)
    correction = named.pop("correction", None)
    check(not named, TypeError, f"var/std got unexpected keyword argument(s): {', '.join(named)}")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return dim, correction, keepdim


def _check_inexact(name: str, input: Tensor) -> None:
    check(
        input.dtype.category >= dtypes.FLOAT,
        RuntimeError,
        f"{name} only support floating point and complex dtypes",
    )


@composite(API)
def var(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The variance over `dim`: squared distances from the mean over count - correction (1)."""
    _check_inexact("std and var", input)
    dim, correction, keepdim = _correction(args, kwargs)
    return moments(input, dim, correction, keepdim)[0]


@composite(API)
def std(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The square root of the variance over `dim`."""
    _check_inexact("std and var", input)
    dim, correction, keepdim = _correction(args, kwargs)
    return moments(input, dim, correction, keepdim)[0].sqrt()


@composite(FUNCTION)
def var_mean(input: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Variance and mean over `dim`."""
    _check_inexact("std_mean and var_mean", input)
    dim, correction, keepdim = _correction(args, kwargs)
    return moments(input, dim, correction, keepdim)


@composite(FUNCTION)
def std_mean(input: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over `dim`."""
    _check_inexact("std_mean and var_mean", input)
    dim, correction, keepdim = _correction(args, kwargs)
    variance, center = moments(input, dim, correction, keepdim)
    return variance.sqrt(), center


@composite(API)
def prod(input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The product over `dim`, all dims by default; integers multiply in int64."""
    if isinstance(dim, DType):
        dim, dtype = None, dim
    if dim is not None:
        wrap_dim(dim, input.ndim)
    return product_of(input, dim, keepdim, dtype=dtype)


def _product_gradient(g: Any, input: Any, dim: Any) -> Any:
    if not dim:
        return g
    return g * _others(input, dim)


def _others(input: Any, dim: Any) -> Any:
    """For each element the product of the others: products from the left times products from the right."""
    kept = [d for d in range(input.ndim) if d not in dim]
    flat = input.permute(*kept, *dim).reshape([input.shape[d] for d in kept] + [-1])
    ones = flat.new_ones((*flat.shape[:-1], 1))
    left = _cat([ones, flat[..., :-1]]).cumprod(-1)
    right = _cat([flat[..., 1:], ones]).flip(-1).cumprod(-1).flip(-1)
    order = [*kept, *dim]
    back = (left * right).reshape([input.shape[d] for d in order])
    return back.permute([order.index(d) for d in range(input.ndim)])


def _cat(parts: list[Any]) -> Any:
    return CAT[0](parts, -1)


CAT: list[Any] = []  # ops/joining.py
product_of.grad = _product_gradient


@composite(METHOD)
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """Summed over the dims along which a tensor of `size` would have been broadcast to this one."""
    shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    lead = self.ndim - len(shape)
    check(
        lead >= 0 and all(n in (1, m) for n, m in zip(shape, self.shape[lead:], strict=True)),
        RuntimeError,
        f"size {{{list(shape)}}} is not expandable to size {{{list(self.shape)}}}.",
    )
    dims = [*range(lead), *(d + lead for d, n in enumerate(shape) if n == 1 and self.shape[d + lead] != 1)]
    if not dims:
        return self
    summed = sum_(self, tuple(dims), True, dtype=self.dtype)
    return summed.reshape(shape) if lead else summed


@composite(API)
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log of the sum of exp over `dim`, without overflow."""
    input = input.to(floated(input.dtype))
    dims = wrap_dims(dim, input.ndim)
    if input.numel() == 0:
        return sum_(input.exp(), dims, keepdim).log()
    top = amax(input.detach(), dims, True)
    top = top.masked_fill(top.abs() == float("inf"), 0)
    total = sum_((input - top).exp(), dims, True).log() + top
    return total if keepdim else total.reshape(reduced_shape(input.shape, dims, False))
