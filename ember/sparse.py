"""Sparse tensors: products, sums and softmax whose gradients are sparse too."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.errors import check
from ember.missing import missing_attribute
from ember.ops import sparse_creation, sparse_products, sparse_reduce
from ember.ops.sparse_tensors import as_coo, kind_of

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
]
_LEFT_OUT = {
    "to_sparse_semi_structured": "2:4 sparsity is a format of the tensor cores of NVIDIA GPUs",
    "SparseSemiStructuredTensor": "2:4 sparsity is a format of the tensor cores of NVIDIA GPUs",
    "spsolve": "use scipy.sparse.linalg.spsolve on .crow_indices(), .col_indices(), .values()",
}


def mm(mat1: Tensor, mat2: Tensor, reduce: str = "sum") -> Any:
    """The product of a sparse matrix with a dense or sparse one; the gradient by a sparse factor is
    sparse: that at its stored places. NotImplementedError for another `reduce` than "sum".

    >>> import ember as torch
    >>> torch.sparse.mm(torch.eye(2).to_sparse(), torch.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    check(
        reduce == "sum",
        NotImplementedError,
        f"torch.sparse.mm: reduce is 'sum' in Ember, not {reduce!r}; use scatter_reduce",
    )
    return sparse_products.masked_mm(mat1, mat2)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Any:
    """beta · mat + alpha · (mat1 @ mat2) with a sparse mat1 and dense others.

    >>> import ember as torch
    >>> torch.sparse.addmm(torch.ones(1, 1), torch.ones(1, 2).to_sparse(), torch.ones(2, 1))
    tensor([[3.]])
    """
    check(
        kind_of(mat) == "strided" and kind_of(mat2) == "strided",
        RuntimeError,
        "addmm_sparse_dense: expected strided result tensor and mat2: call .to_dense() on them",
    )
    return mat * beta + sparse_products.masked_mm(mat1, mat2) * alpha


def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Any:
    """The sum over all elements, or over dims; dense where no sparse dim is left.

    >>> import ember as torch
    >>> torch.sparse.sum(torch.eye(3).to_sparse())
    tensor(3.)
    """
    return sparse_reduce.sparse_sum(as_coo(input), dim, False, dtype)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Any:
    """softmax along a dim over the stored elements: those that are not count as -inf.

    >>> import ember as torch
    >>> torch.sparse.softmax(torch.eye(2).to_sparse(), 1).values()
    tensor([1., 1.])
    """
    return sparse_reduce.sparse_softmax(input, dim, dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of `softmax`.

    >>> import ember as torch
    >>> torch.sparse.log_softmax(torch.eye(2).to_sparse(), 1).values()
    tensor([0., 0.])
    """
    return sparse_reduce.sparse_softmax(input, dim, dtype, log=True)


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0
) -> Any:
    """alpha · (mat1 @ mat2) at the stored places of `input`, plus beta · input.

    >>> import ember as torch
    >>> pattern = torch.eye(2).to_sparse_csr()
    >>> torch.sparse.sampled_addmm(pattern, torch.ones(2, 3), torch.ones(3, 2)).values()
    tensor([4., 4.])
    """
    rows, columns = sparse_creation.coordinates(input)
    dots = (mat1.index_select(0, rows) * mat2.t().index_select(0, columns)).sum(1)
    values = sparse_creation.values_of(input)
    return sparse_creation.like(input, values * beta + dots * alpha)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: tuple[int, int], layout: Any = None) -> Any:
    """A sparse matrix with the rows of `diagonals` on the diagonals at `offsets`; element j of a
    row stands in column j.

    >>> import ember as torch
    >>> torch.sparse.spdiags(torch.ones(1, 2), torch.tensor([0]), (2, 2)).to_dense()
    tensor([[1., 0.],
            [0., 1.]])
    """
    rows_of, offsets = ops.atleast_2d(diagonals), ops.atleast_1d(offsets)
    check(
        rows_of.shape[0] == offsets.shape[0],
        RuntimeError,
        f"Number of diagonals ({rows_of.shape[0]}) does not match the number of offsets "
        f"({offsets.shape[0]})",
    )
    check(
        len(set(offsets.tolist())) == offsets.shape[0],
        RuntimeError,
        "Offset tensor contains duplicate values",
    )
    columns = ops.arange(rows_of.shape[1]).expand(rows_of.shape)
    rows = columns - offsets.unsqueeze(1)
    kept = (rows >= 0) & (rows < shape[0]) & (columns < shape[1])
    made = ops.sparse_coo_tensor(ops.stack([rows[kept], columns[kept]]), rows_of[kept], shape)
    return made if layout is None else made.coalesce().to_sparse(layout=layout)


class check_sparse_tensor_invariants(ContextDecorator):
    """Whether indices are checked when a sparse tensor is made. Ember always checks them, unless
    `check_invariants=False` is given; the switch is kept for programs that set it.

    >>> import ember as torch
    >>> with torch.sparse.check_sparse_tensor_invariants():
    ...     torch.sparse.check_sparse_tensor_invariants.is_enabled()
    True
    """

    def __init__(self, enable: bool = True):
        self.state, self.before = enable, False

    @staticmethod
    def is_enabled() -> bool:
        """What the switch says."""
        return sparse_creation.checks_invariants[0]

    @staticmethod
    def enable() -> None:
        """Turn the switch on."""
        sparse_creation.checks_invariants[0] = True

    @staticmethod
    def disable() -> None:
        """Turn the switch off."""
        sparse_creation.checks_invariants[0] = False

    def __enter__(self) -> None:
        self.before = self.is_enabled()
        sparse_creation.checks_invariants[0] = self.state

    def __exit__(self, *error: object) -> None:
        sparse_creation.checks_invariants[0] = self.before


def as_sparse_gradcheck(gradcheck: Callable[..., Any]) -> Callable[..., Any]:
    """A gradcheck that gives sparse inputs to a function by their values.

    NotImplementedError when it is called with a sparse input: check the function of the values.
    """

    def checked(func: Any, inputs: Any, **kwargs: Any) -> Any:
        given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        sparse = [v for v in given if isinstance(v, Tensor) and kind_of(v) != "strided"]
        check(
            not sparse,
            NotImplementedError,
            "gradcheck of sparse inputs: write the function over the values, as in lambda v: "
            "f(torch.sparse_coo_tensor(indices, v, size))",
        )
        kwargs.pop("masked", None)
        return gradcheck(func, inputs, **kwargs)

    return checked


def __getattr__(name: str) -> Any:
    if name in _LEFT_OUT:
        raise AttributeError(f"torch.sparse has no {name} in Ember: {_LEFT_OUT[name]}", name=name)
    raise missing_attribute("torch.sparse", name, lambda: __all__)
