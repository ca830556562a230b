"""A few eigenpairs of large symmetric matrices, without a factorization of them."""

from __future__ import annotations

from typing import Any

from ember.core import modes
from ember.core.dispatch import needs_grad
from ember.core.registry import FUNCTION, composite
from ember.core.tensor import Tensor
from ember.dtypes import finfo
from ember.errors import check
from ember.ops.eigenvalues import eigh
from ember.ops.joining import cat, stack
from ember.ops.least_squares import pinv
from ember.ops.random import randn

NEGLIGIBLE = 100  # directions smaller than this many roundings are dropped from a basis


def _orthonormal(basis: Any, B: Any) -> Any:
    """A B-orthonormal basis of the columns' span, without directions that rounding made
    (Stathopoulos and Wu, SIAM J. Sci. Comput. 23, 2002)."""
    for _ in range(2):  # the second time takes away what rounding left
        basis = basis / basis.norm(dim=0).clamp(min=finfo(basis.dtype).tiny)
        values, vectors = eigh(basis.mT @ _times(B, basis))
        kept = values > NEGLIGIBLE * finfo(basis.dtype).eps * values[-1]
        basis = basis @ (vectors[:, kept] / values[kept].sqrt())
    return basis


def _times(matrix: Any, x: Any) -> Any:
    return x if matrix is None else matrix @ x


def _iterate(
    A: Any, B: Any, X: Any, iK: Any, k: int, steps: int, tol: float, largest: bool
) -> tuple[Any, Any]:
    """Rayleigh and Ritz over the span of the eigenvectors so far, their residuals and the last
    changes, until the residuals are small (Knyazev, SIAM J. Sci. Comput. 23, 2001)."""
    size = X.shape[1]
    scale = A.norm() / A.shape[0] ** 0.5
    span, step = X, 0
    while True:
        basis = _orthonormal(span, B)
        values, vectors = eigh(basis.mT @ (A @ basis))
        if largest:
            values, vectors = values.flip(0), vectors.flip(1)
        new = basis @ vectors[:, :size]
        E, moved, X = values[:size], new - X @ (X.mT @ _times(B, new)), new
        residual = A @ X - _times(B, X) * E
        errors = residual.norm(dim=0) / (X.norm(dim=0) * (scale + E.abs()))
        if step == steps or bool((errors[:k] < tol).all()):
            return E, X
        step += 1
        span = cat([X, _times(iK, residual)] + ([moved] if step > 1 else []), 1)


def _check_problem(A: Any, B: Any, k: int, n: int, method: str) -> None:
    check(
        A.shape[-1] == A.shape[-2], AssertionError, f"A must be square, got shape {tuple(A.shape)}"
    )
    check(
        B is None or B.shape[-2:] == A.shape[-2:],
        AssertionError,
        "A and B must have the same matrix dimensions",
    )
    check(
        A.shape[-1] >= 3 * n,
        ValueError,
        f"LOBPCG algorithm is not applicable when the number of A rows (={A.shape[-1]}) is smaller "
        f"than 3 x the number of requested eigenpairs (={n})",
    )
    check(1 <= k <= n, AssertionError, f"k must be from 1 to the {n} columns, got {k}")
    check(
        method in ("basic", "ortho"),
        NotImplementedError,
        f"lobpcg: the method is 'basic' or 'ortho', not {method!r}",
    )


def _with_history(A: Any, E: Any, X: Any) -> tuple[Any, Any]:
    """The pairs as functions of A, of first order: x moves by -(A - λ)⁺·dA·x, λ by x·dA·x."""
    symmetric, eye = (A + A.mT) / 2, A.new_ones(A.shape[-1]).diag()
    columns = []
    for column in range(X.shape[1]):
        x, value = X[:, column : column + 1], E[column]
        with modes.no_grad():
            inverse = pinv(symmetric - value * eye + x @ x.mT) - x @ x.mT
        columns.append(x - inverse @ (symmetric @ x - value * x))
    return ((X * (symmetric @ X)).sum(0), cat(columns, 1))


@composite(FUNCTION)
def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) eigenvalues of A·x = λ·B·x, and their vectors, for symmetric A.

    `X` are vectors to start from, `iK` is a preconditioner, `niter` the most iterations (-1: no
    end), `tol` the residual to stop at. Both methods run the orthogonal iteration here. ValueError
    for fewer than 3·n rows. Gradients flow to A where B is not given.

    >>> import ember as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.lobpcg(torch.arange(1.0, 10.0).diag(), k=2)[0]
    tensor([9.0000, 8.0000])
    """
    check(tracker is None, NotImplementedError, "lobpcg does not call trackers: leave it None")
    check(
        B is None or not needs_grad(A),
        ValueError,
        "lobpcg.backward does not support B != I; detach A, or leave B out",
    )
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = X.shape[-1] if X is not None else (k if n is None else n)
    _check_problem(A, B, k, n, method or "ortho")
    tol = finfo(A.dtype).eps ** 0.5 if tol is None else tol
    size, lead = A.shape[-1], A.shape[:-2]
    flat = [
        [None] * lead.numel() if m is None else list(m.expand(*lead, *m.shape[-2:]).flatten(0, -3))
        if lead else [m]
        for m in (A.detach(), B, X, iK)
    ]  # fmt: skip
    pairs = []
    with modes.no_grad():
        for a, b, x, inverse in zip(*flat, strict=True):
            first = randn(size, n, dtype=A.dtype, device=A.device) if x is None else x
            found = _iterate(
                a, b, first, inverse, k, 1000 if niter is None else niter, tol, largest is not False
            )
            pairs.append((found[0][:k], found[1][:, :k]))
    if needs_grad(A):
        sources = A.flatten(0, -3) if lead else [A]
        pairs = [_with_history(a, E, X) for a, (E, X) in zip(sources, pairs, strict=True)]
    if not lead:
        return pairs[0]
    return tuple(stack([p[i] for p in pairs]).unflatten(0, lead) for i in (0, 1))
