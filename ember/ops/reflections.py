"""Products of reflectors 1 − tau·v·v^H, as QR factorizations leave them; LDL factors."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.registry import FUNCTION, LINALG, METHOD, OUT, composite, library_op
from ember.core.tensor import Tensor
from ember.errors import check
from ember.kernel.array import Spec
from ember.ops import return_types
from ember.ops.matrices import (
    batch_of,
    check_info,
    check_precise,
    check_square,
    check_system,
    records,
)

PLAIN = FUNCTION | METHOD | OUT


@library_op(Library.householder_product, name="linalg_householder_product")
def product_op(input: Tensor, tau: Tensor) -> Spec:
    """The first columns of the product of reflectors."""
    return input.spec.with_shape(input.shape)


@library_op(Library.ormqr, name="ormqr_op")
def apply_op(input: Tensor, tau: Tensor, other: Tensor, left: bool, transpose: bool) -> Spec:
    """The product of reflectors times a matrix."""
    return other.spec.with_shape((*batch_of(input, other), *other.shape[-2:]))


def _reflected(packed: Tensor, tau: Tensor, other: Tensor, adjoint: bool) -> Tensor:
    """H_1 · H_2 ⋯ H_k · other (or the adjoint of that product times other), step by step."""
    count = tau.shape[-1]
    ones = packed.new_zeros((packed.shape[-2], count))
    ones.diagonal().fill_(1)
    vectors = packed[..., :count].tril(-1) + ones
    for step in range(count) if adjoint else reversed(range(count)):
        v = vectors[..., step : step + 1]
        factor = tau[..., step].unsqueeze(-1).unsqueeze(-1)
        other = other - (factor.conj() if adjoint else factor) * v @ (v.mH @ other)
    return other


def _check(name: str, input: Tensor, tau: Tensor) -> None:
    check_precise(name, input)
    check(
        input.ndim >= 2,
        RuntimeError,
        f"{name}: input must have at least 2 dimensions.",
    )
    check(
        input.shape[-2] >= input.shape[-1] or name == "torch.ormqr",
        RuntimeError,
        f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]",
    )
    check(
        tau.ndim == input.ndim - 1 and tau.shape[:-1] == input.shape[:-2],
        RuntimeError,
        f"{name}: Expected tau to have one dimension less than input and the same batch, but got "
        f"tau of {list(tau.shape)} for input of {list(input.shape)}",
    )
    check(
        tau.shape[-1] <= input.shape[-1],
        RuntimeError,
        f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]",
    )
    check(
        tau.dtype is input.dtype,
        RuntimeError,
        f"{name}: tau dtype {tau.dtype.title} does not match input dtype {input.dtype.title}",
    )


@composite(LINALG | OUT)
def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of H_1·H_2⋯H_k: reflectors lie below the diagonal of (..., m, n)."""
    _check("torch.linalg.householder_product", input, tau)
    if not records(input, tau):
        return product_op(input, tau)
    rows, columns = input.shape[-2:]
    identity = input.new_zeros((rows, columns))
    identity.diagonal().fill_(1)
    return _reflected(input, tau, identity.expand(input.shape), False)


@composite(PLAIN)
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """`torch.linalg.householder_product`."""
    return householder_product(input, input2)


@composite(PLAIN)
def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """Q·other (other·Q if not left; Q^H if transpose), with Q = H_1·H_2⋯H_k, all its columns."""
    _check("torch.ormqr", input, tau)
    check(
        other.ndim >= 2,
        RuntimeError,
        "torch.ormqr: other must have at least 2 dimensions.",
    )
    side = -2 if left else -1
    check(
        other.shape[side] == input.shape[-2],
        RuntimeError,
        f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]",
    )
    check(
        other.shape[side] >= tau.shape[-1],
        RuntimeError,
        f"torch.ormqr: other.shape[{side}] must be greater than or equal to tau.shape[-1]",
    )
    if input.numel() == 0:  # no reflector to move
        input, tau = input.detach(), tau.detach()
    if not records(input, tau, other):
        return apply_op(input, tau, other, left, transpose)
    if left:
        return _reflected(input, tau, other, transpose)
    return _reflected(input, tau, other.mH, not transpose).mH


# LDL


@library_op(Library.ldl_factor, name="linalg_ldl_factor_ex")
def ldl_op(input: Tensor, hermitian: bool) -> Any:
    """L and D in one array, pivots, and where it failed."""
    pivots = input.spec.with_shape(tuple(input.shape[:-1])).with_dtype(dtypes.int32)
    return input.spec.with_shape(input.shape), pivots, pivots.with_shape(tuple(input.shape[:-2]))


@library_op(Library.ldl_solve, name="linalg_ldl_solve")
def ldl_solve_op(LD: Tensor, pivots: Tensor, B: Tensor, hermitian: bool) -> Spec:
    """X with A·X = B, by the factors of A."""
    return B.spec.with_shape((*batch_of(LD, B), *B.shape[-2:]))


def _zero_block(number: int) -> str:
    return (
        f"D[{number},{number}] is zero and using it on ldl_solve would result in a division by "
        "zero. If you still want to perform the factorization, consider calling "
        "linalg.ldl_factor_ex(A)"
    )


@composite(LINALG | OUT)
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """(LD, pivots, info): L·D·L^T (or L^H) factors of a symmetric (Hermitian) matrix, as LAPACK's
    sytrf (hetrf) leaves them."""
    check_precise("torch.linalg.ldl_factor_ex", A)
    check_square("torch.linalg.ldl_factor_ex", A)
    made = ldl_op(A.detach(), hermitian)
    if check_errors:
        check_info("torch.linalg.ldl_factor_ex", made[2], _zero_block)
    return return_types.linalg_ldl_factor_ex(*made)


@composite(LINALG | OUT)
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> Any:
    """(LD, pivots) of `ldl_factor_ex`. RuntimeError where a block of D is zero."""
    ld, pivots, info = ldl_factor_ex(A, hermitian=hermitian)
    check_info("torch.linalg.ldl_factor", info, _zero_block)
    return return_types.linalg_ldl_factor(ld, pivots)


@composite(LINALG | OUT)
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X with A·X = B, by A's `ldl_factor`."""
    check_precise("torch.linalg.ldl_solve", LD)
    check_square("torch.linalg.ldl_solve", LD, "LD")
    check_system("torch.linalg.ldl_solve", LD, B, True)
    check(
        pivots.dtype.category == dtypes.INTEGRAL,
        RuntimeError,
        "torch.linalg.ldl_solve: Expected pivots to be integers. Got " + pivots.dtype.title,
    )
    return ldl_solve_op(LD.detach(), pivots, B.detach(), hermitian)
