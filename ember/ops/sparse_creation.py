"""Making sparse tensors, and what they are asked: indices, values, numbers of dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember.core.registry import FUNCTION, METHOD, OPS, composite, install_method
from ember.core.sparse_array import COO, CSC, CSR
from ember.core.tensor import Tensor
from ember.dtypes import int64
from ember.errors import check
from ember.ops.formats import layout as Layout
from ember.ops.sparse_tensors import (
    NO_COLUMNS,
    as_coo,
    coalesced,
    compressed,
    coordinates,
    dense,
    from_dense,
    kind_of,
    layout_title,
    like,
    parts_of,
    picked,
    put_together,
    rebuild,
    values_of,
)

checks_invariants = [False]  # torch.sparse.check_sparse_tensor_invariants


def _data(value: Any, dtype: Any, device: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value.to(device or value.device, dtype or value.dtype)
    return OPS["tensor"](value, dtype=dtype, device=device)


def _finished(out: Tensor, requires_grad: bool) -> Tensor:
    return out.requires_grad_() if requires_grad and not out.requires_grad else out


@composite(FUNCTION)
def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """A tensor of `size` with `values` (nnz, *dense dims) at `indices` (sparse dims, nnz), zeros
    elsewhere; values at one place are added up. With a size alone, nothing is stored.

    RuntimeError for indices that are negative or outside the size, unless check_invariants=False.

    >>> import ember as torch
    >>> torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    if values is None:
        size = indices if size is None else size
        return no_elements(tuple(size), dtype, device, requires_grad)
    made = _data(values, dtype, device)
    places = _data(indices, None, made.device).detach().to(int64)
    check(
        places.dim() == 2,
        RuntimeError,
        f"indices must be sparse_dim x nnz, but got: {list(places.shape)}",
    )
    sparse_dims, nnz = places.shape
    made = made.expand(nnz) if made.dim() == 0 else made
    check(
        made.shape[0] == nnz,
        RuntimeError,
        f"indices and values must have same nnz, but got nnz from indices: {nnz}, nnz from values: "
        f"{made.shape[0]}",
    )
    if size is None:
        found = (places.max(1).values + 1).tolist() if nnz else [0] * sparse_dims
        size = (*found, *made.shape[1:])
    shape = tuple(int(n) for n in size)
    _check_coo(places, made, shape, check_invariants)
    return _finished(rebuild(COO, [places, made], shape, bool(is_coalesced)), requires_grad)


def _check_coo(places: Tensor, values: Tensor, shape: tuple[int, ...], asked: bool | None) -> None:
    sparse_dims, nnz = places.shape
    dense_dims = values.dim() - 1
    check(
        len(shape) == sparse_dims + dense_dims,
        RuntimeError,
        f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, "
        f"sparse_dim = {sparse_dims}, dense_dim = {dense_dims}",
    )
    wanted = (nnz, *shape[sparse_dims:])
    check(
        tuple(values.shape) == wanted,
        RuntimeError,
        f"values has incorrect size, expected {list(wanted)}, got {list(values.shape)}",
    )
    if asked is False or not nnz or places.is_meta:
        return
    least, most = places.min(1).values.tolist(), places.max(1).values.tolist()
    for dim in range(sparse_dims):
        check(least[dim] >= 0, RuntimeError, f"found negative index {least[dim]} for dim {dim}")
        check(
            most[dim] < shape[dim],
            RuntimeError,
            f"size is inconsistent with indices: for dim {dim}, size is {shape[dim]} but found "
            f"index {most[dim]}",
        )


def no_elements(
    shape: Sequence[int],
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    kind: str = COO,
    dense_dims: int = 0,
) -> Tensor:
    """A sparse tensor in which nothing is stored."""
    sparse_dims = len(shape) - dense_dims
    values = OPS["empty"]((0, *shape[sparse_dims:]), dtype=dtype, device=device)
    places = OPS["empty"]((sparse_dims, 0), dtype=int64, device=values.device)
    out = put_together(COO, [places, values], shape, True)
    return _finished(compressed(out, kind) if kind != COO else out, requires_grad)


