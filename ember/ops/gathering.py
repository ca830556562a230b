"""Elements picked and placed along a dim by index tensors: gather and scatter."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.registry import FUNCTION, INPLACE, METHOD, OUT, composite, copy_result, library_op
from ember.core.tensor import Tensor
from ember.errors import check
from ember.kernel.array import Spec
from ember.layout import broadcast_shapes, wrap_dim
from ember.ops.choices import where_
from ember.source_lines import warn

API = FUNCTION | METHOD | INPLACE | OUT
PLAIN = FUNCTION | METHOD | OUT
REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def zeros_of(spec: Spec, like: Any) -> Any:
    """Zeros in the shape of a spec, otherwise like a tensor."""
    return like.new_zeros(spec.shape)


def check_index(name: str, index: Tensor, what: str = "index") -> Tensor:
    """The index as int64; RuntimeError if it is not an integer tensor."""
    check(
        index.dtype in (dtypes.int64, dtypes.int32) or index.numel() == 0,
        RuntimeError,
        f"{name}(): Expected dtype int32/int64 for {what}, got {index.dtype}: convert it with "
        ".long()",
    )
    return index.long()


# gather and scatter


@library_op(Library.gather, upcast=False, name="gather")
def gather_op(input: Tensor, dim: int, index: Tensor) -> Spec:
    """input[i, index[i, j]] for dim 1, and so on."""
    return input.spec.with_shape(tuple(index.shape))


gather_op.grad = lambda g, input_spec, dim, index: (
    scatter_op(zeros_of(input_spec, g), dim, index, g, "sum"),
    None,
)


@library_op(Library.scatter, upcast=False, name="scatter")
def scatter_op(
    input: Tensor, dim: int, index: Tensor, src: Any, reduce: Any = None, include_self: bool = True
) -> Spec:
    """A copy of input with src at input[i, index[i, j]] for dim 1, combined by `reduce` where it
    says."""
    return input.spec.with_shape(tuple(input.shape))


def _scatter_gradient(
    g: Any,
    input: Any,
    dim: int,
    index: Any,
    src: Any,
    reduce: Any,
    include_self: bool,
    result: Any,
) -> Any:
    is_tensor = isinstance(src, Tensor)
    if reduce in ("sum", "add"):
        by_input = g if include_self else scatter_op(g, dim, index, 0.0)
        by_src = gather_op(g, dim, index) if is_tensor else None
    elif reduce is None:
        by_input = scatter_op(g, dim, index, 0.0)
        by_src = gather_op(g, dim, index) if is_tensor else None
    elif reduce in ("amax", "amin"):
        own = (input == result).to(g.dtype)
        if not include_self:
            own = scatter_op(own, dim, index, 0.0)
        hit = (_part(src, index) == gather_op(result, dim, index)).to(g.dtype)
        shared = g / scatter_op(own, dim, index, hit, "sum").clamp(min=1)
        by_input, by_src = own * shared, hit * gather_op(shared, dim, index)
    else:
        by_input, by_src = _product_gradient(g, input, dim, index, src, include_self, result)
    if not is_tensor:
        return by_input, None
    return by_input, None, _padded(by_src, src)


@library_op(Library.scatter, upcast=False, name="scatter_linear")
def scatter_linear(
    input: Tensor, dim: int, index: Tensor, src: Any, reduce: Any = None, include_self: bool = True
) -> Spec:
    """`scatter` by "sum", "mean" or none: its gradient needs no values, so those may be written."""
    return input.spec.with_shape(tuple(input.shape))


def _linear_gradient(
    g: Any, dim: int, index: Any, src_spec: Any, reduce: Any, include_self: bool
) -> Any:
    if reduce == "mean":
        count = g.new_ones(g.shape) if include_self else g.new_zeros(g.shape)
        g = g / scatter_op(count, dim, index, g.new_ones(index.shape), "sum").clamp(min=1)
    kept = reduce is not None and include_self
    by_input = g if kept else scatter_op(g, dim, index, 0.0)
    if not isinstance(src_spec, Spec):
        return by_input, None
    by_src = gather_op(g, dim, index)
    if by_src.shape != src_spec.shape:
        whole = g.new_zeros(src_spec.shape)
        whole[tuple(slice(n) for n in by_src.shape)] = by_src
        by_src = whole
    return by_input, None, by_src


scatter_linear.grad = _linear_gradient


def _product_gradient(
    g: Any, input: Any, dim: int, index: Any, src: Any, include_self: bool, result: Any
) -> Any:
    """g times the product of the others: the result over the element, and where that is 0 a product
    made without it. Both are made of ops on input and src, so that they have gradients too."""
    whole = input.masked_fill(input == 0, 1)
    by_input = g * scatter_op(whole, dim, index, src, "prod", include_self) / whole
    if not include_self:
        by_input = scatter_op(by_input, dim, index, 0.0)
    part = _part(src, index)
    zero = part == 0
    zeros = scatter_op(input.new_zeros(input.shape), dim, index, zero.to(g.dtype), "sum")
    only = zero & (gather_op(zeros, dim, index) == 1)
    without = scatter_op(input, dim, index, part.masked_fill(only, 1), "prod", include_self)
    by_src = where_(
        only,
        gather_op(g * without, dim, index),
        gather_op(g * result, dim, index) / part.masked_fill(zero, 1),
    )
    return by_input, by_src


def _part(src: Any, index: Any) -> Any:
    """The corner of src that index speaks of."""
    return src[tuple(slice(n) for n in index.shape)] if src.ndim else src


def _padded(part: Any, src: Any) -> Any:
    if part.shape == src.shape:
        return part
    whole = src.new_zeros(src.shape)
    whole[tuple(slice(n) for n in part.shape)] = part
    return whole


scatter_op.grad = _scatter_gradient


def _check_places(name: str, input: Tensor, dim: int, index: Tensor) -> None:
    check(
        max(index.ndim, 1) == max(input.ndim, 1) or index.numel() == 0,
        RuntimeError,
        "Index tensor must have the same number of dimensions as input tensor",
    )
    fits = all(
        a <= b for d, (a, b) in enumerate(zip(index.shape, input.shape, strict=False)) if d != dim
    )
    check(
        fits or index.numel() == 0,
        RuntimeError,
        f"Size does not match at dimension {_misfit(index, input, dim)} expected index "
        f"{list(index.shape)} to be no larger than self {list(input.shape)} apart from dimension "
        f"{dim}",
    )


def _misfit(index: Tensor, input: Tensor, dim: int) -> int:
    pairs = enumerate(zip(index.shape, input.shape, strict=False))
    return next((d for d, (a, b) in pairs if d != dim and a > b), 0)


@composite(PLAIN)
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """y[i, j] = input[i, index[i, j]] for dim 1, and so on; y has the shape of index.

    >>> import ember as torch
    >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """
    dim = wrap_dim(dim, input.ndim)
    index = check_index("gather", index)
    _check_places("gather", input, dim, index)
    return gather_op(input, dim, index)


@composite(API)
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Tensor:
    """A copy with src (a tensor or a number) at input[i, index[i, j]] for dim 1, and so on.

    reduce "add" or "multiply" combines with what is there.
    """
    check(
        reduce in (None, "add", "multiply"),
        RuntimeError,
        "reduce argument must be either add or multiply.",
    )
    given = value if src is None else src
    if reduce is not None and isinstance(given, Tensor):
        warn(
            "The reduce argument of torch.scatter with Tensor src is deprecated and will be "
            "removed in a future PyTorch release. Use torch.scatter_reduce instead for more "
            "reduction options."
        )
    return _scattered("scatter", input, dim, index, given, reduce, True)


def _scattered(
    name: str,
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any,
    reduce: str | None,
    include_self: bool,
) -> Tensor:
    dim = wrap_dim(dim, input.ndim)
    index = check_index(name, index)
    if isinstance(src, Tensor):
        check(
            input.dtype is src.dtype,
            RuntimeError,
            f"{name}(): Expected self.dtype to be equal to src.dtype, got {input.dtype} and "
            f"{src.dtype}",
        )
        check(
            max(src.ndim, 1) == max(index.ndim, 1) or index.numel() == 0,
            RuntimeError,
            "Index tensor must have the same number of dimensions as src tensor",
        )
        fits = all(a <= b for a, b in zip(index.shape, src.shape, strict=False))
        check(
            fits or index.numel() == 0,
            RuntimeError,
            f"Expected index {list(index.shape)} to be no larger than self {list(input.shape)} "
            f"apart from dimension {dim} and to be no larger size than src {list(src.shape)}",
        )
    _check_places(name, input, dim, index)
    op = scatter_linear if reduce in (None, "sum", "add", "mean") else scatter_op
    return op(input, dim, index, src, reduce, include_self)


@composite(API)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """A copy with src added at input[i, index[i, j]] for dim 1, and so on."""
    return _scattered("scatter_add", input, dim, index, src, "sum", True)


@composite(API)
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A copy with src combined at input[i, index[i, j]] by sum, prod, mean, amax or amin."""
    check(
        reduce in REDUCTIONS,
        RuntimeError,
        f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}",
    )
    return _scattered("scatter_reduce", input, dim, index, src, reduce, include_self)


