"""Order: sort, topk, kthvalue, median, mode, unique, searchsorted, histograms."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.dispatch import promoted
from ember.core.lifting import whole
from ember.core.registry import FUNCTION, METHOD, OUT, composite, library_op
from ember.core.tensor import Tensor
from ember.errors import check
from ember.kernel.array import Spec
from ember.layout import reduced_shape, wrap_dim
from ember.ops import return_types
from ember.ops.create import tensor
from ember.ops.gathering import scatter_op

PLAIN = FUNCTION | METHOD | OUT


def _pair(input: Tensor, shape: Any) -> tuple[Spec, Spec]:
    spec = input.spec.with_shape(tuple(shape))
    return spec, spec.with_dtype(dtypes.int64)


def _put_back(g: Any, input_spec: Spec, dim: int, indices: Any) -> Any:
    """A gradient of picked elements in the places that they came from."""
    blank = g.new_zeros(input_spec.shape)
    if not input_spec.shape:
        return g.reshape(())
    return scatter_op(blank, dim, indices, g, "sum")


def _refuse_complex(name: str, input: Tensor) -> None:
    if input.is_complex():
        raise RuntimeError(f"{name} does not support complex dtypes on CPU")


# sort


@library_op(Library.sort, upcast=False, name="sort")
def sort_op(input: Tensor, dim: int, descending: bool, stable: bool) -> Any:
    """Elements in order along a dim, and where they came from; NaN counts as the greatest."""
    return _pair(input, input.shape)


sort_op.grad = lambda g, input_spec, dim, result: _put_back(g[0], input_spec, dim, result[1])


@composite(PLAIN)
def sort(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """(values, indices) in order along `dim` (the last), ascending or descending; NaN counts as the
    greatest.

    >>> import ember as torch
    >>> torch.sort(torch.tensor([3, 1, 2])).values
    tensor([1, 2, 3])
    """
    dim, descending, stable = _sort_arguments(args, kwargs)
    _refuse_complex(" Sort", input)
    return return_types.sort(*sort_op(input, wrap_dim(dim, input.ndim), descending, stable))


def _sort_arguments(args: Any, kwargs: dict[str, Any]) -> tuple[int, bool, bool]:
    named, positional = dict(kwargs), list(args)
    stable = named.pop("stable", False)
    if positional and isinstance(positional[0], bool):
        stable = positional.pop(0)
    dim = positional.pop(0) if positional else named.pop("dim", -1)
    descending = positional.pop(0) if positional else named.pop("descending", False)
    check(not named, TypeError, f"sort() got unexpected keyword argument(s): {', '.join(named)}")
    return dim, bool(descending), bool(stable)


@composite(FUNCTION | METHOD)
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that sort along `dim`."""
    return sort_op(input.detach(), wrap_dim(dim, input.ndim), bool(descending), bool(stable))[1]


@composite(PLAIN)
def msort(input: Tensor) -> Tensor:
    """Elements in order along the first dim."""
    return sort(input, dim=0)[0]


@library_op(Library.topk, upcast=False, name="topk")
def topk_op(input: Tensor, k: int, dim: int, largest: bool, sorted: bool) -> Any:
    """The k greatest (or smallest) elements along a dim, and where they are."""
    shape = tuple(k if d == dim else n for d, n in enumerate(input.shape))
    return _pair(input, shape)


topk_op.grad = lambda g, input_spec, dim, result: _put_back(g[0], input_spec, dim, result[1])


@composite(PLAIN)
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """(values, indices) of the k greatest (or smallest) elements along `dim`."""
    dim = wrap_dim(dim, input.ndim)
    k = int(k)
    size = input.shape[dim] if input.ndim else 1
    check(0 <= k <= size, RuntimeError, "selected index k out of range")
    _refuse_complex("topk(): input tensor", input)
    if input.dtype is dtypes.bool_:
        raise NotImplementedError("\"topk_cpu\" not implemented for 'Bool'")
    return return_types.topk(*topk_op(input, k, dim, bool(largest), bool(sorted)))


# one of each row


def _check_row(name: str, input: Tensor, dim: int) -> int:
    wrapped = wrap_dim(dim, input.ndim)
    check(
        input.ndim == 0 or input.shape[wrapped] > 0,
        IndexError,
        f"{name}(): Expected reduction dim {wrapped} to have non-zero size.",
    )
    return wrapped


def _chosen(input: Tensor, dim: int, keepdim: bool) -> tuple[Spec, Spec]:
    return _pair(input, reduced_shape(tuple(input.shape), (dim,), keepdim) if input.ndim else ())


def _chosen_gradient(g: Any, input_spec: Spec, dim: int, keepdim: bool, result: Any) -> Any:
    grad, places = g[0], result[1]
    if not keepdim and input_spec.shape:
        grad, places = grad.unsqueeze(dim), places.unsqueeze(dim)
    return _put_back(grad, input_spec, dim, places)


