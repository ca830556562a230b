"""Running sums, products and extremes along a dim; differences and integrals by trapezoids."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.lifting import whole
from ember.core.registry import FUNCTION, INPLACE, METHOD, OUT, composite, library_op
from ember.core.tensor import Tensor
from ember.dtypes import FLOATING
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import Spec
from ember.layout import wrap_dim
from ember.ops import return_types
from ember.ops.arithmetic import share
from ember.ops.choices import where_
from ember.ops.gathering import gather
from ember.ops.joining import cat, stack

API = FUNCTION | METHOD | OUT


@library_op(Library.cumsum, name="cumsum")
def running_sum(input: Tensor, dim: int) -> Spec:
    """Sums up to each element along a dim."""
    return input.spec.with_shape(input.shape)


def reversed_sum(g: Tensor, dim: int) -> Tensor:
    """Sums from each element on."""
    return running_sum(g.flip(dim), dim).flip(dim)


running_sum.grad = lambda g, dim: (reversed_sum(g, dim),)


@library_op(Library.cumprod, name="cumprod")
def running_product(input: Tensor, dim: int) -> Spec:
    """Products up to each element along a dim."""
    return input.spec.with_shape(input.shape)


def _running_product_gradient(g: Tensor, input: Tensor, dim: int, result: Tensor) -> tuple[Tensor]:
    """Reverse sums of g · result over input; for zeros, a recurrence without quotients."""
    conjugate = input.conj() if input.is_complex() else input
    if not bool(whole(input.detach() == 0).any().item()):
        product = result.conj() if input.is_complex() else result
        return (reversed_sum(g * product, dim) / conjugate,)
    length = input.shape[dim]
    values, grads = conjugate.unbind(dim), g.unbind(dim)
    total, sums = grads[-1], [grads[-1]]
    for i in range(length - 2, -1, -1):  # Σ over k >= i of g_k · the product of values i+1 ... k
        total = grads[i] + values[i + 1] * total
        sums.append(total)
    ones = input.new_ones(()).expand_as(input.narrow(dim, 0, 1))
    before = running_product(cat([ones, conjugate.narrow(dim, 0, length - 1)], dim), dim)
    return (before * stack(sums[::-1], dim),)


running_product.grad = _running_product_gradient


@library_op(Library.logcumsumexp, name="logcumsumexp")
def running_log_sum(input: Tensor, dim: int) -> Spec:
    """log of sums of exp up to each element along a dim."""
    return input.spec.with_shape(input.shape)


def _running_log_sum_gradient(g: Tensor, input: Tensor, dim: int, result: Tensor) -> tuple[Tensor]:
    """Σ over k >= i of g_k · exp(x_i - result_k), in logarithms of each sign."""

    def part(gradient: Tensor) -> Tensor:
        weights = where_(gradient > 0, gradient.log() - result, -float("inf"))
        return (running_log_sum(weights.flip(dim), dim).flip(dim) + input).exp()

    return (part(g) - part(-g),)


running_log_sum.grad = _running_log_sum_gradient


@library_op(Library.cummax, upcast=False, name="cummax")
def running_greatest(input: Tensor, dim: int) -> tuple[Spec, Spec]:
    """The greatest up to each element along a dim, and where it is."""
    return _value_and_place(input)


@library_op(Library.cummin, upcast=False, name="cummin")
def running_least(input: Tensor, dim: int) -> tuple[Spec, Spec]:
    """The smallest up to each element along a dim, and where it is."""
    return _value_and_place(input)


def _value_and_place(input: Tensor) -> tuple[Spec, Spec]:
    spec = input.spec.with_shape(input.shape)
    return spec, spec.with_dtype(dtypes.int64)


def _along(name: str, op: Any, input: Tensor, dim: int) -> Any:
    """The scan of a tensor with dims and elements; others are their own."""
    wrapped = wrap_dim(dim, input.ndim)
    if input.ndim == 0:
        made = op(input.reshape(1), 0)
        return tuple(m.reshape(()) for m in made) if isinstance(made, tuple) else made.reshape(())
    return op(input, wrapped)


def _summed(input: Tensor, dtype: DType | None) -> Tensor:
    if dtype is None:
        dtype = dtypes.int64 if input.dtype.category < dtypes.FLOAT else input.dtype
    return input.to(dtype)


@composite(API | INPLACE)
def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The sums of the elements up to each along `dim`; integers add up in int64.

    >>> import ember as torch
    >>> torch.cumsum(torch.tensor([1, 2, 3]), 0)
    tensor([1, 3, 6])
    """
    return _along("cumsum", running_sum, _summed(input, dtype), dim)


