"""Linear systems and inverses, with their derivatives: A·X = B has dX = A⁻¹·(dB − dA·X)."""

from __future__ import annotations

import math
from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.registry import FUNCTION, LINALG, METHOD, OUT, composite, library_op
from ember.core.tensor import Tensor
from ember.errors import check
from ember.kernel.array import Spec
from ember.layout import wrap_dim
from ember.ops import return_types
from ember.ops.matrices import (
    batch_of,
    check_info,
    check_precise,
    check_square,
    check_system,
)
from ember.source_lines import warn

PLAIN = FUNCTION | METHOD | OUT

# triangular systems


@library_op(Library.triangular_solve, name="linalg_solve_triangular")
def triangular_op(A: Tensor, B: Tensor, upper: bool, left: bool, unitriangular: bool) -> Spec:
    """X with A·X = B, or X·A = B."""
    return B.spec.with_shape((*batch_of(A, B), *B.shape[-2:]))


def _triangular_gradient(
    g: Any, A: Any, upper: bool, left: bool, unitriangular: bool, result: Any, needs: Any
) -> Any:
    by_b = triangular_op(A.mH, g, not upper, left, unitriangular)
    by_a = None
    if needs[0]:
        by_a = -(by_b @ result.mH) if left else -(result.mH @ by_b)
        first = int(unitriangular)
        by_a = by_a.triu(first) if upper else by_a.tril(-first)
    return by_a, by_b


triangular_op.grad = _triangular_gradient


@composite(LINALG | OUT)
def solve_triangular(
    input: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X with A·X = B (X·A = B if not left) for triangular A, whose other triangle is not read.

    `unitriangular` takes the diagonal as ones. (..., n, n) with (..., n, k), leading dims
    broadcast.
    """
    check_precise("linalg.solve_triangular", input)
    check_square("linalg.solve_triangular", input)
    check_system("linalg.solve_triangular", input, B, left)
    return triangular_op(input, B, upper, left, unitriangular)


@composite(PLAIN)
def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Any:
    """(X, a copy of A) with A·X = input, or A^T·X = input. Deprecated."""
    warn(
        "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangular and will "
        "be removed in a future PyTorch release: torch.linalg.solve_triangular(A, B, upper=True) "
        "has its arguments reversed and gives X alone"
    )
    for tensor, what in ((input, "b"), (A, "A")):
        check(
            tensor.ndim >= 2,
            RuntimeError,
            f"torch.triangular_solve: Expected {what} to have at least 2 dimensions, but it has "
            f"{tensor.ndim} dimensions instead",
        )
    check_square("triangular_solve", A)
    check_system("triangular_solve", A, input, True)
    turned = A.transpose(-2, -1) if transpose else A
    made = triangular_op(turned, input, upper != transpose, True, unitriangular)
    return return_types.triangular_solve(made, A.clone().expand(*batch_of(A, input), *A.shape[-2:]))


# general systems


def _int_spec(input: Tensor, shape: tuple[int, ...]) -> Spec:
    return input.spec.with_shape(shape).with_dtype(dtypes.int32)


@library_op(Library.inv, name="linalg_inv_ex")
def inv_op(input: Tensor) -> Any:
    """The inverse, and where it failed."""
    return input.spec.with_shape(input.shape), _int_spec(input, tuple(input.shape[:-2]))


def _inverse_gradient(g: Any, result: Any) -> Any:
    turned = result[0].mH
    return (-(turned @ g[0] @ turned),)


inv_op.grad = _inverse_gradient


@library_op(Library.solve, name="linalg_solve_ex")
def solve_op(A: Tensor, B: Tensor, left: bool) -> Any:
    """X with A·X = B, or X·A = B, and where it failed."""
    shape = (*batch_of(A, B), *B.shape[-2:])
    return B.spec.with_shape(shape), _int_spec(A, tuple(A.shape[:-2]))


def _solve_gradient(g: Any, A: Any, left: bool, result: Any, needs: Any) -> Any:
    by_b = solve_op(A.mH, g[0], left)[0]
    by_a = None
    if needs[0]:
        by_a = -(by_b @ result[0].mH) if left else -(result[0].mH @ by_b)
    return by_a, by_b


solve_op.grad = _solve_gradient


def _singular_inverse(number: int) -> str:
    return (
        f"The diagonal element {number} is zero, the inversion could not be completed because the "
        "input matrix is singular."
    )


def _singular_system(number: int) -> str:
    return "The solver failed because the input matrix is singular."


@composite(LINALG | OUT)
def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """(inverse, info): info is 0, or the number of a zero on the diagonal of U in P·L·U."""
    check_precise("linalg.inv", A)
    check_square("linalg.inv", A)
    inverse, info = inv_op(A)
    if check_errors:
        check_info("linalg.inv_ex", info, _singular_inverse)
    return return_types.linalg_inv_ex(inverse, info)


@composite(LINALG | OUT)
def inv(A: Tensor) -> Tensor:
    """The inverse of square matrices. LinAlgError for a singular one.

    >>> import ember as torch
    >>> torch.linalg.inv(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    inverse, info = inv_ex(A)
    check_info("linalg.inv", info, _singular_inverse)
    return inverse


@composite(PLAIN)
def inverse(input: Tensor) -> Tensor:
    """`torch.linalg.inv`."""
    return inv(input)


@composite(LINALG | OUT)
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """(result, info) of `solve`: info is 0, or where a matrix was found to be singular."""
    check_precise("linalg.solve", A)
    check_square("linalg.solve", A)
    vector = B.ndim == 1 or (
        B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]) and A.ndim > 1
    )
    check(
        left or not vector,
        RuntimeError,
        "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. "
        "In this case linalg.solve is equivalent to B / A.squeeze(-1)",
    )
    right = B.unsqueeze(-1) if vector else B
    check_system("linalg.solve", A, right, left)
    made, info = solve_op(A, right, left)
    if check_errors:
        check_info("torch.linalg.solve_ex", info, _singular_system)
    return return_types.linalg_solve_ex(made.squeeze(-1) if vector else made, info)


