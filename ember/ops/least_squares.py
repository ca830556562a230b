"""Pseudo-inverses, least squares and ranks.

The derivative of P = A⁺ is −P·dA·P + P·P^H·dA^H·(1 − A·P) + (1 − P·A)·dA^H·P^H·P where the rank
does not change (Golub and Pereyra, 1973).
"""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.registry import FUNCTION, LINALG, METHOD, OUT, composite, library_op
from ember.core.tensor import Tensor
from ember.errors import check
from ember.kernel.array import Spec
from ember.ops import return_types
from ember.ops.eigenvalues import eigvalsh
from ember.ops.factorizations import svdvals
from ember.ops.matrices import batch_of, check_matrix, check_precise, check_square


def _inverse_gradient(by_inverse: Any, a: Any, inverse: Any) -> Any:
    """The gradient by a matrix from that by its pseudo-inverse."""
    turned, by_turned = inverse.mH, by_inverse.mH
    made = -(turned @ by_inverse @ turned)
    along = by_turned @ inverse @ turned
    across = turned @ inverse @ by_turned
    return made + (along - a @ (inverse @ along)) + (across - (across @ inverse) @ a)


@library_op(Library.pinv, name="linalg_pinv")
def pinv_op(input: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Spec:
    """The pseudo-inverse."""
    *batch, rows, columns = input.shape
    return input.spec.with_shape((*batch, columns, rows))


def _pinv_gradient(g: Any, input: Any, atol: Any, rtol: Any, result: Any) -> Any:
    rest = tuple(None for tolerance in (atol, rtol) if isinstance(tolerance, Tensor))
    return (_inverse_gradient(g, input, result), *rest)


pinv_op.grad = _pinv_gradient


def _tolerances(name: str, A: Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Both tolerances: rtol is by default eps · max(m, n), or 0 if atol is given."""
    for what, tolerance in (("atol", atol), ("rtol", rtol)):
        check(
            not isinstance(tolerance, Tensor) or not tolerance.is_complex(),
            RuntimeError,
            f"{name}: {what} tensor of complex type is not supported. Got "
            f"{tolerance.dtype.title if isinstance(tolerance, Tensor) else ''}",
        )
    default = dtypes.finfo(A.dtype).eps * max(A.shape[-2:])
    if rtol is None:
        if atol is None:
            rtol = default
        elif isinstance(atol, Tensor):
            rtol = (atol <= 0).to(A.dtype.to_real()) * default
        else:
            rtol = 0.0 if atol > 0 else default
    return 0.0 if atol is None else atol, rtol


@composite(LINALG | OUT, name="pinv")
def pinv(
    A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """The pseudo-inverse (Moore and Penrose); pinv(A, *, atol, rtol, hermitian=False) or
    pinv(A, rcond, hermitian=False).

    Singular values up to max(atol, rtol · the largest) count as zero; rtol is by default
    eps · max(m, n), or 0 if atol is given.

    >>> import ember as torch
    >>> torch.linalg.pinv(torch.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    check_precise("linalg.pinv", A)
    if rcond is not None:  # the older signature, in which rtol had this name
        atol, rtol = 0.0, rcond
    (check_square if hermitian else check_matrix)("linalg.pinv", A)
    return pinv_op(A, *_tolerances("torch.linalg.pinv", A, atol, rtol), hermitian)


@composite(FUNCTION | METHOD)
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The pseudo-inverse, with singular values up to rcond · the largest taken as zero."""
    return pinv(input, rcond)


@composite(LINALG | OUT)
def matrix_rank(
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """How many singular values exceed max(atol, rtol · the largest): matrix_rank(A, *, atol, rtol,
    hermitian=False) or matrix_rank(A, tol, hermitian=False)."""
    check_precise("linalg.matrix_rank", A)
    if tol is not None:  # the older signature, with an absolute limit
        atol, rtol = tol, 0.0
    (check_square if hermitian else check_matrix)("linalg.matrix_rank", A)
    A = A.detach()
    if not A.numel():
        return A.new_zeros(A.shape[:-2], dtype=dtypes.int64)
    atol, rtol = _tolerances("torch.linalg.matrix_rank", A, atol, rtol)
    values = eigvalsh(A).abs() if hermitian else svdvals(A)
    limits = values.amax(-1) * rtol
    limits = limits.maximum(
        atol if isinstance(atol, Tensor) else limits.new_full(limits.shape, atol)
    )
    return (values > limits.unsqueeze(-1)).sum(-1)


# least squares


@library_op(Library.lstsq, name="linalg_lstsq")
def lstsq_op(A: Tensor, B: Tensor, rcond: float | None, driver: str) -> None:
    """Solution, residuals, rank, singular values; which of them are empty depends on the rank."""


def _lstsq_gradient(g: Any, A: Any, B: Any, result: Any, needs: Any) -> Any:
    by_solution, by_residuals = g[0], g[1]
    by_a = by_b = None
    if by_solution is not None:
        inverse = pinv(A)
        by_a = _inverse_gradient(by_solution @ B.mH, A, inverse)
        by_b = inverse.mH @ by_solution
    if by_residuals is not None and by_residuals.numel():
        apart = 2 * (A @ result[0] - B) * by_residuals.unsqueeze(-2)
        first = apart @ result[0].mH
        by_a = first if by_a is None else by_a + first
        by_b = -apart if by_b is None else by_b - apart
    return by_a if needs[0] else None, by_b if needs[1] else None


lstsq_op.grad = _lstsq_gradient


@composite(LINALG | OUT)
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """(solution, residuals, rank, singular_values) of the X that makes |A·X − B| least.

    `driver` is "gelsy" (the default), "gels" (full rank), "gelsd" or "gelss"; what it does not
    tell is empty. Singular values up to rcond · the largest count as zero.
    """
    check_precise("torch.linalg.lstsq", A)
    check(
        A.ndim >= 2,
        RuntimeError,
        "torch.linalg.lstsq: input must have at least 2 dimensions.",
    )
    check(B.ndim >= 1, RuntimeError, "torch.linalg.lstsq: other must have at least 1 dimension.")
    check(
        driver in (None, "gels", "gelsy", "gelsd", "gelss"),
        RuntimeError,
        "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)",
    )
    check(
        A.dtype is B.dtype,
        RuntimeError,
        f"torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's "
        f"dtype {A.dtype.title} and other's dtype {B.dtype.title}",
    )
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1])
    right = B.unsqueeze(-1) if vector else B
    check(
        A.shape[-2] == right.shape[-2],
        RuntimeError,
        "torch.linalg.lstsq: input.size(-2) should match other.size(-2)",
    )
    batch = batch_of(A, right)
    first, second = (t.expand((*batch, *t.shape[-2:])) for t in (A, right))
    solution, residuals, rank, values = lstsq_op(first, second, rcond, driver or "gelsy")
    if vector:
        solution = solution.squeeze(-1)
    return return_types.linalg_lstsq(solution, residuals, rank, values)
