"""Elements of the flat input, places of an index tuple, and masks: take, put, index_put,
masked_select, nonzero."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.registry import FUNCTION, INPLACE, METHOD, OUT, composite, library_op
from ember.core.tensor import Tensor
from ember.errors import check
from ember.kernel.array import Spec
from ember.layout import broadcast_shapes
from ember.ops.gathering import zeros_of
from ember.ops.indexing import index_put_op

PLAIN = FUNCTION | METHOD | OUT


@library_op(Library.take, upcast=False, name="take")
def take_op(input: Tensor, index: Tensor) -> Spec:
    """The elements of the flat input at index."""
    return input.spec.with_shape(tuple(index.shape))


take_op.grad = lambda g, input_spec, index: (put_op(zeros_of(input_spec, g), index, g, True), None)


@composite(PLAIN)
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements of the flat input at index, in the shape of index."""
    check(
        index.dtype is dtypes.int64,
        RuntimeError,
        f"take(): Expected a long tensor for index, but got {index.dtype.title}",
    )
    return take_op(input, index)


@library_op(Library.put, upcast=False, name="put")
def put_op(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Spec:
    """A copy with source at index of the flat input."""
    return input.spec.with_shape(tuple(input.shape))


put_op.grad = lambda g, index, source, source_spec, accumulate: (
    g if accumulate else put_op(g, index, source.new_zeros(source.shape), False),
    None,
    take_op(g, index).reshape(source_spec.shape),
)


@composite(FUNCTION | METHOD | INPLACE)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with source written (or added) at index of the flat input."""
    check(
        index.dtype is dtypes.int64,
        RuntimeError,
        f"put_(): Expected a long tensor for index, but got {index.dtype.title}",
    )
    check(
        input.dtype is source.dtype,
        RuntimeError,
        "put_(): self and source expected to have the same dtype, but got self.dtype = "
        f"{input.dtype.title} and source.dtype = {source.dtype.title}",
    )
    check(
        source.numel() == index.numel(),
        IndexError,
        "put_(): Expected source and index to have the same number of elements, but got "
        f"source.numel() = {source.numel()}, index.numel() = {index.numel()}",
    )
    return put_op(input, index, source, accumulate)


@composite(FUNCTION | METHOD | INPLACE)
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with values written (or added) at input[indices]."""
    check(
        input.dtype is values.dtype,
        RuntimeError,
        f"Index put requires the source and destination dtypes match, got {input.dtype.title} for "
        f"the destination and {values.dtype.title} for the source.",
    )
    places: list[Any] = []
    for index in indices:
        if isinstance(index, Tensor) and index.dtype in (dtypes.bool_, dtypes.uint8):
            places.extend(nonzero_tuple(index))
        else:
            places.append(index if index is None else index.long())
    return index_put_op(input, tuple(places), values, accumulate)


# masks


@library_op(Library.masked_select, upcast=False, name="masked_select")
def masked_select_op(input: Tensor, mask: Tensor) -> None:
    """The elements where the mask holds, in order."""
    broadcast_shapes(tuple(input.shape), tuple(mask.shape))


masked_select_op.grad = lambda g, input_spec, mask: (_unselected(g, input_spec, mask), None)


def _unselected(g: Any, spec: Spec, mask: Any) -> Any:
    shape = broadcast_shapes(spec.shape, tuple(mask.shape))
    return masked_scatter_op(g.new_zeros(shape), mask, g)


@composite(PLAIN)
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask holds, as a vector."""
    check(mask.dtype is dtypes.bool_, RuntimeError, "masked_select: expected BoolTensor for mask")
    return masked_select_op(input, mask)


@library_op(Library.masked_scatter, upcast=False, name="masked_scatter")
def masked_scatter_op(input: Tensor, mask: Tensor, source: Tensor) -> Spec:
    """A copy with the elements of source, in order, where the mask holds."""
    return input.spec.with_shape(broadcast_shapes(tuple(input.shape), tuple(mask.shape)))


def _masked_scatter_gradient(g: Any, mask: Any, source_spec: Spec) -> Any:
    kept = g.masked_fill(mask, 0)
    taken = masked_select_op(g, mask)
    whole = g.new_zeros((source_spec.numel,))
    whole[: taken.numel()] = taken
    return kept, None, whole.reshape(source_spec.shape)


masked_scatter_op.grad = _masked_scatter_gradient


@composite(FUNCTION | METHOD | INPLACE)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy with the elements of source, in order, where the mask holds."""
    check(
        mask.dtype is dtypes.bool_,
        RuntimeError,
        f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype}",
    )
    check(
        input.dtype is source.dtype,
        RuntimeError,
        "masked_scatter: expected self and source to have same dtypes but got "
        f"{input.dtype.title} and {source.dtype.title}",
    )
    return masked_scatter_op(input, mask, source)


@library_op(Library.nonzero, upcast=False, name="nonzero")
def nonzero_op(input: Tensor) -> None:
    """The places of nonzero elements, a row each."""


@composite(PLAIN)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The places of nonzero elements as rows of a matrix, or as one vector a dim (as_tuple)."""
    if as_tuple:
        return nonzero_tuple(input)
    return nonzero_op(input)


def nonzero_tuple(input: Tensor) -> tuple[Tensor, ...]:
    """The places of nonzero elements, one vector a dim (a 0-dim tensor counts as a vector)."""
    whole = input if input.ndim else input.reshape(1)
    return tuple(nonzero_op(whole).unbind(1))


@composite(PLAIN)
def argwhere(input: Tensor) -> Tensor:
    """The places of nonzero elements as rows of a matrix."""
    return nonzero_op(input)
