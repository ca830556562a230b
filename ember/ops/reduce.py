"""Reductions: sums, products, extremes, truth; and what is composed of them."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.dispatch import floated, not_implemented
from ember.core.reduction import ints_to_int64, truth
from ember.core.registry import (
    FUNCTION,
    METHOD,
    OPS,
    OUT,
    SPECIAL,
    composite,
    library_op,
    reduction,
)
from ember.core.tensor import Tensor
from ember.dtypes import ANY, COMPLEX_TYPES
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import Spec
from ember.layout import reduced_shape, wrap_dim, wrap_dims
from ember.ops import return_types
from ember.ops.argument_types import check_tensor
from ember.ops.choices import maximum, minimum, where_
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
    hit = ((input == result) | (input.isnan() & result.isnan())).to(g.dtype)
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


# sums and products that are composed


@composite(API)
def nansum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum over `dim` of what is not NaN."""
    check(not input.is_complex(), RuntimeError, "nansum does not support complex inputs")
    if input.dtype.category < dtypes.FLOAT:
        return sum_(input, dim, keepdim, dtype=dtype)
    return sum_(where_(input.isnan(), 0.0, input), dim, keepdim, dtype=dtype)


@composite(API)
def nanmean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The mean over `dim` of what is not NaN."""
    check(
        input.dtype.category >= dtypes.FLOAT,
        RuntimeError,
        "nanmean(): expected input to have floating point or complex dtype but got "
        f"{input.dtype.title}",
    )
    counts = sum_(~input.isnan(), dim, keepdim)
    total = sum_(where_(input.isnan(), 0.0, input), dim, keepdim, dtype=dtype)
    return total / counts


@composite(FUNCTION | METHOD)
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """The number of nonzero elements over `dim`, all dims by default."""
    return sum_(input != 0, dim)


@composite(API)
def prod(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
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
    """For each element the product of the others: those on its left times those on its right."""
    if input.numel() == 0:
        return input.clone()
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
    if not shape:
        return sum_(self)
    check(
        lead >= 0 and all(n in (1, m) for n, m in zip(shape, self.shape[lead:], strict=True)),
        RuntimeError,
        f"size {{{list(shape)}}} is not expandable to size {{{list(self.shape)}}}.",
    )
    dims = [
        *range(lead),
        *(d + lead for d, n in enumerate(shape) if n == 1 and self.shape[d + lead] != 1),
    ]
    if not dims:
        return self
    summed = sum_(self, tuple(dims), True)
    return summed.reshape(shape) if lead else summed


@composite(API | SPECIAL)
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log of the sum of exp over `dim`, without overflow."""
    input = input.to(floated(input.dtype))
    dims = wrap_dims(None if dim in ((), []) else dim, input.ndim) if input.ndim else ()
    if input.numel() == 0:
        return sum_(input.exp(), dims, keepdim).log()
    source = input.real if input.is_complex() else input
    top = amax(source.detach(), dims, True) if dims else source.detach()
    top = where_(top.abs() == float("inf"), 0.0, top)
    total = sum_((input - top).exp(), dims, True).log() if dims else (input - top).exp().log()
    total = total + top
    return total if keepdim else total.reshape(reduced_shape(input.shape, dims, False))


@reduction(name="hash_tensor", accepts=frozenset({dtypes.uint64}))
def xor_of(a: Any, b: Any) -> Any:
    """The exclusive or of all bits over dims."""
    return p.bitwise_xor(a, b)