@library_op(Library.kthvalue, upcast=False, name="kthvalue")
def kthvalue_op(input: Tensor, k: int, dim: int, keepdim: bool) -> Any:
    """The k-th smallest element along a dim, and where it is."""
    return _chosen(input, dim, keepdim)


@library_op(Library.mode, upcast=False, name="mode")
def mode_op(input: Tensor, dim: int, keepdim: bool) -> Any:
    """The most frequent element along a dim (the smallest of equally frequent ones), and where it
    is."""
    return _chosen(input, dim, keepdim)


@library_op(Library.median, upcast=False, name="median")
def median_op(input: Tensor, dim: int, keepdim: bool) -> Any:
    """The lower median along a dim, and where it is; NaN if there is one."""
    return _chosen(input, dim, keepdim)


@library_op(Library.nanmedian, upcast=False, name="nanmedian")
def nanmedian_op(input: Tensor, dim: int, keepdim: bool) -> Any:
    """The lower median of what is not NaN along a dim, and where it is."""
    return _chosen(input, dim, keepdim)


for _op in (kthvalue_op, mode_op, median_op, nanmedian_op):
    _op.grad = _chosen_gradient


@composite(PLAIN)
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """(values, indices) of the k-th smallest element along `dim`."""
    wrapped = _check_row("kthvalue", input, dim)
    size = input.shape[wrapped] if input.ndim else 1
    check(
        1 <= k <= size,
        RuntimeError,
        f"kthvalue(): selected number k out of range for dimension {wrapped}",
    )
    return return_types.kthvalue(*kthvalue_op(input, k, wrapped, keepdim))


@composite(PLAIN)
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """(values, indices) of the most frequent element along `dim`."""
    wrapped = _check_row("mode", input, dim)
    return return_types.mode(*mode_op(input, wrapped, keepdim))


def _median(name: str, op: Any, kind: Any, input: Tensor, dim: int | None, keepdim: bool) -> Any:
    if input.dtype is dtypes.bool_ or input.is_complex():
        raise NotImplementedError(f"\"{name}_out\" not implemented for '{input.dtype.title}'")
    if dim is None:
        if input.numel() == 0:
            fill = float("nan") if input.is_floating_point() else -(1 << 63)
            return tensor(fill, device=input.device).to(input.dtype)
        return op(input.reshape(-1), 0, False)[0]
    wrapped = _check_row(name, input, dim)
    return kind(*op(input, wrapped, keepdim))


@composite(PLAIN)
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements, or (values, indices) along `dim`; NaN if there is one."""
    return _median("median", median_op, return_types.median, input, dim, keepdim)


@composite(PLAIN)
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of what is not NaN, of all elements or as (values, indices) along `dim`."""
    return _median("nanmedian", nanmedian_op, return_types.nanmedian, input, dim, keepdim)


# sets


@library_op(Library.unique, upcast=False, name="unique")
def unique_op(
    input: Tensor, sorted: bool, return_inverse: bool, return_counts: bool, dim: int | None
) -> None:
    """The different elements (or slices along dim), where each came to, and how often each
    stands."""


@library_op(Library.unique_consecutive, upcast=False, name="unique_consecutive")
def unique_consecutive_op(
    input: Tensor, return_inverse: bool, return_counts: bool, dim: int | None
) -> None:
    """Elements (or slices) that differ from the one before, with inverse and counts."""


def _requested(found: Any, inverse: bool, counts: bool) -> Any:
    values, places, numbers = found
    parts = [values] + ([places] if inverse else []) + ([numbers] if counts else [])
    return tuple(parts) if len(parts) > 1 else values


@composite(FUNCTION | METHOD)
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements (or slices along `dim`), with the inverse and the counts where asked
    for."""
    wrapped = None if dim is None else wrap_dim(dim, input.ndim)
    found = unique_op(input.detach(), sorted, return_inverse, return_counts, wrapped)
    return _requested(found, return_inverse, return_counts)


@composite(FUNCTION | METHOD)
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Elements (or slices along `dim`) that differ from the one before, with inverse and counts
    where asked for."""
    wrapped = None if dim is None else wrap_dim(dim, input.ndim)
    found = unique_consecutive_op(input.detach(), return_inverse, return_counts, wrapped)
    return _requested(found, return_inverse, return_counts)


@library_op(Library.isin, upcast=False, name="isin")
def isin_op(elements: Tensor, test_elements: Tensor, invert: bool) -> Spec:
    """Whether each element is among others."""
    return elements.spec.with_shape(tuple(elements.shape)).with_dtype(dtypes.bool_)


