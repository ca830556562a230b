"""Reductions of segments: pieces of a tensor along an axis, of lengths that tensors tell."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.dispatch import not_implemented
from ember.core.registry import FUNCTION, composite, library_op
from ember.core.tensor import Tensor
from ember.dtypes import FLOATING
from ember.errors import check
from ember.kernel.array import Spec
from ember.ops.argument_types import check_tensor
from ember.ops.choices import where_
from ember.ops.create import zeros
from ember.ops.gathering import gather
from ember.ops.joining import cat
from ember.ops.ranges import arange
from ember.ops.scans import cumsum
from ember.ops.sorting import searchsorted

NAMES = {n: n for n in ("sum", "prod", "mean", "max", "min")} | {"amax": "max", "amin": "min"}


@library_op(Library.segment_reduce)
def reduced_segments(data: Tensor, ends: Tensor, reduce: str, axis: int, initial: Any) -> Spec:
    """Each segment data[..., ends[s] : ends[s + 1]] along `axis` reduced to one element."""
    shape = (*data.shape[:axis], ends.shape[-1] - 1, *data.shape[axis + 1 :])
    return data._array.spec.with_shape(shape)


def _spread(values: Tensor, ends: Tensor, like: Tensor, axis: int) -> Tensor:
    """The value of its segment for each element of `like`; 0 for those outside of all segments."""
    places = arange(like.shape[axis], device=like.device).expand(*ends.shape[:-1], -1).contiguous()
    segment = searchsorted(ends[..., 1:].contiguous(), places, right=True)
    inside = (segment < ends.shape[-1] - 1) & (places >= ends[..., :1])
    segment, inside = (
        t.reshape((*t.shape, *(1,) * (like.ndim - axis - 1))).expand(like.shape)
        for t in (segment.clamp(max=max(ends.shape[-1] - 2, 0)), inside)
    )
    if not values.shape[axis]:
        return zeros(like.shape, dtype=values.dtype, device=like.device)
    return where_(inside, gather(values, axis, segment), 0)


def _gradient(
    g: Any, data: Any, ends: Any, reduce: Any, axis: Any, initial: Any, result: Any, needs: Any
) -> Any:
    def spread(values: Any) -> Any:
        return _spread(values, ends, data, axis)

    def counted(hit: Any) -> Any:
        return reduced_segments(hit.to(data.dtype), ends, "sum", axis, 0)

    if reduce in ("sum", "mean"):
        sizes = counted(data.new_ones(data.shape)) if reduce == "mean" else 1
        return spread(g / sizes), None
    value = spread(result)
    if reduce in ("max", "min"):
        hit = (data == value) | (data.isnan() & value.isnan())
        return spread(g / counted(hit)) * hit, None
    apart = (data == 0) | data.isnan()  # their product of the others is no quotient
    others = reduced_segments(where_(apart, 1, data), ends, "prod", axis, initial)
    alone = spread(counted(apart)) == 1
    product = where_(alone, spread(others), where_(value.isnan(), value, 0))
    return spread(g) * where_(apart, product, value / where_(apart, 1, data)), None


reduced_segments.grad = _gradient


def _ends_of_lengths(data: Tensor, lengths: Tensor, axis: int, unsafe: bool) -> Tensor:
    if not unsafe:
        check(bool((lengths >= 0).all()), RuntimeError, "lengths contains negative value!")
        check(
            bool((lengths.sum(-1) == data.shape[axis]).all()),
            RuntimeError,
            "segment_reduce(): Expected all rows of lengths along axis to sum to "
            "data.size(lengths.dim()-1) when !unsafe.",
        )
    return cat([lengths.new_zeros((*lengths.shape[:-1], 1)), cumsum(lengths, -1)], -1)


@composite(FUNCTION)
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Tensor:
    """The sum, mean, prod, max or min of each segment of `data` along `axis`.

    The segments are given by their `lengths` (..., n) or by `offsets` (..., n + 1), the places
    where each begins, and the end; dims in front of the last go along with those of `data`.

    >>> import ember as torch
    >>> torch.segment_reduce(torch.tensor([1.0, 2.0, 3.0]), "sum", lengths=torch.tensor([2, 1]))
    tensor([3., 3.])
    """
    check_tensor("segment_reduce", "data", 1, data)
    check(
        reduce in NAMES,
        RuntimeError,
        f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}",
    )
    check(
        indices is None,
        RuntimeError,
        "segment_reduce(): indices based reduction is not supported yet.",
    )
    given = offsets if lengths is None else lengths
    if given is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if data.dtype not in FLOATING:
        raise not_implemented("_segment_reduce_cpu", data.dtype)
    if given.dtype not in (dtypes.int32, dtypes.int64):
        raise not_implemented("_segment_reduce_lengths_cpu_kernel1", given.dtype)
    check(
        data.ndim >= given.ndim,
        RuntimeError,
        f"segment_reduce(): data has {data.ndim} dims, fewer than the {given.ndim} of its segments",
    )
    check(
        axis == given.ndim - 1,
        RuntimeError,
        f"segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}.",
    )
    check(
        given.shape[:-1] == data.shape[:axis],
        RuntimeError,
        f"segment_reduce(): the segments have the shape {list(given.shape)}, whose dims in front "
        f"must be those of data, {list(data.shape[:axis])}",
    )
    ends = given if lengths is None else _ends_of_lengths(data, given, axis, unsafe)
    return reduced_segments(data, ends.detach(), NAMES[reduce], axis, initial)
