"""Sparse tensors: their parts, the graph between a sparse tensor and its values, conversions.

Two nodes carry every gradient: one from a sparse tensor to its values, one back. Ops on sparse
tensors are dense ops on the values in between, on any device and in any dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ember.core import modes
from ember.core.dispatch import attach, edges_of, is_differentiable, needs_grad, node_type
from ember.core.node import Node
from ember.core.registry import OPS
from ember.core.sparse_array import COO, CSC, CSR, TITLES, SparseArray
from ember.core.tensor import Tensor, tensor_of
from ember.dtypes import bool_, int64
from ember.errors import check

NO_COLUMNS = (
    "sparse tensors are sparse_coo, sparse_csr and sparse_csc in Ember, of two sparse dims where "
    "they are compressed: {} is not there; keep the tensor dense, or use .to_sparse()"
)


class SparseNode(Node):
    """A recorded op by rules over tensors, one for each input."""

    __slots__ = ("rules",)

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """Run the rules whose gradients somebody waits for."""
        check(
            self.rules is not None,
            RuntimeError,
            "Trying to backward through the graph a second time (or directly access saved tensors "
            "after they have already been freed). Specify retain_graph=True if you need to.",
        )
        return tuple(
            None if target is None else rule(grads[0])
            for rule, (target, _) in zip(self.rules, self.edges, strict=True)
        )

    def release(self) -> None:
        """Forget the rules, and with them the tensors that they hold."""
        self.rules = None


def recorded(name: str, out: Tensor, inputs: Sequence[Tensor], *rules: Callable[..., Any]) -> Any:
    """`out`, a tensor of its own, as the result of an op with a rule for each input."""
    if (
        modes.state.grad
        and any(needs_grad(t) for t in inputs)
        and is_differentiable(out._array.spec.dtype)
    ):
        node = node_type(SparseNode, name)(edges_of(inputs), (out._array.spec,))
        node.rules = rules
        attach(node, [out])
    return out


# parts


def kind_of(tensor: Tensor) -> str:
    """The name of a tensor's layout."""
    return tensor._array.kind


def is_coo(tensor: Any) -> bool:
    """Whether a value is a tensor of coordinates and values."""
    return isinstance(tensor, Tensor) and tensor._array.kind == COO


def parts_of(tensor: Any) -> list[Tensor]:
    """The indices and the values of a sparse tensor, without history."""
    return [tensor_of(part) for part in tensor._array.parts]


def put_together(
    kind: str, parts: Sequence[Tensor], shape: Sequence[int], coalesced: bool = False
) -> Tensor:
    """A sparse tensor of these parts, without history."""
    arrays = tuple(part._array for part in parts)
    return tensor_of(SparseArray(kind, arrays, tuple(map(int, shape)), coalesced))


def values_of(tensor: Any) -> Tensor:
    """The values of a sparse tensor; gradients go back to it as sparse tensors of its pattern."""
    indices, coalesced = parts_of(tensor)[:-1], tensor._array.coalesced
    kind, shape = kind_of(tensor), tensor.shape
    return recorded(
        "values",
        parts_of(tensor)[-1],
        [tensor],
        lambda g: rebuild(kind, [*indices, g], shape, coalesced),
    )


def rebuild(
    kind: str,
    parts: Sequence[Tensor],
    shape: Sequence[int],
    coalesced: bool = False,
    name: str = "",
) -> Tensor:
    """A sparse tensor of indices and values; its gradient goes to the values."""
    out = put_together(kind, parts, shape, coalesced)
    indices, values = coordinates(out), parts[-1]
    return recorded(
        name or "sparse_coo_tensor_with_dims_and_tensors",
        out,
        [values],
        lambda g: picked(g, indices),
    )


def like(tensor: Any, values: Tensor, coalesced: bool | None = None) -> Tensor:
    """A sparse tensor of the pattern of another with other values."""
    known = tensor._array.coalesced if coalesced is None else coalesced
    return rebuild(kind_of(tensor), [*parts_of(tensor)[:-1], values], tensor.shape, known)


# places


def strides_of(sizes: Sequence[int]) -> list[int]:
    """The steps of row-major order."""
    steps, step = [], 1
    for size in reversed(sizes):
        steps.insert(0, step)
        step *= size
    return steps


def coordinates(tensor: Any) -> Tensor:
    """The places of the stored elements: (sparse dims, nnz) int64."""
    kind, parts = kind_of(tensor), parts_of(tensor)
    if kind == COO:
        return parts[0]
    compressed, plain = parts[0].to(int64), parts[1].to(int64)
    counts = compressed[1:] - compressed[:-1]
    spread = OPS["arange"](len(counts), device=plain.device).repeat_interleave(counts)
    return OPS["stack"]([spread, plain] if kind == CSR else [plain, spread])


