"""Eigenvalues and eigenvectors, with their derivatives, which exist where eigenvalues differ."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.registry import LINALG, OUT, composite, library_op
from ember.core.tensor import Tensor
from ember.errors import check
from ember.kernel.array import Spec
from ember.ops import return_types
from ember.ops.factorizations import check_phase
from ember.ops.matrices import check_precise, check_square, records
from ember.ops.solving import solve_op


def _apart(values: Any) -> Any:
    """λ_j − λ_i, and 1 on the diagonal."""
    differences = values.unsqueeze(-2) - values.unsqueeze(-1)
    return differences + values.new_ones(values.shape[-1]).diag_embed()


def _without_diagonal(x: Any) -> Any:
    return x - x.diagonal(0, -2, -1).diag_embed()


def _values(input: Tensor, dtype: Any) -> Spec:
    return input.spec.with_shape(tuple(input.shape[:-1])).with_dtype(dtype)


# Hermitian


@library_op(Library.eigh, name="linalg_eigh")
def eigh_op(input: Tensor, upper: bool) -> Any:
    """Eigenvalues, ascending, and eigenvectors."""
    return _values(input, input.dtype.to_real()), input.spec.with_shape(input.shape)


def _eigh_gradient(g: Any, result: Any) -> Any:
    grad_values, grad_vectors = g
    values, vectors = result
    if grad_vectors is None:
        return ((vectors * grad_values.unsqueeze(-2)) @ vectors.mH,)
    along = vectors.mH @ grad_vectors
    if along.is_complex():
        check_phase("linalg_eigh_backward", "eigenvectors", along.diagonal(0, -2, -1).imag)
    middle = _without_diagonal(along) / _apart(values)
    if grad_values is not None:
        middle = middle + grad_values.to(middle.dtype).diag_embed()
    return (vectors @ middle @ vectors.mH,)


eigh_op.grad = _eigh_gradient


@library_op(Library.eigvalsh, name="linalg_eigvalsh")
def eigvalsh_op(input: Tensor, upper: bool) -> Spec:
    """Eigenvalues, ascending."""
    return _values(input, input.dtype.to_real())


def _is_upper(name: str, UPLO: str) -> bool:
    check(
        isinstance(UPLO, str) and UPLO.upper() in ("L", "U"),
        RuntimeError,
        f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}",
    )
    return UPLO.upper() == "U"


@composite(LINALG | OUT)
def eigh(A: Tensor, UPLO: str = "L") -> Any:
    """(eigenvalues, eigenvectors) of Hermitian matrices, of which one triangle is read; real
    eigenvalues ascend.

    >>> import ember as torch
    >>> torch.linalg.eigh(torch.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    check_precise("linalg.eigh", A)
    check_square("linalg.eigh", A)
    return return_types.linalg_eigh(*eigh_op(A, _is_upper("eigh", UPLO)))


@composite(LINALG | OUT)
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of Hermitian matrices, ascending."""
    check_precise("linalg.eigvalsh", A)
    check_square("linalg.eigvalsh", A)
    upper = _is_upper("eigvalsh", UPLO)
    return eigh_op(A, upper)[0] if records(A) else eigvalsh_op(A, upper)


# any square matrix


@library_op(Library.eig, name="linalg_eig")
def eig_op(input: Tensor) -> Any:
    """Eigenvalues and eigenvectors."""
    dtype = dtypes.promote_types(input.dtype, dtypes.complex64)
    return _values(input, dtype), input.spec.with_shape(input.shape).with_dtype(dtype)


def _eig_gradient(g: Any, result: Any) -> Any:
    grad_values, grad_vectors = g
    values, vectors = result
    middle: Any = 0 if grad_values is None else grad_values.diag_embed()
    if grad_vectors is not None:
        along = vectors.mH @ grad_vectors
        diagonal = along.diagonal(0, -2, -1)
        check_phase("linalg_eig_backward", "eigenvectors", diagonal.imag)
        along = along - (vectors.mH @ vectors) * diagonal.real.unsqueeze(-2)
        middle = middle + _without_diagonal(along / _apart(values).conj())
    return (solve_op(vectors.mH, middle @ vectors.mH, True)[0],)


eig_op.grad = _eig_gradient


@library_op(Library.eigvals, name="linalg_eigvals")
def eigvals_op(input: Tensor) -> Spec:
    """Eigenvalues."""
    return _values(input, dtypes.promote_types(input.dtype, dtypes.complex64))


@composite(LINALG | OUT)
def eig(A: Tensor) -> Any:
    """(eigenvalues, eigenvectors) of square matrices, both complex: A·V = V·diag(L), columns of
    length 1."""
    check_precise("linalg.eig", A)
    check_square("linalg.eig", A)
    return return_types.linalg_eig(*eig_op(A))


@composite(LINALG | OUT)
def eigvals(A: Tensor) -> Tensor:
    """The eigenvalues of square matrices, complex."""
    check_precise("linalg.eigvals", A)
    check_square("linalg.eigvals", A)
    return eig_op(A)[0] if records(A) else eigvals_op(A)