@composite(API | INPLACE)
def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The products of the elements up to each along `dim`; integers multiply in int64."""
    return _along("cumprod", running_product, _summed(input, dtype), dim)


@composite(API)
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log of the sums of exp of the elements up to each along `dim`, without overflow."""
    if input.dtype not in FLOATING and not input.is_complex():
        raise NotImplementedError(
            f"\"logcumsumexp_out_cpu\" not implemented for '{input.dtype.title}'"
        )
    return _along("logcumsumexp", running_log_sum, input, dim)


def _extreme(kind: Any, op: Any, input: Tensor, dim: int) -> Any:
    places = _along("cummax", op, input.detach(), dim)[1]
    if input.ndim == 0 or input.numel() == 0:
        return kind(input.clone(), places)
    return kind(gather(input, wrap_dim(dim, input.ndim), places), places)


@composite(API)
def cummax(input: Tensor, dim: int) -> Any:
    """The greatest element up to each along `dim`, and the index of its last place."""
    return _extreme(return_types.cummax, running_greatest, input, dim)


@composite(API)
def cummin(input: Tensor, dim: int) -> Any:
    """The smallest element up to each along `dim`, and the index of its last place."""
    return _extreme(return_types.cummin, running_least, input, dim)


# differences and integrals


@composite(API)
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """The n-th differences of neighbours along `dim`, `prepend` and `append` joined first."""
    check(input.ndim > 0, RuntimeError, "diff expects input to be at least one-dimensional")
    check(n >= 0, RuntimeError, f"order must be non-negative but got {n}")
    if n == 0:
        return input.clone()
    dim = wrap_dim(dim, input.ndim)
    parts = [part for part in (prepend, input, append) if part is not None]
    for part in parts:
        check(
            part.ndim == input.ndim,
            RuntimeError,
            "diff expects prepend or append to be the same dimension as input",
        )
    made = cat(parts, dim) if len(parts) > 1 else input
    for _ in range(min(n, made.shape[dim])):
        length = made.shape[dim]
        later = made.narrow(dim, 1, max(length - 1, 0)) if length else made
        earlier = made.narrow(dim, 0, max(length - 1, 0)) if length else made
        made = later ^ earlier if made.dtype is dtypes.bool_ else later - earlier
    return made


def _spacing(y: Tensor, x: Any, dx: Any, dim: int) -> tuple[Tensor, Any, int]:
    """(y, the widths of intervals, dim) of an integral along dim."""
    dim = wrap_dim(dim, y.ndim)
    if isinstance(x, Tensor):
        if x.ndim == 1:
            check(
                x.shape[0] == y.shape[dim],
                RuntimeError,
                "trapezoid: There must be one `x` value for each sample point",
            )
            widths = (x[1:] - x[:-1]).reshape(-1, *[1] * (y.ndim - 1 - dim))
        else:
            check(x.ndim > 0, IndexError, "trapezoid: x has no dims")
            while x.ndim < y.ndim:
                x = x.unsqueeze(0)
            along = wrap_dim(dim - y.ndim, x.ndim)
            widths = x.narrow(along, 1, x.shape[along] - 1) - x.narrow(along, 0, x.shape[along] - 1)
        return y, widths, dim
    return y, 1.0 if dx is None else dx, dim


def _areas(y: Tensor, x: Any, dx: Any, dim: int) -> tuple[Tensor, int]:
    y, widths, dim = _spacing(y, x, dx, dim)
    length = y.shape[dim]
    if length == 0:
        return y * 1.0, dim
    back = dim - y.ndim
    middle = y.narrow(dim, 1, length - 1) + y.narrow(dim, 0, length - 1)
    areas = share(middle * widths if isinstance(x, Tensor) or dx is not None else middle, 2.0)
    return areas, areas.ndim + back


@composite(FUNCTION, names=("trapz",))
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral along `dim` by trapezoids, at places x or dx (1) apart."""
    areas, along = _areas(y, x, dx, dim)
    return areas.sum(along)


@composite(FUNCTION)
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1
) -> Tensor:
    """The integrals along `dim` up to each place after the first, by trapezoids."""
    areas, along = _areas(y, x, dx, dim)
    return cumsum(areas, along)
