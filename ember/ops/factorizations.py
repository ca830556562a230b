"""Factorizations of matrices: Cholesky, QR, SVD, eigenvalues, LDL, with their derivatives.

Gradients are those of the equations that factors solve; Giles, An extended collection of matrix
derivative results for forward and reverse mode algorithmic differentiation, 2008.
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
from ember.ops.joining import cat
from ember.ops.matrices import (
    check_info,
    check_matrix,
    check_precise,
    check_square,
    records,
)
from ember.ops.solving import solve_triangular
from ember.source_lines import warn

PLAIN = FUNCTION | METHOD | OUT


def _info(input: Tensor) -> Spec:
    return input.spec.with_shape(tuple(input.shape[:-2])).with_dtype(dtypes.int32)


# Cholesky


@library_op(Library.cholesky, name="linalg_cholesky_ex")
def cholesky_op(input: Tensor, upper: bool) -> Any:
    """L with L·L^H = A, and where that failed."""
    return input.spec.with_shape(input.shape), _info(input)


def _cholesky_gradient(g: Any, upper: bool, result: Any) -> Any:
    factor, grad = (result[0].mH, g[0].mH) if upper else (result[0], g[0])
    inner = factor.mH @ grad
    inner = (inner.tril() + inner.tril(-1)) * 0.5
    inner = (inner + inner.mH) * 0.5
    left = solve_triangular(factor.mH, inner, upper=True)
    return (solve_triangular(factor, left, upper=False, left=False),)


cholesky_op.grad = _cholesky_gradient


@composite(LINALG | OUT)
def cholesky_ex(input: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """(L, info) with L·L^H = A for positive definite A; info is 0, or the order of the first
    leading minor that is not positive."""
    check_precise("linalg.cholesky", input)
    check_square("linalg.cholesky", input)
    factor, info = cholesky_op(input, upper)
    if check_errors:
        check_info("linalg.cholesky_ex", info, _not_definite)
    return return_types.linalg_cholesky_ex(factor, info)


def _not_definite(order: int) -> str:
    return (
        "The factorization could not be completed because the input is not positive-definite (the "
        f"leading minor of order {order} is not positive-definite)."
    )


@composite(LINALG | OUT)
def cholesky(input: Tensor, *, upper: bool = False) -> Tensor:
    """L, lower triangular, with L·L^H = A for positive definite A; or U with U^H·U = A.

    >>> import ember as torch
    >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    factor, info = cholesky_ex(input, upper=upper)
    check_info("linalg.cholesky", info, _not_definite)
    return factor


@composite(PLAIN, name="cholesky")
def cholesky_of(input: Tensor, upper: bool = False) -> Tensor:
    """`torch.linalg.cholesky`, which it is deprecated for."""
    warn(
        "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a "
        "future PyTorch release: use torch.linalg.cholesky(A), and torch.linalg.cholesky(A).mH "
        "for upper=True"
    )
    check_precise("cholesky", input)
    check_square("cholesky", input)
    return cholesky(input, upper=upper)


# QR


@library_op(Library.qr, name="linalg_qr")
def qr_op(input: Tensor, mode: str) -> Any:
    """Q with orthonormal columns and upper triangular R."""
    rows, columns = input.shape[-2:]
    batch, inner = tuple(input.shape[:-2]), rows if mode == "complete" else min(rows, columns)
    q = (0,) if mode == "r" else (*batch, rows, inner)
    return input.spec.with_shape(q), input.spec.with_shape((*batch, inner, columns))


def _qr_gradient(g: Any, mode: str, result: Any) -> Any:
    q, r = result
    rows, columns = (q.shape[-2] if q.ndim > 1 else 0), r.shape[-1]
    check(
        mode != "r",
        RuntimeError,
        "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
        "linalg.qr(A, mode='reduced') if you are going to require gradients.",
    )
    check(
        mode == "reduced" or rows <= columns,
        RuntimeError,
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols",
    )
    grad_q = q.new_zeros(q.shape) if g[0] is None else g[0]
    grad_r = r.new_zeros(r.shape) if g[1] is None else g[1]
    if rows >= columns:
        return (_tall_qr_gradient(q, r, grad_q, grad_r),)
    # A = [A1 | A2], R = [U | V]: Q·U = A1 and V = Q^H·A2
    grad_u, grad_v = grad_r[..., :rows], grad_r[..., rows:]
    second = q @ r[..., rows:]
    first = _tall_qr_gradient(q, r[..., :rows], grad_q + second @ grad_v.mH, grad_u)
    return (cat([first, q @ grad_v], -1),)


def _tall_qr_gradient(q: Any, r: Any, grad_q: Any, grad_r: Any) -> Any:
    inner = r @ grad_r.mH - grad_q.mH @ q
    inner = inner.tril() + inner.tril(-1).mH
    if inner.is_complex():
        inner = inner - (1j * inner.diagonal(0, -2, -1).imag).diag_embed()
    return solve_triangular(r.mH, grad_q + q @ inner, upper=False, left=False)


qr_op.grad = _qr_gradient


@composite(LINALG | OUT, name="qr")
def qr(A: Tensor, mode: str = "reduced") -> Any:
    """(Q, R) with A = Q·R: Q has orthonormal columns, R is upper triangular.

    mode "reduced": Q (m, k), R (k, n), k = min(m, n); "complete": Q (m, m), R (m, n); "r": no Q.
    """
    check_precise("linalg.qr", A)
    check_matrix("linalg.qr", A)
    check(
        mode in ("reduced", "complete", "r"),
        RuntimeError,
        f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or "
        "'complete'",
    )
    return return_types.linalg_qr(*qr_op(A, mode))


