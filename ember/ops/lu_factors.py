"""P·L·U factors of matrices, and systems solved by them, with their derivatives."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.registry import FUNCTION, LINALG, METHOD, OUT, composite, library_op
from ember.core.tensor import Tensor
from ember.errors import check
from ember.kernel.array import Spec
from ember.ops import return_types
from ember.ops.joining import cat
from ember.ops.matrices import (
    batch_of,
    check_info,
    check_matrix,
    check_precise,
    check_square,
    check_system,
)
from ember.ops.ranges import arange
from ember.ops.solving import triangular_op
from ember.source_lines import warn

PLAIN = FUNCTION | METHOD | OUT


@library_op(Library.lu_factor, name="linalg_lu_factor_ex")
def factor_op(input: Tensor) -> Any:
    """L and U in one array, pivots, and where it failed."""
    *batch, rows, columns = input.shape
    pivots = input.spec.with_shape((*batch, min(rows, columns))).with_dtype(dtypes.int32)
    return input.spec.with_shape(input.shape), pivots, pivots.with_shape(tuple(batch))


@library_op(Library.lu_permutation, upcast=False, name="lu_permutation")
def order_op(pivots: Tensor, rows: int) -> Spec:
    """The order of rows that pivots swap into."""
    return pivots.spec.with_shape((*pivots.shape[:-1], rows)).with_dtype(dtypes.int64)


def _lower(lu: Any) -> Any:
    """L, with ones on its diagonal."""
    inner = min(lu.shape[-2:])
    part = lu[..., :inner].tril(-1)
    ones = lu.new_ones(inner).diag_embed()
    if lu.shape[-2] > inner:
        ones = cat([ones, lu.new_zeros((lu.shape[-2] - inner, inner))], 0)
    return part + ones


def _upper(lu: Any) -> Any:
    return lu[..., : min(lu.shape[-2:]), :].triu()


def _square_gradient(lower: Any, upper: Any, grad_lower: Any, grad_upper: Any) -> Any:
    """The gradient by L·U of square factors."""
    middle = (lower.mH @ grad_lower).tril(-1) + (grad_upper @ upper.mH).triu()
    left = triangular_op(lower.mH, middle, True, True, True)
    return triangular_op(upper.mH, left, False, False, False)


def _product_gradient(lower: Any, upper: Any, grad_lower: Any, grad_upper: Any) -> Any:
    """The gradient by L·U: the rows below, or the columns beside, the square part follow it."""
    rows, columns, inner = lower.shape[-2], upper.shape[-1], upper.shape[-2]
    if rows > inner:  # L2 = A2·U⁻¹
        second = triangular_op(upper.mH, grad_lower[..., inner:, :], False, False, False)
        grad_upper = grad_upper - (lower[..., inner:, :].mH @ second).triu()
        first = _square_gradient(
            lower[..., :inner, :], upper, grad_lower[..., :inner, :], grad_upper
        )
        return cat([first, second], -2)
    if columns > inner:  # U2 = L⁻¹·A2
        second = triangular_op(lower.mH, grad_upper[..., inner:], True, True, True)
        grad_lower = grad_lower - (second @ upper[..., inner:].mH).tril(-1)
        first = _square_gradient(lower, upper[..., :inner], grad_lower, grad_upper[..., :inner])
        return cat([first, second], -1)
    return _square_gradient(lower, upper, grad_lower, grad_upper)


def _rows_restored(x: Any, pivots: Any) -> Any:
    """P·x."""
    places = order_op(pivots, x.shape[-2]).argsort(-1)
    return x.gather(-2, places.unsqueeze(-1).expand(x.shape))


def _factor_gradient(g: Any, result: Any) -> Any:
    lu, pivots, _ = result
    inner = lu.shape[-1] if lu.shape[-1] < lu.shape[-2] else lu.shape[-2]
    made = _product_gradient(
        _lower(lu), _upper(lu), g[0][..., :inner].tril(-1), g[0][..., :inner, :].triu()
    )
    return (_rows_restored(made, pivots),)


factor_op.grad = _factor_gradient


def _check_pivot(name: str, A: Tensor, pivot: bool) -> None:
    check_precise(name, A)
    check_matrix(name, A)
    check(
        pivot,
        RuntimeError,
        f"{name}: LU without pivoting is not implemented on the CPU",
    )


@composite(LINALG | OUT)
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """(LU, pivots, info): L below the diagonal, U on and above it; row i was swapped with row
    pivots[i] − 1."""
    _check_pivot("linalg.lu_factor", A, pivot)
    lu, pivots, info = factor_op(A)
    if check_errors:
        check_info("torch.linalg.lu_factor_ex", info, _zero_pivot)
    return return_types.linalg_lu_factor_ex(lu, pivots, info)


def _zero_pivot(number: int) -> str:
    return (
        f"U[{number},{number}] is zero and using it on lu_solve would result in a division by "
        "zero. If you still want to perform the factorization, consider calling "
        "linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
    )


@composite(LINALG | OUT)
def lu_factor(A: Tensor, *, pivot: bool = True) -> Any:
    """(LU, pivots) of `lu_factor_ex`. RuntimeError where a pivot is zero."""
    lu, pivots, info = lu_factor_ex(A, pivot=pivot)
    check_info("torch.linalg.lu_factor", info, _zero_pivot)
    return return_types.linalg_lu_factor(lu, pivots)


def _permutation(pivots: Tensor, rows: int, dtype: Any) -> Tensor:
    order = order_op(pivots, rows)
    places = arange(rows, device=pivots.device)
    return (order.unsqueeze(-2) == places.unsqueeze(-1)).to(dtype)


@composite(LINALG | OUT, name="lu")
def lu(A: Tensor, *, pivot: bool = True) -> Any:
    """(P, L, U) with A = P·L·U: P a permutation, L with ones on its diagonal."""
    _check_pivot("linalg.lu", A, pivot)
    made, pivots, _ = factor_op(A)
    return return_types.linalg_lu(
        _permutation(pivots, A.shape[-2], A.dtype), _lower(made), _upper(made)
    )


@composite(FUNCTION | METHOD, name="lu")
def lu_of(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """(LU, pivots), and info where asked for. Deprecated."""
    warn(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and "
        "will be removed in a future PyTorch release: use torch.linalg.lu_factor(A, pivot=pivot), "
        "or lu_factor_ex for get_infos=True"
    )
    _check_pivot("linalg.lu_factor", A, pivot)
    made = tuple(factor_op(A))[: 3 if get_infos else 2]
    return made if out is None else tuple(o.copy_(m) for o, m in zip(out, made, strict=True))


@composite(FUNCTION | OUT)
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    """(P, L, U) of the results of `lu_factor`; what is not asked for is empty."""
    check(
        LU_pivots.dtype is dtypes.int32,
        RuntimeError,
        "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype. "
        "Note: this function is intended to be used with the output produced by torch.linalg.lu_"
        "factor",
    )
    check_matrix("torch.lu_unpack", LU_data, "LU_data")
    nothing = LU_data.new_empty(0)
    made = _permutation(LU_pivots, LU_data.shape[-2], LU_data.dtype) if unpack_pivots else nothing
    lower, upper = (_lower(LU_data), _upper(LU_data)) if unpack_data else (nothing, nothing)
    return return_types.lu_unpack(made, lower, upper)


@library_op(Library.lu_solve, name="linalg_lu_solve")
def solve_op(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool) -> Spec:
    """X with A·X = B, by the factors of A."""
    return B.spec.with_shape((*batch_of(LU, B), *B.shape[-2:]))


def _solve_gradient(
    g: Any, LU: Any, pivots: Any, left: bool, adjoint: bool, result: Any, needs: Any
) -> Any:
    by_b = solve_op(LU, pivots, g, left, not adjoint)
    if not needs[0]:
        return None, None, by_b
    by_a = -(by_b @ result.mH) if left else -(result.mH @ by_b)
    by_a = by_a.mH if adjoint else by_a
    order = order_op(pivots, LU.shape[-2]).unsqueeze(-1).expand(by_a.shape)
    by_product = by_a.gather(-2, order)
    lower, upper = _lower(LU), _upper(LU)
    by_lu = (by_product @ upper.mH).tril(-1) + (lower.mH @ by_product).triu()
    return by_lu, None, by_b


solve_op.grad = _solve_gradient


@composite(LINALG | OUT, name="lu_solve")
def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """X with A·X = B (X·A = B if not left; A^H for A if adjoint), by A's `lu_factor`."""
    check_precise("torch.linalg.lu_solve", LU)
    check(
        pivots.dtype is dtypes.int32,
        RuntimeError,
        "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32",
    )
    check_square("torch.linalg.lu_solve", LU, "LU")
    check_system("linalg.lu_solve", LU, B, left)
    check(
        pivots.shape == LU.shape[:-1],
        RuntimeError,
        f"linalg.lu_solve: Number of pivots per batch should be same as the dimension of the "
        f"matrix: pivots {list(pivots.shape)} for LU {list(LU.shape)}",
    )
    return solve_op(LU, pivots, B, left, adjoint)


@composite(PLAIN, name="lu_solve")
def lu_solve_of(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """`torch.linalg.lu_solve` with the right side first."""
    return lu_solve(LU_data, LU_pivots, input)