@composite(LINALG | OUT)
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A·X = B (X·A = B if not left). LinAlgError for a singular A.

    B is (..., n, k), or a vector (n,), or vectors (..., n) in the shape of A less its last dim.

    >>> import ember as torch
    >>> torch.linalg.solve(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    made, info = solve_ex(A, B, left=left)
    check_info("torch.linalg.solve", info, _singular_system)
    return made


# by a Cholesky factor


@library_op(Library.cholesky_solve, name="cholesky_solve")
def cholesky_solve_op(input: Tensor, L: Tensor, upper: bool) -> Spec:
    """X with L·L^H·X = input."""
    return input.spec.with_shape((*batch_of(input, L), *input.shape[-2:]))


def _cholesky_solve_gradient(g: Any, L: Any, upper: bool, result: Any, needs: Any) -> Any:
    by_b = cholesky_solve_op(g, L, upper)
    by_factor = None
    if needs[1]:
        common = by_b @ result.mH
        common = common + common.mH
        by_factor = -(L @ common) if upper else -(common @ L)
    return by_b, by_factor


cholesky_solve_op.grad = _cholesky_solve_gradient


@composite(PLAIN)
def cholesky_solve(input: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X with A·X = input, by the factor L of A = L·L^H (or U of U^H·U)."""
    for tensor, what in ((input, "b"), (L, "u")):
        check(
            tensor.ndim >= 2,
            RuntimeError,
            f"{what} should have at least 2 dimensions, but has {tensor.ndim} dimensions instead",
        )
    check_precise("cholesky_solve", L)
    check_square("cholesky_solve", L)
    check_system("cholesky_solve", L, input, True)
    return cholesky_solve_op(input, L, upper)


@library_op(Library.cholesky_inverse, name="cholesky_inverse")
def cholesky_inverse_op(input: Tensor, upper: bool) -> Spec:
    """The inverse of L·L^H."""
    return input.spec.with_shape(input.shape)


def _cholesky_inverse_gradient(g: Any, input: Any, upper: bool, result: Any) -> Any:
    common = result @ (g + g.mH) @ result
    return (-(input @ common) if upper else -(common @ input),)


cholesky_inverse_op.grad = _cholesky_inverse_gradient


@composite(PLAIN)
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A by the factor L of A = L·L^H (or U of U^H·U)."""
    check_precise("cholesky_inverse", input)
    check_square("cholesky_inverse", input)
    return cholesky_inverse_op(input, upper)


# tensors as matrices


@composite(LINALG | OUT)
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of a tensor seen as a matrix of its first `ind` dims by the others."""
    check(ind > 0, RuntimeError, "Expected a strictly positive integer for 'ind'")
    first, rest = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    rows, columns = math.prod(first), math.prod(rest)
    check(
        rows == columns,
        RuntimeError,
        "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]),"
        f" but got {columns} != {rows}",
    )
    return inv(A.reshape(rows, columns)).reshape((*rest, *first))


@composite(LINALG | OUT)
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B, after moving `dims` of A to its end."""
    if dims is not None:
        moved = [wrap_dim(d, A.ndim) for d in dims]
        A = A.movedim(moved, list(range(A.ndim - len(moved), A.ndim)))
    shape = tuple(A.shape[B.ndim :])
    size = math.prod(shape)
    check(
        size * B.numel() == A.numel() and size == B.numel(),
        RuntimeError,
        "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
        f"prod(self.shape[:other.ndim]), but got {size} != {B.numel()}",
    )
    return solve(A.reshape(B.numel(), size), B.reshape(-1)).reshape(shape)
