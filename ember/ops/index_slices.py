"""Slices along a dim, picked and placed by a vector of indices: index_select, index_add and their
kind."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.lifting import is_batched
from ember.core.registry import FUNCTION, INPLACE, METHOD, OUT, composite, library_op
from ember.core.tensor import Tensor
from ember.errors import check
from ember.kernel.array import Spec
from ember.layout import wrap_dim
from ember.ops.choices import where_
from ember.ops.gathering import check_index, scatter_linear, scatter_op, with_size, zeros_of
from ember.ops.likes import zeros_like

API = FUNCTION | METHOD | INPLACE | OUT
PLAIN = FUNCTION | METHOD | OUT


@library_op(Library.index_select, upcast=False, name="index_select")
def index_select_op(input: Tensor, dim: int, index: Tensor) -> Spec:
    """The slices of input along dim that index names."""
    shape = with_size(input.shape, dim, index.numel()) if input.ndim else ()
    return input.spec.with_shape(shape)


index_select_op.grad = lambda g, input_spec, dim, index: (
    index_add_op(zeros_of(input_spec, g), dim, index, g, 1),
    None,
)


@composite(PLAIN)
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of input along dim that a vector of indices names.

    >>> import ember as torch
    >>> torch.index_select(torch.tensor([1, 2, 3]), 0, torch.tensor([2, 0]))
    tensor([3, 1])
    """
    check(index.ndim <= 1, IndexError, "index_select(): Index is supposed to be a vector")
    check(
        index.dtype in (dtypes.int64, dtypes.int32),
        RuntimeError,
        "index_select(): Expected dtype int32 or int64 for index",
    )
    check(
        input.ndim > 0 or index.numel() == 1,
        RuntimeError,
        f"index_select(): Index to scalar can have only 1 value, got {index.numel()} value(s)",
    )
    return index_select_op(input, wrap_dim(dim, input.ndim), index.long())


@library_op(Library.index_add, upcast=False, name="index_add")
def index_add_op(input: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any = 1) -> Spec:
    """A copy with alpha times the slices of source added at index along dim."""
    return input.spec.with_shape(tuple(input.shape))


index_add_op.grad = lambda g, dim, index, source_spec, alpha: (
    g,
    None,
    _expand_to(index_select_op(g, dim, index) * alpha, source_spec),
)


def _expand_to(grad: Any, spec: Spec) -> Any:
    return grad.reshape(spec.shape) if grad.numel() == spec.numel else grad.expand(spec.shape)


def _check_slices(name: str, input: Tensor, dim: int, index: Tensor, source: Tensor) -> None:
    check(
        index.ndim <= 1,
        IndexError,
        f"{name}(): Index should have dimension 1 or 0 (got {index.ndim})",
    )
    check(
        input.dtype is source.dtype,
        RuntimeError,
        f"{name}(): self ({input.dtype.title}) and source ({source.dtype.title}) must have the "
        "same scalar type",
    )
    count = source.shape[dim] if source.ndim else 1
    check(
        count == index.numel() or source.ndim == 0,
        RuntimeError if name != "index_copy_" else IndexError,
        f"{name}(): Number of indices ({index.numel()}) should be equal to source.size(dim): "
        f"({count}), for dim: {dim}",
    )
    if input.ndim and source.ndim:
        same = with_size(input.shape, dim, 1) == with_size(source.shape, dim, 1)
        check(
            same,
            RuntimeError,
            "source tensor shape must match self tensor shape, excluding the specified dimension: "
            "Source/destination tensor must have same slice shapes. Got self.shape = "
            f"{list(input.shape)} source.shape = {list(source.shape)}",
        )


@composite(API)
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """A copy with alpha times the slices of source added at index along dim."""
    dim = wrap_dim(dim, input.ndim)
    _check_slices("index_add_", input, dim, check_index("index_add_", index), source)
    return index_add_op(input, dim, index.long(), source, alpha)


@library_op(Library.index_copy, upcast=False, name="index_copy")
def index_copy_op(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Spec:
    """A copy with the slices of source at index along dim."""
    return input.spec.with_shape(tuple(input.shape))


index_copy_op.grad = lambda g, dim, index, source_spec: (
    index_fill_op(g, dim, index, 0.0),
    None,
    _expand_to(index_select_op(g, dim, index), source_spec),
)


@composite(API)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """A copy with the slices of source at index along dim."""
    dim = wrap_dim(dim, input.ndim)
    check(
        index.dtype is dtypes.int64,
        IndexError,
        f"index_copy_(): Expected a long tensor for index, but got {index.dtype.title}",
    )
    _check_slices("index_copy_", input, dim, index, source)
    return index_copy_op(input, dim, index, source)


@library_op(Library.index_fill, upcast=False, name="index_fill")
def index_fill_op(input: Tensor, dim: int, index: Tensor, value: Any) -> Spec:
    """A copy with a number in the slices at index along dim."""
    return input.spec.with_shape(tuple(input.shape))


index_fill_op.grad = lambda g, dim, index: (index_fill_op(g, dim, index, 0.0), None)


@composite(API)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy with a number (or a 0-dim tensor) in the slices at index along dim."""
    check(
        index.dtype is dtypes.int64 or index.dtype is dtypes.int32,
        IndexError,
        "index_fill_(): Expected dtype int64 for index.",
    )
    check(index.ndim <= 1, IndexError, "Index has to be a vector/scalar")
    dim = wrap_dim(dim, input.ndim)
    if isinstance(value, Tensor):
        check(
            value.ndim == 0,
            RuntimeError,
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s).",
        )
        if value.requires_grad or is_batched(value):
            mask = index_fill_op(zeros_like(input, dtype=dtypes.bool_), dim, index.long(), True)
            return where_(mask, value.to(input.dtype), input)
        value = value.item()
    if isinstance(value, complex) and not input.is_complex():
        raise RuntimeError(
            "index_fill_(): Converting complex Scalar to non-complex type is not supported"
        )
    return index_fill_op(input, dim, index.long(), value)


@library_op(Library.index_reduce, upcast=False, name="index_reduce")
def index_reduce_op(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool = True
) -> Spec:
    """A copy with the slices of source combined at index along dim."""
    return input.spec.with_shape(tuple(input.shape))


@composite(API)
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """A copy with the slices of source combined at index along dim by prod, mean, amax or amin."""
    check(
        reduce in ("prod", "mean", "amax", "amin"),
        RuntimeError,
        f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.",
    )
    dim = wrap_dim(dim, input.ndim)
    _check_slices("index_reduce_", input, dim, index, source)
    if input.requires_grad or source.requires_grad:
        shape = [1] * max(input.ndim, 1)
        shape[dim] = -1
        places = index.long().reshape(shape)
        spread = places.expand(source.shape) if source.ndim else places.reshape(())
        op = scatter_linear if reduce == "mean" else scatter_op
        return op(input, dim, spread, source, reduce, include_self)
    return index_reduce_op(input, dim, index.long(), source, reduce, include_self)