@composite(PLAIN, name="qr")
def qr_of(input: Tensor, some: bool = True) -> Any:
    """`torch.linalg.qr`, which it is deprecated for: reduced, or complete if not `some`."""
    warn(
        "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future "
        "PyTorch release: use torch.linalg.qr(A, 'reduced' if some else 'complete')"
    )
    return return_types.qr(*qr(input, "reduced" if some else "complete"))


@library_op(Library.geqrf, name="geqrf")
def geqrf_op(input: Tensor) -> Any:
    """R with reflectors below it, and tau."""
    shape = tuple(input.shape)
    tau = (*shape[:-2], min(shape[-2:]))
    return input.spec.with_shape(shape), input.spec.with_shape(tau)


@composite(PLAIN)
def geqrf(input: Tensor) -> Any:
    """(a, tau): R with the reflectors that make Q below it, and their factors. LAPACK's geqrf."""
    check_precise("torch.geqrf", input)
    check_matrix("torch.geqrf", input, "input")
    return return_types.geqrf(*geqrf_op(input.detach()))


# singular values


@library_op(Library.svd, name="linalg_svd")
def svd_op(input: Tensor, full_matrices: bool) -> Any:
    """U, singular values, V^H."""
    *batch, rows, columns = input.shape
    inner = min(rows, columns)
    u = (*batch, rows, rows if full_matrices else inner)
    vh = (*batch, columns if full_matrices else inner, columns)
    values = input.spec.with_shape((*batch, inner)).with_dtype(input.dtype.to_real())
    return input.spec.with_shape(u), values, input.spec.with_shape(vh)


def _skewed(x: Any) -> Any:
    """X − X^H, with zeros on the diagonal."""
    x = x - x.mH
    return x - x.diagonal(0, -2, -1).diag_embed() if x.is_complex() else x


def _svd_gradient(g: Any, input_spec: Spec, result: Any) -> Any:
    grad_u, grad_s, grad_vh = g
    u, s, vh = result
    inner = s.shape[-1]
    u, vh = u[..., :inner], vh[..., :inner, :]
    if grad_u is None and grad_vh is None:
        return ((u * grad_s.unsqueeze(-2)) @ vh,)
    rows, columns = input_spec.shape[-2:]
    squares = s * s
    apart = squares.unsqueeze(-2) - squares.unsqueeze(-1)
    apart = apart + s.new_ones(inner).diag_embed()
    middle = (s.new_zeros(s.shape) if grad_s is None else grad_s).diag_embed()
    phases: Any = 0
    if grad_u is not None:
        grad_u = grad_u[..., :inner]
        along = u.mH @ grad_u
        middle = middle + _skewed(along) / apart * s.unsqueeze(-2)
        if along.is_complex():
            phases = along.diagonal(0, -2, -1).imag
            middle = middle + (1j * (phases / s)).diag_embed()
    if grad_vh is not None:
        grad_vh = grad_vh[..., :inner, :]
        across = vh @ grad_vh.mH
        middle = middle + s.unsqueeze(-1) * (_skewed(across) / apart)
        if across.is_complex():
            phases = phases + across.diagonal(0, -2, -1).imag
    if u.is_complex():
        check_phase("svd_backward", "singular vectors", phases)
    made = u @ middle.to(u.dtype) @ vh
    if rows > inner and grad_u is not None:
        made = made + ((grad_u - u @ along) / s.unsqueeze(-2)) @ vh
    if columns > inner and grad_vh is not None:
        made = made + u @ ((grad_vh - across.mH @ vh) / s.unsqueeze(-1))
    return (made,)


def check_phase(name: str, what: str, phases: Any) -> None:
    """RuntimeError where a loss depends on the phase of complex vectors, which is arbitrary."""
    check(
        phases.is_meta or phases.abs().lt(1e-2).all().item(),
        RuntimeError,
        f"{name}: The {what} in the complex case are specified up to multiplication by "
        "e^{i phi}. The specified loss function depends on this phase term, making it ill-defined.",
    )


svd_op.grad = _svd_gradient


@library_op(Library.svdvals, name="linalg_svdvals")
def svdvals_op(input: Tensor) -> Spec:
    """Singular values."""
    *batch, rows, columns = input.shape
    values = input.spec.with_shape((*batch, min(rows, columns)))
    return values.with_dtype(input.dtype.to_real())


@composite(LINALG | OUT, name="svd")
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """(U, S, Vh) with A = U·diag(S)·Vh: unitary U and Vh, S in descending order.

    `driver` is for GPUs alone. The gradient by U and Vh exists where singular values differ.
    """
    check_precise("linalg.svd", A)
    check_matrix("linalg.svd", A)
    _check_driver("svd", A, driver)
    return return_types.linalg_svd(*svd_op(A, full_matrices))


def _check_driver(name: str, A: Tensor, driver: str | None) -> None:
    check(
        driver is None or A.is_cuda,
        RuntimeError,
        f"torch.linalg.{name}: keyword argument `driver=` is only supported on CUDA inputs with "
        "cuSOLVER backend.",
    )


@composite(LINALG | OUT)
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values of matrices, in descending order."""
    check_precise("linalg.svdvals", A)
    check_matrix("linalg.svdvals", A)
    _check_driver("svdvals", A, driver)
    return svd_op(A, False)[1] if records(A) else svdvals_op(A)


@composite(PLAIN, name="svd")
def svd_of(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """(U, S, V) with input = U·diag(S)·V^H; zeros for U and V if not `compute_uv`."""
    check_matrix("linalg.svd", input)
    if compute_uv:
        u, s, vh = svd(input, not some)
        return return_types.svd(u, s, vh.mH)
    *batch, rows, columns = input.shape
    zeros = (input.new_zeros((*batch, n, n)) for n in (rows, columns))
    u, v = zeros
    return return_types.svd(u, svdvals(input), v)