@composite(FUNCTION)
def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A matrix by the place where each row (`torch.sparse_csr`) or column (`torch.sparse_csc`)
    begins, the columns or rows, and the values. RuntimeError for indices that do not fit.

    >>> import ember as torch
    >>> torch.sparse_compressed_tensor(
    ...     [0, 1, 2], [1, 0], [3.0, 4.0], layout=torch.sparse_csr
    ... ).to_dense()
    tensor([[0., 3.],
            [4., 0.]])
    """
    kind = getattr(layout, "name", "none")
    check(
        layout is not None,
        RuntimeError,
        "sparse_compressed_tensor expected sparse compressed tensor layout but got none",
    )
    check(kind in (CSR, CSC), NotImplementedError, NO_COLUMNS.format(kind))
    made = _data(values, dtype, device)
    begins = _data(compressed_indices, None, made.device).detach()
    plain = _data(plain_indices, None, made.device).detach()
    check(
        begins.dim() == plain.dim() == made.dim() == 1,
        NotImplementedError,
        NO_COLUMNS.format(f"a batch of matrices in {kind}"),
    )
    if size is None:
        across = int(plain.max().item()) + 1 if plain.numel() else 0
        size = (begins.shape[0] - 1, across)
        size = size if kind == CSR else size[::-1]
    shape = tuple(int(n) for n in size)
    if check_invariants is not False and not made.is_meta:
        _check_compressed(kind, begins, plain, made, shape)
    return _finished(rebuild(kind, [begins, plain, made], shape, True), requires_grad)


def _check_compressed(
    kind: str, begins: Tensor, plain: Tensor, values: Tensor, shape: tuple[int, ...]
) -> None:
    row, column, across = ("crow", "col", "ncols") if kind == CSR else ("ccol", "row", "nrows")
    along, limit = shape if kind == CSR else shape[::-1]
    nnz = values.shape[0]
    check(
        begins.shape[0] == along + 1,
        RuntimeError,
        f"{row}_indices.shape[-1] must be equal to the number of "
        f"{'rows' if kind == CSR else 'columns'} + 1 = {along + 1}, but got {begins.shape[0]}",
    )
    check(
        plain.shape[0] == nnz,
        RuntimeError,
        f"number of elements in {column}_indices ({plain.shape[0]}) must be equal to the number of "
        f"values ({nnz})",
    )
    first, last = begins[0].item(), begins[-1].item()
    check(first == 0, RuntimeError, f"`{row}_indices[..., 0] == 0` is not satisfied.")
    check(last == nnz, RuntimeError, f"`{row}_indices[..., -1] == nnz` is not satisfied.")
    check(
        bool((begins[1:] >= begins[:-1]).all()),
        RuntimeError,
        f"`0 <= {row}_indices[..., 1:] - {row}_indices[..., :-1] <= {across}` is not satisfied.",
    )
    check(
        not nnz or (plain.min().item() >= 0 and plain.max().item() < limit),
        RuntimeError,
        f"`0 <= {column}_indices < {across}` is not satisfied.",
    )


def _define_compressed(name: str, kind: str) -> None:
    def make(
        compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, **options: Any
    ) -> Tensor:
        return sparse_compressed_tensor(
            compressed_indices, plain_indices, values, size, layout=Layout(kind), **options
        )

    by_row = kind == CSR

    def by_name(*args: Any, **kwargs: Any) -> Tensor:
        first, second = (
            ("crow_indices", "col_indices") if by_row else ("ccol_indices", "row_indices")
        )
        for old, new in ((first, "compressed_indices"), (second, "plain_indices")):
            if old in kwargs:
                kwargs[new] = kwargs.pop(old)
        return make(*args, **kwargs)

    by_name.__name__ = name
    by_name.__doc__ = f"`sparse_compressed_tensor` of layout torch.{kind}."
    composite(FUNCTION, name=name)(by_name)


for _kind in (CSR, CSC, "sparse_bsr", "sparse_bsc"):
    _define_compressed(f"{_kind}_tensor", _kind)


# conversions


@composite(METHOD)
def to_sparse(
    self: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: Any = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> Tensor:
    """The tensor with its zeros left out: coordinates over the first `sparse_dim` dims (all), or
    another layout. Gradients are those at the stored places.

    >>> import ember as torch
    >>> torch.tensor([[0.0, 5.0]]).to_sparse().indices()
    tensor([[0],
            [1]])
    """
    kind = COO if layout is None else layout.name
    check(blocksize is None, NotImplementedError, NO_COLUMNS.format("a blocksize"))
    if kind == "strided":
        return dense(self)
    if kind != COO:
        return compressed(self, kind)
    if kind_of(self) != "strided":
        return as_coo(self)
    wanted = self.dim() - (dense_dim or 0) if sparse_dim is None else sparse_dim
    return from_dense(self, wanted)


@composite(METHOD)
def to_sparse_coo(self: Tensor) -> Tensor:
    """The tensor in coordinates."""
    return to_sparse(self)


def _define_conversion(kind: str) -> None:
    def convert(self: Tensor, *args: Any, dense_dim: int | None = None, **kwargs: Any) -> Tensor:
        check(not dense_dim, NotImplementedError, NO_COLUMNS.format("a dense dim"))
        return compressed(self, kind)

    convert.__name__, convert.__doc__ = f"to_{kind}", f"The matrix as torch.{kind}."
    composite(METHOD)(convert)


for _kind in (CSR, CSC, "sparse_bsr", "sparse_bsc"):
    _define_conversion(_kind)


@composite(METHOD)
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor with all its elements; itself if it is dense. The gradient of a sparse one is that
    at its stored places."""
    found = dense(self)
    return found if dtype is None else found.to(dtype)


