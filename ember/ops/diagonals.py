"""Triangles and diagonals of matrices, and copies with a part replaced."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.factory import shape_of
from ember.core.registry import FUNCTION, INPLACE, METHOD, OUT, composite, library_op
from ember.core.tensor import Tensor
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import Spec
from ember.layout import Layout, contiguous_strides, wrap_dim
from ember.ops.create import zeros
from ember.ops.joining import stack
from ember.ops.ranges import arange
from ember.ops.views import diagonal, select, slice_

API = FUNCTION | METHOD | INPLACE | OUT
PLAIN = FUNCTION | METHOD | OUT

# triangles


@library_op(Library.tril, upcast=False, name="tril")
def lower(input: Tensor, diagonal: int) -> Spec:
    """Zeros above a diagonal."""
    return input.spec.with_shape(input.shape)


@library_op(Library.triu, upcast=False, name="triu")
def upper(input: Tensor, diagonal: int) -> Spec:
    """Zeros below a diagonal."""
    return input.spec.with_shape(input.shape)


lower.grad = lambda g, diagonal: (lower(g, diagonal),)
upper.grad = lambda g, diagonal: (upper(g, diagonal),)


def _check_matrix(name: str, input: Tensor) -> None:
    check(input.ndim >= 2, RuntimeError, f"{name}: input tensor must have at least 2 dimensions")


@composite(API)
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """Matrices with zeros above the diagonal that lies `diagonal` to the right of the main one."""
    _check_matrix("tril", input)
    return lower(input, diagonal)


@composite(API)
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """Matrices with zeros below the diagonal that lies `diagonal` to the right of the main one."""
    _check_matrix("triu", input)
    return upper(input, diagonal)


def _triangle_indices(
    below: bool, row: int, col: int, offset: int, dtype: Any, device: Any
) -> Tensor:
    name = "tril_indices" if below else "triu_indices"
    check(row >= 0, RuntimeError, f"row must be non-negative, got{row}")
    check(col >= 0, RuntimeError, f"col must be non-negative, got{col}")
    check(
        dtype.category == dtypes.INTEGRAL,
        RuntimeError,
        f"\"{name}\" not implemented for '{dtype.title}'",
    )
    rows, columns = arange(row, device=device).unsqueeze(1), arange(col, device=device)
    apart = columns - rows
    inside = apart <= offset if below else apart >= offset
    places = inside.reshape(-1).nonzero().reshape(-1)
    width = max(col, 1)
    return stack([places // width, places % width]).to(dtype)


@composite(FUNCTION)
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DType = dtypes.int64,
    device: Any = None,
    **options: Any,
) -> Tensor:
    """The (rows, columns) of a matrix's elements on and below a diagonal."""
    return _triangle_indices(True, row, col, offset, dtype, device)


@composite(FUNCTION)
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DType = dtypes.int64,
    device: Any = None,
    **options: Any,
) -> Tensor:
    """The (rows, columns) of a matrix's elements on and above a diagonal."""
    return _triangle_indices(False, row, col, offset, dtype, device)


# copies with a part replaced


@library_op(Library.write_view, upcast=False)
def write_view(
    input: Tensor, src: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Spec:
    """A contiguous copy of input with src written where (shape, strides, offset) lies in it."""
    return input.spec.with_shape(input.shape)


def _write_view_gradient(
    g: Any, src_spec: Spec, shape: Any, strides: Any, offset: int
) -> tuple[Any, Any]:
    rest = write_view(g, g.new_zeros(()), shape, strides, offset)
    return rest, g.contiguous().as_strided(shape, strides, g.contiguous().storage_offset() + offset)


write_view.grad = _write_view_gradient


def _replaced(input: Tensor, src: Tensor, layout: Layout) -> Tensor:
    """A copy of input with src in the place of its view of this (dense) layout."""
    check(
        tuple(src.shape) == layout.shape,
        RuntimeError,
        "expected src to have a size equal to the slice of self. src size = "
        f"{list(src.shape)}, slice size = {list(layout.shape)}",
    )
    return write_view(input, src.to(input.dtype), *layout)


def _dense(input: Tensor) -> Layout:
    return Layout(tuple(input.shape), contiguous_strides(input.shape))


@composite(PLAIN)
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of input with src as its diagonal."""
    return _replaced(input, src, diagonal.function(_dense(input), offset, dim1, dim2))


@composite(PLAIN)
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of input with src as its slice at `index` of a dim."""
    return _replaced(input, src, select.function(_dense(input), dim, index))


@composite(PLAIN)
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """A copy of input with src as its elements start ... end of a dim."""
    check(step > 0, RuntimeError, "slice step must be positive")
    dim = wrap_dim(dim, input.ndim)
    first, last, _ = slice(start, end, step).indices(input.shape[dim])
    layout = slice_.function(_dense(input), dim, first, max(last, first), step)
    return _replaced(input, src, layout)


@composite(PLAIN)
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """A copy of input with src where as_strided lies in it."""
    layout = Layout(shape_of((size,)), shape_of((stride,)), storage_offset or 0)
    check(
        layout.extent()[1] <= input.numel(),
        RuntimeError,
        f"setStorage: sizes {list(layout.shape)}, strides {list(layout.strides)}, storage offset "
        f"{layout.offset} are out of bounds for storage of size {input.numel()}",
    )
    return _replaced(input, src, layout)


# diagonals


@composite(FUNCTION | METHOD | OUT)
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last dim as a diagonal of matrices of zeros, in dims dim1 and dim2."""
    ndim = input.ndim + 1
    a, b = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    check(a != b, RuntimeError, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    side = input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    for dim in sorted((a, b)):
        shape.insert(dim, side)
    blank = zeros(shape, dtype=input.dtype, device=input.device)
    return diagonal_scatter(blank, input, offset, a, b)


@composite(PLAIN)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A vector as the diagonal of a matrix of zeros, or the diagonal of a matrix."""
    check(
        input.ndim in (1, 2),
        RuntimeError,
        f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D",
    )
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    return _diagonal_copy(input, diagonal)


def _diagonal_copy(input: Tensor, offset: int) -> Tensor:
    return diagonal(input, offset).clone()


@composite(FUNCTION | METHOD)
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """All elements as the diagonal of a matrix of zeros."""
    return diag_embed(input.reshape(-1), offset)


@composite(FUNCTION | METHOD | OUT)
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix."""
    check(
        input.ndim == 2,
        RuntimeError,
        f"trace: expected a matrix, but got tensor with dim {input.ndim}",
    )
    if input.dtype is dtypes.bool_:
        raise NotImplementedError("\"trace\" not implemented for 'Bool'")
    return diagonal(input).sum()
