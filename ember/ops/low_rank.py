"""Singular values of low rank by random projections (Halko, Martinsson and Tropp, 2009)."""

from __future__ import annotations

from typing import Any

from ember.core.registry import FUNCTION, composite
from ember.core.tensor import Tensor
from ember.errors import check
from ember.ops.factorizations import qr, svd
from ember.ops.random import randn


def _range(a: Tensor, q: int, niter: int) -> Tensor:
    """An orthonormal basis of what a random projection of A keeps, after `niter` iterations."""
    projection = randn(a.shape[-1], q, dtype=a.dtype, device=a.device)
    basis = qr(a @ projection)[0]
    for _ in range(niter):
        basis = qr(a.mH @ basis)[0]
        basis = qr(a @ basis)[0]
    return basis


@composite(FUNCTION)
def svd_lowrank(A: Tensor, q: int = 6, niter: int = 2, M: Tensor | None = None) -> Any:
    """(U, S, V) of A − M, the q greatest singular values: U·diag(S)·V^H is near A − M.

    Draws random numbers; `niter` iterations make it more exact.
    """
    a = A if M is None else A - M.expand(A.shape)
    rows, columns = a.shape[-2:]
    if rows < columns:
        v, s, uh = _projected(a.mH, q, niter)
        return uh.mH, s, v
    u, s, vh = _projected(a, q, niter)
    return u, s, vh.mH


def _projected(a: Tensor, q: int, niter: int) -> Any:
    basis = _range(a, q, niter)
    u, s, vh = svd(basis.mH @ a, False)
    return basis @ u, s, vh


@composite(FUNCTION)
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """(U, S, V) of the columns of A, centred: V has the principal directions. Draws random
    numbers."""
    rows, columns = A.shape[-2:]
    q = min(6, rows, columns) if q is None else q
    check(
        0 <= q <= min(rows, columns),
        ValueError,
        f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(rows, columns)}",
    )
    check(niter >= 0, ValueError, f"niter(={niter}) must be non-negative integer")
    if center:
        A = A - A.mean(-2, keepdim=True)
    return svd_lowrank(A, q, niter=niter)
