"""Matrix products with sparse factors."""

from __future__ import annotations

from typing import Any

from ember.core.registry import FUNCTION, METHOD, OPS, composite
from ember.core.sparse_array import COO
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops.sparse_dispatch import handles, not_on_sparse
from ember.ops.sparse_math import add
from ember.ops.sparse_reduce import runs, t
from ember.ops.sparse_tensors import (
    as_coo,
    back_to,
    coalesced,
    coordinates,
    dense,
    kind_of,
    parts_of,
    put_together,
    rebuild,
    recorded,
    values_of,
)


def _check(first: Any, second: Any) -> None:
    check(
        first.dim() == 2 and second.dim() == 2,
        RuntimeError,
        f"mm: Expected two matrices, got tensors of {first.dim()} and {second.dim()} dims",
    )
    check(
        first.shape[1] == second.shape[0],
        RuntimeError,
        f"addmm: Argument #3 (dense): Expected dim 0 size {first.shape[1]}, got {second.shape[0]} "
        f"(the factors have shapes {list(first.shape)} and {list(second.shape)})",
    )


def _onto_rows(matrix: Any, values: Tensor, other: Tensor) -> Tensor:
    """sparse · dense: every stored element sends its multiple of a row of `other` to its row."""
    rows, columns = coordinates(matrix)
    parts = values.unsqueeze(1) * other.index_select(0, columns)
    return parts.new_zeros((matrix.shape[0], other.shape[1])).index_add(0, rows, parts)


@handles("mm")
def mm(input: Any, mat2: Any, out_dtype: Any = None, *, out: Any = None) -> Any:
    """The product of matrices of which at least one is sparse: dense, or sparse if both are. The
    gradient by a sparse factor of a dense result is dense."""
    _check(input, mat2)
    if kind_of(input) == "strided":
        return t_of(mm(t(mat2), input.t()))
    if kind_of(mat2) != "strided":
        return back_to(kind_of(input), _both(as_coo(input), as_coo(mat2)))
    found = _onto_rows(input, parts_of(input)[-1], mat2.detach())
    return recorded(
        "mm",
        found,
        [input, mat2],
        lambda g: g @ mat2.t().conj(),
        lambda g: masked_mm(t(as_coo(input)), g),
    )


def t_of(matrix: Tensor) -> Tensor:
    """The transpose of a dense result, in row-major order."""
    return matrix.t().contiguous()


def masked_mm(input: Any, mat2: Any) -> Any:
    """The product whose gradient by a sparse factor is sparse too: at its stored places."""
    _check(input, mat2)
    if kind_of(input) == "strided":
        return t_of(masked_mm(t(mat2), input.t()))
    if kind_of(mat2) != "strided":
        return mm(input, mat2)
    return _onto_rows(input, values_of(input), mat2)


def _both(first: Any, second: Any) -> Any:
    """sparse · sparse: each element meets those of the row of the other that its column names."""
    first, second = coalesced(first), coalesced(second)
    rows, inner = parts_of(first)[0]
    their_rows, columns = parts_of(second)[0]
    begins = OPS["searchsorted"](their_rows.contiguous(), inner.contiguous())
    ends = OPS["searchsorted"](their_rows.contiguous(), inner.contiguous(), right=True)
    mine, theirs = runs(begins, ends)
    values = values_of(first).index_select(0, mine) * values_of(second).index_select(0, theirs)
    places = OPS["stack"]([rows.index_select(0, mine), columns.index_select(0, theirs)])
    shape = (first.shape[0], second.shape[1])
    return coalesced(rebuild(COO, [places, values], shape, False, "sparse_sparse_matmul"))


@handles("mv")
def mv(input: Any, vec: Any) -> Tensor:
    """The product of a sparse matrix and a dense vector."""
    check(
        input.dim() == 2 and vec.dim() == 1 and input.shape[-1] == vec.shape[-1],
        RuntimeError,
        "mv: expected self.size(-1) == vec.size(-1)",
    )
    return mm(input, vec.unsqueeze(1)).squeeze(1)


@handles("matmul", "spmm", "dsmm", "hsmm")
def matmul(input: Any, other: Any) -> Any:
    """The product of matrices and vectors."""
    dims = input.dim(), other.dim()
    if dims == (2, 2):
        return mm(input, other)
    if dims == (2, 1):
        return mv(input, other)
    if dims == (1, 2):
        return mv(t(other), input)
    raise not_on_sparse(f"matmul of {dims[0]} and {dims[1]} dims")


@handles("addmm", "sparse_addmm")
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta · input + alpha · (mat1 @ mat2)."""
    product = mm(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return input * beta + product if beta != 1 else input + product


@handles("linear")
def linear(input: Tensor, weight: Any, bias: Any = None) -> Tensor:
    """input @ weight.T + bias, for a sparse weight."""
    flat = input.reshape(-1, input.shape[-1])
    found = t_of(mm(weight, flat.t())).reshape(*input.shape[:-1], weight.shape[0])
    return found if bias is None else found + bias


@handles("bmm")
def bmm(input: Any, mat2: Any) -> Tensor:
    """The products of a batch of sparse matrices with dense ones."""
    pairs = zip(input.unbind(0), mat2.unbind(0), strict=True)
    return OPS["stack"]([mm(a, b) for a, b in pairs])


def _all_stored(matrix: Tensor) -> Any:
    """A dense matrix with every element stored, zeros too."""
    rows, columns = matrix.shape
    places = OPS["arange"](rows * columns, device=matrix.device)
    indices = OPS["stack"]([places // max(columns, 1), places % max(columns, 1)])
    return put_together(COO, [indices, matrix.detach().reshape(-1)], matrix.shape, True)


@composite(FUNCTION | METHOD)
def smm(input: Any, mat: Tensor) -> Any:
    """sparse @ dense as a sparse tensor which stores every element of the rows that are not empty.

    >>> import ember as torch
    >>> torch.smm(torch.eye(2).to_sparse(), torch.ones(2, 2)).to_dense()
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _all_stored(mm(input, mat))


@composite(FUNCTION)
def hspmm(mat1: Any, mat2: Tensor) -> Any:
    """sparse @ dense as a sparse tensor of rows."""
    source = coalesced(as_coo(mat1))
    rows = parts_of(source)[0][0].unique()
    values = mm(source, mat2).index_select(0, rows)
    return rebuild(COO, [rows.unsqueeze(0), values], (mat1.shape[0], mat2.shape[1]), True)


@composite(FUNCTION | METHOD)
def sspaddmm(input: Any, mat1: Any, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta · input + alpha · (mat1 @ mat2), all of it sparse but mat2."""
    return add(input * beta, smm(mat1, mat2) * alpha)


for _name in ("spmm", "dsmm", "hsmm"):

    def _product(mat1: Any, mat2: Any) -> Any:
        return matmul(mat1, mat2)

    _product.__name__, _product.__doc__ = _name, "The product of a sparse and a dense matrix."
    composite(FUNCTION, name=_name)(_product)


@composite(FUNCTION)
def saddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta · input + alpha · (mat1 @ mat2) with a sparse mat1."""
    return addmm(input, mat1, mat2, beta=beta, alpha=alpha)


__all__ = ["addmm", "dense", "masked_mm", "mm"]