@composite(METHOD)
def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements at the places that `mask` stores, as a sparse tensor of its pattern.

    RuntimeError for another shape or a dense mask.
    """
    check(
        kind_of(mask) != "strided",
        RuntimeError,
        "sparse_mask: the mask must be a sparse tensor: make it one with .to_sparse()",
    )
    check(
        self.shape == mask.shape,
        RuntimeError,
        f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but "
        f"mask has size {list(mask.shape)}",
    )
    found = picked(self, coordinates(mask))
    return rebuild(
        kind_of(mask),
        [*parts_of(mask)[:-1], found],
        mask.shape,
        mask._array.coalesced,
        "sparse_mask",
    )


# questions


def _wants(name: str, kinds: tuple[str, ...], what: str) -> Any:
    def check_layout(self: Any) -> None:
        check(
            kind_of(self) in kinds,
            RuntimeError,
            lambda: f"{name} expected {what} layout but got {layout_title(self)}",
        )

    return check_layout


def _question(name: str, kinds: tuple[str, ...], what: str, answer: Any, doc: str) -> None:
    check_layout = _wants(name, kinds, what)

    def ask(self: Tensor) -> Any:
        check_layout(self)
        return answer(self)

    ask.__name__, ask.__doc__ = name, doc
    composite(METHOD)(ask)


def _only_coalesced(name: str, tensor: Any) -> None:
    check(
        tensor._array.coalesced,
        RuntimeError,
        f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first",
    )


def _indices(tensor: Any) -> Tensor:
    _only_coalesced("indices", tensor)
    return parts_of(tensor)[0]


def _values(tensor: Any) -> Tensor:
    if kind_of(tensor) == COO:
        _only_coalesced("values", tensor)
    return values_of(tensor)


_COORDINATES, _SPARSE = "sparse coordinate tensor", "sparse tensor"
_ROWS, _COLUMNS = "sparse row compressed tensor", "sparse column compressed tensor"
_ANY = (COO, CSR, CSC)
for _name, _kinds, _what, _answer, _doc in (
    ("indices", (COO,), _COORDINATES, _indices, "The coordinates of a coalesced tensor."),
    ("values", _ANY, _SPARSE, _values, "The stored values; gradients go back."),
    ("_indices", (COO,), _COORDINATES, lambda t: parts_of(t)[0], "The coordinates as they are."),
    ("_values", (COO,), _COORDINATES, lambda t: parts_of(t)[-1], "The values, without history."),
    ("_nnz", _ANY, _SPARSE, lambda t: parts_of(t)[-1].shape[0], "How many values are stored."),
    ("crow_indices", (CSR,), _ROWS, lambda t: parts_of(t)[0], "Where each row begins."),
    ("col_indices", (CSR,), _ROWS, lambda t: parts_of(t)[1], "The column of each value."),
    ("ccol_indices", (CSC,), _COLUMNS, lambda t: parts_of(t)[0], "Where each column begins."),
    ("row_indices", (CSC,), _COLUMNS, lambda t: parts_of(t)[1], "The row of each value."),
    ("coalesce", (COO,), _COORDINATES, coalesced, "Each place once, in order."),
    (
        "is_coalesced",
        (COO,),
        _COORDINATES,
        lambda t: t._array.coalesced,
        "Whether each place is stored once, in order.",
    ),
):
    _question(_name, _kinds, _what, _answer, _doc)


@composite(METHOD)
def sparse_dim(self: Tensor) -> int:
    """The number of dims that have indices; 0 for a dense tensor."""
    if kind_of(self) == "strided":
        return 0
    return parts_of(self)[0].shape[0] if kind_of(self) == COO else 2


@composite(METHOD)
def dense_dim(self: Tensor) -> int:
    """The number of dims of the values."""
    return self.dim() - sparse_dim(self)


@composite(METHOD)
def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    """Say that each place is stored once, in order (or not); nothing is checked."""
    self._array.coalesced = coalesced
    return self


install_method("_dimI", sparse_dim)
install_method("_dimV", dense_dim)
__all__ = ["like", "no_elements", "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_mask"]