@composite(FUNCTION | OUT)
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each element is (or, inverted, is not) among `test_elements`; either may be a
    number."""
    dtype = promoted([elements, test_elements])
    like = elements if isinstance(elements, Tensor) else test_elements
    first, second = (
        x.detach().to(dtype)
        if isinstance(x, Tensor)
        else tensor(x, dtype=dtype, device=like.device)
        for x in (elements, test_elements)
    )
    return isin_op(first, second.reshape(-1), invert)


# places in order


@library_op(Library.searchsorted, upcast=False, name="searchsorted")
def searchsorted_op(
    sorted_sequence: Tensor, values: Tensor, right: bool, sorter: Tensor | None
) -> Spec:
    """Where each value would stand in an ordered sequence."""
    return values.spec.with_shape(tuple(values.shape)).with_dtype(dtypes.int64)


def _check_sequence(sorted_sequence: Tensor, values: Tensor, sorter: Tensor | None) -> None:
    """RuntimeError unless values, an ordered sequence and its sorter go together."""
    check(
        sorted_sequence.ndim > 0,
        RuntimeError,
        "input value can be a scalar only when boundaries tensor dimension is 1, but we got "
        "boundaries tensor dim(0)",
    )
    check(
        sorted_sequence.ndim == 1 or values.shape[:-1] == sorted_sequence.shape[:-1],
        RuntimeError,
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
        "dimensions of boundaries tensor and input value tensor must match, but we got boundaries "
        f"tensor {list(sorted_sequence.shape)} and input value tensor {list(values.shape)}",
    )
    check(
        values.dtype is sorted_sequence.dtype,
        RuntimeError,
        "torch.searchsorted(): boundary tensor and input value tensor should have same dtype, but "
        f"got boundary tensor {sorted_sequence.dtype.title} and input value tensor "
        f"{values.dtype.title}",
    )
    if sorter is not None:
        check(
            sorter.shape == sorted_sequence.shape,
            RuntimeError,
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary "
            f"tensor {list(sorted_sequence.shape)} and got sorter tensor {list(sorter.shape)}",
        )
        check(
            sorter.dtype is dtypes.int64,
            RuntimeError,
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype "
            f"{sorter.dtype.title}",
        )


@composite(FUNCTION | OUT)
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where each value would be inserted into an ordered sequence (its last dim), left or right of
    equal ones."""
    check(
        side in (None, "left", "right"),
        RuntimeError,
        f"side can only be 'left' or 'right' but got {side}",
    )
    check(
        not (side == "left" and right),
        RuntimeError,
        "side and right can't be set to opposites, got side of left while right was True",
    )
    values = (
        input
        if isinstance(input, Tensor)
        else tensor(input, dtype=sorted_sequence.dtype, device=sorted_sequence.device)
    )
    _check_sequence(sorted_sequence, values, sorter)
    found = searchsorted_op(
        sorted_sequence.detach(), values.detach(), right or side == "right", sorter
    )
    return found.to(dtypes.int32) if out_int32 else found


@composite(FUNCTION | OUT)
def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """The index of the bucket between ordered boundaries that each value falls in."""
    check(
        boundaries.ndim == 1,
        RuntimeError,
        f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})",
    )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


# counts


@library_op(Library.bincount, upcast=False, name="bincount")
def bincount_op(input: Tensor, weights: Tensor | None, minlength: int) -> None:
    """How often each integer stands."""


@composite(FUNCTION | METHOD)
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each non-negative integer stands in a vector, or the sum of its weights."""
    check(minlength >= 0, RuntimeError, "minlength should be >= 0")
    integral = input.dtype.category == dtypes.INTEGRAL
    if not integral:
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{input.dtype.title}'")
    check(
        input.ndim == 1 and (input.numel() == 0 or int(whole(input).min()) >= 0),
        RuntimeError,
        "bincount only supports 1-d non-negative integral inputs.",
    )
    check(
        weights is None or weights.shape == input.shape,
        RuntimeError,
        "weights should be 1-d and have the same length as input",
    )
    return bincount_op(input, weights, minlength)


@library_op(Library.histc, upcast=True, name="histc")
def histc_op(input: Tensor, bins: int, min: Any, max: Any) -> Spec:
    """How many elements fall in each of `bins` equal parts of [min, max]."""
    return input.spec.with_shape((bins,))


@composite(PLAIN)
def histc(input: Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Tensor:
    """How many elements fall in each of `bins` equal parts of [min, max] (0, 0: of the elements'
    range)."""
    check(
        bins > 0,
        RuntimeError,
        f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0",
    )
    check(min <= max, RuntimeError, "torch.histc: max must be larger than min")
    if input.dtype.category < dtypes.FLOAT:
        raise NotImplementedError(f"\"histogram_cpu\" not implemented for '{input.dtype.title}'")
    return histc_op(input.detach(), bins, min, max)