def flat_places(indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """The places of the elements in row-major order of the sparse dims: (nnz,) int64."""
    total = indices.new_zeros(indices.shape[1])
    for row, step in zip(indices, strides_of(sizes), strict=True):
        total = total + row * step
    return total


def from_flat(places: Tensor, sizes: Sequence[int]) -> Tensor:
    """The coordinates of flat places: (sparse dims, nnz)."""
    rows = [
        (places // step) % max(size, 1) for step, size in zip(strides_of(sizes), sizes, strict=True)
    ]
    return OPS["stack"](rows) if rows else places.new_zeros((0, places.shape[0]))


def product(sizes: Sequence[int]) -> int:
    """The number of elements of a shape."""
    total = 1
    for size in sizes:
        total *= size
    return total


def added_at(places: Tensor, values: Tensor, rows: int) -> Tensor:
    """Zeros of `rows` rows with `values` added at `places`; bools are or-ed."""
    shape = (rows, *values.shape[1:])
    if values.dtype is bool_:
        return added_at(places, values.to(int64), rows) > 0
    return values.new_zeros(shape).index_add(0, places, values)


def picked(tensor: Any, indices: Tensor) -> Tensor:
    """The elements of a dense or sparse tensor at (sparse dims, nnz) coordinates: (nnz, *rest)."""
    sparse_dims = indices.shape[0]
    sizes, rest = tensor.shape[:sparse_dims], tensor.shape[sparse_dims:]
    places = flat_places(indices, sizes)
    if kind_of(tensor) == "strided":
        return tensor.reshape((product(sizes), *rest)).index_select(0, places)
    source = coalesced(as_coo(tensor))
    known, values = flat_places(parts_of(source)[0], sizes), values_of(source)
    if not known.shape[0]:
        return values.new_zeros((places.shape[0], *rest))
    at = OPS["searchsorted"](known, places).clamp(max=known.shape[0] - 1)
    found = (known.index_select(0, at) == places).reshape((-1,) + (1,) * len(rest))
    return values.index_select(0, at) * found.to(values.dtype)


# conversions


def as_coo(tensor: Any) -> Any:
    """A sparse tensor in coordinates, in the graph; itself if it is."""
    if kind_of(tensor) == COO:
        return tensor
    found = rebuild(
        COO, [coordinates(tensor), values_of(tensor)], tensor.shape, kind_of(tensor) == CSR
    )
    return found


def coalesced(tensor: Any) -> Any:
    """A tensor of coordinates with each place once, in order; itself if it is so."""
    if tensor._array.coalesced:
        return tensor
    indices, sizes = parts_of(tensor)[0], tensor.shape[: parts_of(tensor)[0].shape[0]]
    if indices.shape[1] < 2:
        out = put_together(COO, parts_of(tensor), tensor.shape, True)
        return recorded("coalesce", out, [tensor], lambda g: g)
    places, inverse = flat_places(indices, sizes).unique(return_inverse=True)
    values = added_at(inverse, parts_of(tensor)[-1], places.shape[0])
    out = put_together(COO, [from_flat(places, sizes), values], tensor.shape, True)
    return recorded("coalesce", out, [tensor], lambda g: g)


def dense(tensor: Any) -> Tensor:
    """A sparse tensor with all its elements; its gradient is that at the stored places."""
    if kind_of(tensor) == "strided":
        return tensor
    indices, values = coordinates(tensor), values_of(tensor)
    sizes = tensor.shape[: indices.shape[0]]
    found = added_at(flat_places(indices, sizes), values, product(sizes))
    return found.reshape(tensor.shape)


def compressed(tensor: Any, kind: str) -> Any:
    """A matrix as compressed rows (or columns); duplicates are added."""
    if kind_of(tensor) == kind:
        return tensor
    check(kind in (CSR, CSC), NotImplementedError, NO_COLUMNS.format(kind))
    dims = f"{tensor.dim()} dims in {kind}"
    check(tensor.dim() == 2, NotImplementedError, NO_COLUMNS.format(dims))
    if kind_of(tensor) == "strided" or coordinates(tensor).shape[0] != 2:
        tensor = from_dense(dense(tensor), 2)
    tensor = as_coo(tensor)
    if kind == CSC:
        tensor = swapped(tensor, 0, 1)
    source = coalesced(tensor)
    rows, columns = parts_of(source)[0]
    counts = rows.bincount(minlength=source.shape[0])
    begins = OPS["cat"]([counts.new_zeros(1), counts.cumsum(0)])
    shape = source.shape if kind == CSR else source.shape[::-1]
    return rebuild(kind, [begins, columns, values_of(source)], shape, True, f"to_{kind}")


def swapped(tensor: Any, dim0: int, dim1: int) -> Any:
    """A tensor of coordinates with two sparse dims swapped."""
    indices = parts_of(tensor)[0]
    order, shape = list(range(indices.shape[0])), list(tensor.shape)
    order[dim0], order[dim1] = order[dim1], order[dim0]
    shape[dim0], shape[dim1] = shape[dim1], shape[dim0]
    out = put_together(COO, [indices[order], parts_of(tensor)[-1]], shape, False)
    return recorded("transpose", out, [tensor], lambda g: g.transpose(dim0, dim1))


def from_dense(tensor: Tensor, sparse_dims: int) -> Tensor:
    """The nonzero elements of a dense tensor (blocks of them, over its first dims) with their
    coordinates."""
    count = tensor.dim()
    check(
        0 <= sparse_dims <= count,
        RuntimeError,
        f"dense_to_sparse: sparse_dim argument must be in [0,{count}] range, but {sparse_dims} is "
        "given",
    )
    sizes, rest = tensor.shape[:sparse_dims], tensor.shape[sparse_dims:]
    flat = tensor.reshape((product(sizes), *rest))
    kept = (flat != 0).reshape(product(sizes), -1).any(1) if tensor.numel() else None
    places = flat.new_zeros(0, dtype=int64) if kept is None else kept.nonzero().squeeze(1)
    values = flat.index_select(0, places)
    name = "to_sparse"
    return rebuild(COO, [from_flat(places, sizes), values], tensor.shape, True, name)


def back_to(kind: str, tensor: Any) -> Any:
    """A tensor of coordinates in the layout that an operand had."""
    if kind in (CSR, CSC) and is_coo(tensor) and tensor.dim() == 2:
        return compressed(tensor, kind)
    return tensor


def layout_title(tensor: Tensor) -> str:
    """How errors call the layout: Strided, Sparse, SparseCsr."""
    return TITLES[kind_of(tensor)]