@composite(METHOD)
def scatter_reduce_(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    """`scatter_reduce` with its result written into the tensor, which is returned."""
    before = self.clone() if reduce in ("prod", "amax", "amin") else self  # its gradient reads it
    made = scatter_reduce(before, dim, index, src, reduce, include_self=include_self)
    return copy_result(self, made)


@composite(PLAIN)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` with indices broadcast against the input; without dim, of the flat input."""
    check(
        indices.dtype is dtypes.int64,
        RuntimeError,
        f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype.title}. "
        "You can use `torch.argmax` or `torch.argsort` to get valid indices.",
    )
    if dim is None:
        flat = indices.reshape(-1)
        return gather_op(input.reshape(-1), 0, _from_front(flat, input.numel()))
    check(
        input.ndim == indices.ndim,
        RuntimeError,
        "torch.take_along_dim(): input and indices should have the same number of dimensions, but "
        f"got {input.ndim} dimensions for input, and {indices.ndim} dimensions for indices",
    )
    dim = wrap_dim(dim, input.ndim)
    shape = list(broadcast_shapes(with_size(input.shape, dim, 1), with_size(indices.shape, dim, 1)))
    source = input.expand(with_size(shape, dim, input.shape[dim]))
    places = indices.expand(with_size(shape, dim, indices.shape[dim]))
    return gather_op(source, dim, _from_front(places, source.shape[dim]))


def _from_front(places: Any, size: int) -> Any:
    """Negative indices counted from the end; others as they are, to be checked where they are
    used."""
    return places + (places < 0).to(places.dtype) * size


def with_size(shape: Any, dim: int, size: int) -> tuple[int, ...]:
    """A shape with another size in one dim."""
    return (*shape[:dim], size, *shape[dim + 1 :])