@composite(API)
def hash_tensor(input: Tensor, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """The exclusive or over `dim` of the elements' bits, as float64 or int64; a uint64.

    >>> import ember as torch
    >>> torch.hash_tensor(torch.tensor([1, 2, 4]))
    tensor(7, dtype=torch.uint64)
    """
    check_tensor("hash_tensor", "input", 1, input)
    check(mode == 0, RuntimeError, f"Unknown hash_tensor mode: {mode}")
    if input.is_complex():
        raise not_implemented("xor_sum_cpu", input.dtype)
    wide = dtypes.float64 if input.is_floating_point() else dtypes.int64
    return xor_of(input.detach().to(wide).view(dtypes.uint64), dim, keepdim)


# extremes with their places


@library_op(Library.argmax, upcast=False, name="argmax")
def greatest_at(input: Tensor, dim: int, keepdim: bool) -> Spec:
    """The index of the greatest element along a dim, the first of equal ones (or of NaNs)."""
    shape = reduced_shape(input.shape, (dim,), keepdim) if input.ndim else ()
    return input.spec.with_shape(shape).with_dtype(dtypes.int64)


@library_op(Library.argmin, upcast=False, name="argmin")
def least_at(input: Tensor, dim: int, keepdim: bool) -> Spec:
    """The index of the smallest element along a dim, the first of equal ones (or of NaNs)."""
    shape = reduced_shape(input.shape, (dim,), keepdim) if input.ndim else ()
    return input.spec.with_shape(shape).with_dtype(dtypes.int64)


def _place(name: str, op: Any, input: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    check(
        input.dtype is not dtypes.bool_ or not name.startswith("arg"),
        NotImplementedError,
        f"\"{name}\" not implemented for 'Bool'",
    )
    if input.is_complex():
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{input.dtype.title}'")
    if dim is None:
        check(
            input.numel() > 0,
            IndexError,
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0.",
        )
        found = op(input.detach().reshape(-1), 0, False)
        return found.reshape([1] * input.ndim) if keepdim else found
    wrapped = wrap_dim(dim, input.ndim)
    if input.ndim == 0:
        return op(input.detach().reshape(1), 0, False)
    check(
        input.shape[wrapped] > 0,
        IndexError,
        f"{name}(): Expected reduction dim {wrapped} to have non-zero size.",
    )
    return op(input.detach(), wrapped, bool(keepdim))


@composite(API)
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the greatest element, of all elements laid out flat or along `dim`.

    >>> import ember as torch
    >>> torch.argmax(torch.tensor([1, 5, 3]))
    tensor(1)
    """
    return _place("argmax", greatest_at, input, dim, keepdim)


@composite(API)
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the smallest element, of all elements laid out flat or along `dim`."""
    return _place("argmin", least_at, input, dim, keepdim)


def _with_places(name: str, op: Any, input: Tensor, dim: Any, keepdim: bool) -> Any:
    """Values and indices of extremes along a dim; the gradient goes to the element at the index."""
    kind = getattr(return_types, name)
    if input.ndim == 0:
        wrap_dim(dim, 0)
        place = op(input.detach().reshape(1), 0, False)
        return kind(input.clone(), place)
    dim = wrap_dim(dim, input.ndim)
    places = _place(name, op, input, dim, True)
    values = OPS["gather"](input, dim, places)
    return kind(values, places) if keepdim else kind(values.squeeze(dim), places.squeeze(dim))


def _extreme(name: str, over_all: Any, of_two: Any, op: Any) -> Any:
    def call(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        named = {{"axis": "dim", "keepdims": "keepdim"}.get(k, k): v for k, v in kwargs.items()}
        positional = list(args)
        if positional:
            first = positional.pop(0)
            named["other" if isinstance(first, Tensor) else "dim"] = first
        if positional:
            named["keepdim"] = positional.pop(0)
        unknown = set(named) - {"dim", "keepdim", "other"}
        check(
            not unknown and not positional,
            TypeError,
            f"{name}() takes (input), (input, dim, keepdim) or (input, other)",
        )
        check_tensor(name, "input", 1, input)
        if named.get("other") is not None:
            return of_two(input, named["other"])
        if named.get("dim") is not None:
            return _with_places(name, op, input, named["dim"], named.get("keepdim", False))
        return over_all(input)

    call.__name__ = name
    call.__doc__ = (
        f"The {name}imum of all elements, of each row along `dim` (with its index), or of each "
        "pair "
        "of two tensors' elements."
    )
    return composite(API, name=name)(call)


def _of_all(op: Any, name: str) -> Any:
    def call(input: Tensor) -> Tensor:
        check(
            input.numel() > 0,
            RuntimeError,
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument.",
        )
        return op(input)

    return call


max_ = _extreme("max", _of_all(amax, "max"), maximum, greatest_at)
min_ = _extreme("min", _of_all(amin, "min"), minimum, least_at)


@composite(API)
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest and the greatest element, over `dim` or of all."""
    dims = None if dim is None else (wrap_dim(dim, input.ndim),)
    size = input.numel() if dims is None or not input.ndim else input.shape[dims[0]]
    check(
        size > 0,
        RuntimeError if dims is None else IndexError,
        "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
        "identity.",
    )
    return return_types.aminmax(amin(input, dims, keepdim), amax(input, dims, keepdim))
