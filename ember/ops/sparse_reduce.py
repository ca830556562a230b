"""Sums, norms, softmax, shapes and joins of sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember.core.registry import OPS
from ember.core.sparse_array import COO
from ember.core.tensor import Tensor
from ember.dtypes import INTEGRAL, int64
from ember.errors import check
from ember.layout import wrap_dim, wrap_dims
from ember.ops.sparse_dispatch import handles, not_on_sparse
from ember.ops.sparse_tensors import (
    added_at,
    as_coo,
    back_to,
    coalesced,
    dense,
    flat_places,
    is_coo,
    kind_of,
    parts_of,
    rebuild,
    recorded,
    swapped,
    values_of,
)

Dims = int | Sequence[int] | None


@handles("sum")
def sum(
    input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Any:
    """The sum over all elements, a dense number, or over dims."""
    if dim is None or dim == ():
        total = parts_of(input)[-1].sum(dtype=dtype)
        shape = input.shape
        return recorded("sum", total, [input], lambda g: g.expand(shape))
    return back_to(kind_of(input), sparse_sum(as_coo(input), dim, keepdim, dtype))


def sparse_sum(input: Any, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The sum over dims, dense where no sparse dim is left; gradients at the stored places only."""
    values, indices = values_of(input), parts_of(input)[0]
    if dtype is None and values.dtype.category <= INTEGRAL:
        dtype = int64
    values = values if dtype is None else values.to(dtype)
    if dim is None:
        return values.sum()
    dims, count = wrap_dims(dim, input.dim()), indices.shape[0]
    inner = [d - count + 1 for d in dims if d >= count]
    values = values.sum(inner, keepdim) if inner else values
    kept = [d for d in range(count) if d not in dims]
    shape = [1 if d in dims else n for d, n in enumerate(input.shape) if keepdim or d not in dims]
    if not kept:
        return values.sum(0).reshape(shape)
    rows = [
        indices.new_zeros(indices.shape[1]) if d in dims else indices[d]
        for d in range(count)
        if keepdim or d in kept
    ]
    summed = any(d < count for d in dims)
    known = input._array.coalesced and not summed
    made = rebuild(COO, [OPS["stack"](rows), values], shape, known, "sparse_sum")
    return coalesced(made) if summed else made


def any(values: Any) -> bool:
    """Whether one of them is true."""
    return bool([v for v in values if v])


@handles("norm", "linalg_norm", "vector_norm")
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
    """The norm over all elements."""
    if dim is not None or keepdim:
        raise not_on_sparse("norm over dims")
    source = coalesced(input) if is_coo(input) else input
    return OPS["norm"](values_of(source), 2 if p in ("fro", None) else p)


@handles("any")
def any_of(input: Any, *args: Any) -> Tensor:
    """Whether an element is true."""
    if args:
        raise not_on_sparse("any over dims")
    return parts_of(input)[-1].any()


# softmax


def sparse_softmax(input: Any, dim: int, dtype: Any = None, log: bool = False) -> Any:
    """softmax along a dim over the stored elements; what is not stored counts as -inf."""
    source = coalesced(as_coo(input))
    values, indices = values_of(source), parts_of(source)[0]
    values = values if dtype is None else values.to(dtype)
    dim, count = wrap_dim(dim, input.dim()), indices.shape[0]
    if dim >= count:
        function = OPS["log_softmax" if log else "softmax"]
        return _of(source, function(values, dim - count + 1))
    others = [d for d in range(count) if d != dim]
    places = flat_places(indices[others], [input.shape[d] for d in others])
    found, group = places.unique(return_inverse=True)
    groups = found.shape[0]
    spread = group.reshape((-1,) + (1,) * (values.dim() - 1)).expand(values.shape)
    most = values.detach().new_full((groups, *values.shape[1:]), float("-inf"))
    most = most.scatter_reduce(0, spread, values.detach(), "amax")
    shifted = values - most.index_select(0, group)
    raised = shifted.exp()
    totals = added_at(group, raised, groups).index_select(0, group)
    return _of(source, shifted - totals.log() if log else raised / totals)


def _of(source: Any, values: Tensor) -> Any:
    return rebuild(COO, [parts_of(source)[0], values], source.shape, True, "sparse_softmax")


# shapes


@handles("transpose", "swapaxes", "swapdims")
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two dims swapped; a matrix of compressed rows has compressed columns then."""
    first, second = wrap_dim(dim0, input.dim()), wrap_dim(dim1, input.dim())
    if first == second:
        return input
    if not is_coo(input):
        indices = parts_of(input)[:-1]
        kind = "sparse_csc" if kind_of(input) == "sparse_csr" else "sparse_csr"
        return rebuild(kind, [*indices, values_of(input)], input.shape[::-1], True, "transpose")
    count = parts_of(input)[0].shape[0]
    check(
        first < count and second < count,
        RuntimeError,
        f"transpose: transposed dimensions must be sparse; got sparse_dim: {count}, d0: {first}, "
        f"d1: {second}",
    )
    return swapped(input, first, second)


@handles("t", "numpy_T", "T", "mT", "adjoint", "H", "mH")
def t(input: Any) -> Any:
    """The transpose of a matrix."""
    check(
        input.dim() <= 2,
        RuntimeError,
        f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {input.dim()}D "
        "tensor",
    )
    return input if input.dim() < 2 else transpose(input, 0, 1)


@handles("permute")
def permute(input: Any, *dims: Any) -> Any:
    """The sparse dims in another order."""
    order = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    order = [wrap_dim(d, input.dim()) for d in order]
    source = as_coo(input)
    indices, values = parts_of(source)[0], values_of(source)
    count = indices.shape[0]
    check(
        order[count:] == list(range(count, input.dim()))
        and sorted(order) == list(range(len(order))),
        RuntimeError,
        "permute: the dense dims of a sparse tensor stay where they are",
    )
    shape = [input.shape[d] for d in order]
    return rebuild(COO, [indices[order[:count]], values], shape, False, "permute")


@handles("unsqueeze")
def unsqueeze(input: Any, dim: int) -> Any:
    """With a dim of size 1 before `dim`."""
    source = as_coo(input)
    indices, values = parts_of(source)[0], values_of(source)
    dim = wrap_dim(dim, input.dim() + 1)
    shape = [*input.shape[:dim], 1, *input.shape[dim:]]
    if dim > indices.shape[0]:
        values = values.unsqueeze(dim - indices.shape[0] + 1)
    else:
        zeros = indices.new_zeros((1, indices.shape[1]))
        indices = OPS["cat"]([indices[:dim], zeros, indices[dim:]])
    return rebuild(COO, [indices, values], shape, source._array.coalesced, "unsqueeze")


@handles("select")
def select(input: Any, dim: int, index: int) -> Any:
    """The slice at an index of a dim; dense if no sparse dim is left."""
    source = as_coo(input)
    indices, values = parts_of(source)[0], values_of(source)
    dim = wrap_dim(dim, input.dim())
    size = input.shape[dim]
    check(
        -size <= index < size,
        IndexError,
        f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension "
        f"{dim}",
    )
    shape = [n for d, n in enumerate(input.shape) if d != dim]
    index %= size
    if dim >= indices.shape[0]:
        values = values.select(dim - indices.shape[0] + 1, index)
        return rebuild(COO, [indices, values], shape, source._array.coalesced, "select")
    kept = (indices[dim] == index).nonzero().squeeze(1)
    values = values.index_select(0, kept)
    rest = [d for d in range(indices.shape[0]) if d != dim]
    if not rest:
        return values.sum(0)
    places = indices[rest].index_select(1, kept)
    return rebuild(COO, [places, values], shape, source._array.coalesced, "select")


@handles("unbind")
def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """All slices along a dim."""
    return tuple(select(input, dim, i) for i in range(input.shape[dim]))


@handles("index_select")
def index_select(input: Any, dim: int, index: Tensor) -> Any:
    """The slices at indices of a dim."""
    source = as_coo(input)
    indices, values = parts_of(source)[0], values_of(source)
    dim = wrap_dim(dim, input.dim())
    shape = [len(index) if d == dim else n for d, n in enumerate(input.shape)]
    if dim >= indices.shape[0]:
        values = values.index_select(dim - indices.shape[0] + 1, index)
        return rebuild(COO, [indices, values], shape, source._array.coalesced, "index_select")
    wanted = index % input.shape[dim]
    order = wanted.argsort(stable=True)
    begins = OPS["searchsorted"](wanted[order], indices[dim])
    ends = OPS["searchsorted"](wanted[order], indices[dim], right=True)
    taken, within = runs(begins, ends)
    places = indices.index_select(1, taken)
    rows = [order[within] if d == dim else places[d] for d in range(len(places))]
    return rebuild(
        COO, [OPS["stack"](rows), values.index_select(0, taken)], shape, False, "index_select"
    )


def runs(begins: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    """For runs [begin, end): which run each element belongs to, and what it is."""
    counts = ends - begins
    owner = OPS["arange"](len(counts), device=counts.device).repeat_interleave(counts)
    before = counts.cumsum(0) - counts
    position = OPS["arange"](len(owner), device=counts.device) - before.index_select(0, owner)
    return owner, begins.index_select(0, owner) + position


@handles("__getitem__")
def getitem(self: Any, key: Any) -> Any:
    """Slices by integers."""
    dim = 0
    for index in key if isinstance(key, tuple) else (key,):
        if isinstance(index, slice) and index == slice(None):
            dim += 1
            continue
        if not isinstance(index, int) or isinstance(index, bool):
            raise not_on_sparse("indexing by anything but integers")
        self = self.select(dim, index)
    return self


# joins


@handles("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Sparse tensors one after the other along a dim."""
    check(
        all_sparse(tensors),
        RuntimeError,
        "Concatenating sparse tensors, but a dense tensor was found: call .to_sparse() on it",
    )
    sources = [as_coo(tensor) for tensor in tensors]
    dim, count = wrap_dim(dim, sources[0].dim()), parts_of(sources[0])[0].shape[0]
    check(
        dim < count, NotImplementedError, "cat of sparse tensors along a dense dim: use to_dense()"
    )
    shape, start, places = list(sources[0].shape), 0, []
    for source in sources:
        indices = parts_of(source)[0].clone()
        indices[dim] += start
        start += source.shape[dim]
        places.append(indices)
    shape[dim] = start
    values = OPS["cat"]([values_of(source) for source in sources])
    return rebuild(COO, [OPS["cat"](places, 1), values], shape, False, "cat")


def all_sparse(tensors: Sequence[Any]) -> bool:
    """Whether none of the tensors is dense."""
    return not [tensor for tensor in tensors if kind_of(tensor) == "strided"]


@handles("stack")
def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Sparse tensors along a new dim."""
    return cat([unsqueeze(tensor, dim) for tensor in tensors], dim)


__all__ = ["dense", "sparse_softmax", "sparse_sum"]
