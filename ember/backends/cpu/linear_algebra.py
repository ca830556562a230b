"""Factorizations of stacks of matrices by LAPACK, through NumPy, with PyTorch's conventions.

Matrices are (..., m, n) of float32, float64, complex64 or complex128, and are computed with in
their own precision. What can fail in one matrix of a stack gives an int32 `info` for each: 0, or
where it failed, from 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ember.backends.cpu.triangular import lu_factor, triangular_solve
from ember.errors import LinAlgError, check

NDArray = np.ndarray[Any, Any]
Pair = tuple[NDArray, NDArray]

# Padé coefficients and the norm up to which 13 are enough (Higham, 2005).
PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
    10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
PADE_NORM = 5.371920351148152


def cholesky(a: NDArray, upper: bool = False) -> Pair:
    """L with L·L^H = a (or U with U^H·U = a), from the triangle of that name; and info.

    info is the order of the first leading minor that is not positive; the rest is NaN there.
    """
    info = np.zeros(a.shape[:-2], np.int32)
    try:
        return _dense(np.linalg.cholesky(a, upper=upper)), info
    except np.linalg.LinAlgError:
        out = np.zeros(a.shape, a.dtype)
        for place in np.ndindex(a.shape[:-2]):
            info[place] = _definite_order(a[place], upper)
            good = a.shape[-1] if info[place] == 0 else int(info[place]) - 1
            out[place][good:, good:] = np.nan
            out[place][:good, :good] = np.linalg.cholesky(a[place][:good, :good], upper=upper)
        return out, info


def cholesky_solve(b: NDArray, factor: NDArray, upper: bool = False) -> NDArray:
    """X with A·X = b for A = L·L^H (or U^H·U)."""
    turned = np.swapaxes(factor, -1, -2).conj()
    first, second = (turned, factor) if upper else (factor, turned)
    return triangular_solve(second, triangular_solve(first, b, False), True)


def cholesky_inverse(factor: NDArray, upper: bool = False) -> NDArray:
    """The inverse of L·L^H (or U^H·U)."""
    identity = np.eye(factor.shape[-1], dtype=factor.dtype)
    return cholesky_solve(identity, factor, upper)


def inv(a: NDArray) -> Pair:
    """The inverse, and info: the number of the first zero pivot, where the result is infinite."""
    return _solved(a, None)


def solve(a: NDArray, b: NDArray, left: bool = True) -> Pair:
    """X with a·X = b (or X·a = b), b (..., n, k), and info as of `inv`."""
    if left:
        return _solved(a, b)
    turned, info = _solved(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2))
    return _dense(np.swapaxes(turned, -1, -2)), info


def det(a: NDArray) -> NDArray:
    """The determinant; 1 for no rows. NumPy goes through its log, so float32 needs more digits."""
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    return np.asarray(np.linalg.det(a.astype(wide, copy=False)), a.dtype, order="C")


def slogdet(a: NDArray) -> Pair:
    """The sign (or phase) of the determinant and the log of its magnitude."""
    sign, logarithm = np.linalg.slogdet(a)
    return _dense(sign), _dense(logarithm)


def qr(a: NDArray, mode: Any = "reduced") -> Pair:
    """Q with orthonormal columns and upper triangular R; mode "reduced", "complete" or "r" (no
    Q)."""
    if mode == "r":
        return np.empty(0, a.dtype), _dense(np.linalg.qr(a, "r"))
    q, r = np.linalg.qr(a, mode)
    return _dense(q), _dense(r)


def geqrf(a: NDArray) -> Pair:
    """R with the reflectors of Q below it, and their factors tau."""
    packed, tau = np.linalg.qr(a, "raw")
    return _dense(np.swapaxes(packed, -1, -2)), _dense(tau)


def svd(a: NDArray, full_matrices: bool = True) -> tuple[NDArray, NDArray, NDArray]:
    """U, the singular values in descending order, and V^H."""
    u, s, vh = _converged("linalg.svd", a, lambda: np.linalg.svd(a, full_matrices))
    return _dense(u), _dense(s), _dense(vh)


def svdvals(a: NDArray) -> NDArray:
    """The singular values in descending order."""
    return _dense(_converged("linalg.svd", a, lambda: np.linalg.svd(a, compute_uv=False)))


def eigh(a: NDArray, upper: bool = False) -> Pair:
    """The eigenvalues of a Hermitian matrix, ascending, and its eigenvectors; one triangle is
    read."""
    part: Any = "U" if upper else "L"
    values, vectors = _converged("linalg.eigh", a, lambda: np.linalg.eigh(a, part))
    return _dense(values), _dense(vectors)


def eigvalsh(a: NDArray, upper: bool = False) -> NDArray:
    """The eigenvalues of a Hermitian matrix, ascending."""
    part: Any = "U" if upper else "L"
    return _dense(_converged("linalg.eigh", a, lambda: np.linalg.eigvalsh(a, part)))


def eig(a: NDArray) -> Pair:
    """The eigenvalues and eigenvectors of any square matrix, always complex."""
    _check_finite("torch.linalg.eig", a)
    values, vectors = _converged("linalg.eig", a, lambda: np.linalg.eig(a))
    return _complex(values, a), _complex(vectors, a)


def eigvals(a: NDArray) -> NDArray:
    """The eigenvalues of any square matrix, always complex."""
    _check_finite("torch.linalg.eigvals", a)
    return _complex(_converged("linalg.eig", a, lambda: np.linalg.eigvals(a)), a)


def pinv(
    a: NDArray, atol: NDArray | float, rtol: NDArray | float, hermitian: bool = False
) -> NDArray:
    """The pseudo-inverse: singular values up to max(atol, rtol · the largest) count as zero.

    The tolerances are numbers or one for each matrix; of a Hermitian matrix one triangle is read.
    """
    if hermitian:
        values, vectors = eigh(a)
        s, u, vh = np.abs(values), vectors, np.swapaxes(vectors, -1, -2).conj()
    else:
        u, values, vh = svd(a, False)
        s = values
    limits = np.asarray(rtol)[..., None] * s.max(-1, keepdims=True, initial=0)
    held = s > np.maximum(np.asarray(atol)[..., None], limits)
    inverse = np.where(held, 1 / np.where(held, values, 1), 0).astype(s.dtype)
    turned = np.swapaxes(u, -1, -2).conj()
    return _dense(np.matmul(np.swapaxes(vh, -1, -2).conj() * inverse[..., None, :], turned))


def lstsq(
    a: NDArray, b: NDArray, rcond: float | None = None, driver: str = "gelsy"
) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """The X of least norm that makes |a·X − b| least; squared residuals, rank, singular values.

    Singular values below rcond times the largest count as zero. What a LAPACK driver does not
    tell is empty: residuals unless m > n and the rank is full, rank of gels, singular values of
    gels and gelsy. LinAlgError from gels if the rank is not full.
    """
    rows, columns = a.shape[-2:]
    u, s, vh = svd(a, False)
    limit = np.finfo(a.dtype).eps * max(rows, columns) if rcond is None else rcond
    largest = s.max(-1, keepdims=True, initial=0)
    held = s > limit * largest
    rank = _dense(held.sum(-1, dtype=np.int64))
    check(
        driver != "gels" or (rank == min(rows, columns)).all(),
        LinAlgError,
        "torch.linalg.lstsq: The least squares solution could not be computed because the input "
        "matrix does not have full rank.",
    )
    inverse = np.where(held, 1 / np.where(held, s, 1), 0).astype(s.dtype)
    along = np.matmul(np.swapaxes(u, -1, -2).conj(), b)
    x = _dense(np.matmul(np.swapaxes(vh, -1, -2).conj(), inverse[..., None] * along))
    residuals = np.empty(0, s.dtype)
    if driver != "gelsy" and rows > columns and (rank == columns).all():
        residuals = _dense(np.square(np.abs(np.matmul(a, x) - b)).sum(-2))
    return (
        x,
        residuals,
        np.empty(0, np.int64) if driver == "gels" else rank,
        s if driver in ("gelsd", "gelss") else np.empty(0, s.dtype),
    )


def matrix_exp(a: NDArray) -> NDArray:
    """exp(a) = 1 + a + a²/2 + …, by a Padé fraction of a/2^s, squared s times (Higham, 2005)."""
    if not a.size:
        return np.array(a, order="C")
    flat = a.reshape(-1, *a.shape[-2:])
    norms = np.abs(flat).sum(1).max(-1).astype(np.float64)
    finite = np.isfinite(norms)
    halvings = np.ceil(np.log2(np.where(finite & (norms > PADE_NORM), norms / PADE_NORM, 1)))
    scaled = flat * np.exp2(-halvings).astype(norms.dtype)[:, None, None].astype(a.real.dtype)
    scaled = np.where(finite[:, None, None], scaled, 0)
    result = _pade(scaled)
    for step in range(int(halvings.max())):
        again = halvings > step
        result[again] = np.matmul(result[again], result[again])
    result[~finite] = np.nan
    return result.reshape(a.shape)


def _pade(a: NDArray) -> NDArray:
    """The [13/13] fraction of exp for small matrices."""
    c = np.array(PADE, np.float64).astype(a.real.dtype)
    one = np.eye(a.shape[-1], dtype=a.dtype)
    a2 = np.matmul(a, a)
    a4 = np.matmul(a2, a2)
    a6 = np.matmul(a4, a2)
    odd = np.matmul(a6, c[13] * a6 + c[11] * a4 + c[9] * a2)
    odd = np.matmul(a, odd + c[7] * a6 + c[5] * a4 + c[3] * a2 + c[1] * one)
    even = np.matmul(a6, c[12] * a6 + c[10] * a4 + c[8] * a2)
    even = even + c[6] * a6 + c[4] * a4 + c[2] * a2 + c[0] * one
    return np.linalg.solve(even - odd, even + odd)


def _definite_order(a: NDArray, upper: bool) -> int:
    """The order of the first leading minor that is not positive, by bisection; 0 if there is
    none."""

    def definite(order: int) -> bool:
        try:
            np.linalg.cholesky(a[:order, :order], upper=upper)
        except np.linalg.LinAlgError:
            return False
        return True

    low, high = 0, len(a)
    if definite(high):
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if definite(middle) else (low, middle)
    return high


def _solved(a: NDArray, b: NDArray | None) -> Pair:
    """np.linalg.solve or inv; where one matrix is singular, info and infinities for it alone."""
    try:
        result = np.linalg.inv(a) if b is None else np.linalg.solve(a, b)
        return _dense(result), np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        info = lu_factor(a)[2]
    singular = (info != 0)[..., None, None]
    one = np.eye(a.shape[-1], dtype=a.dtype)
    result = _solved(np.where(singular, one, a), b)[0]
    return np.where(singular, np.array(np.inf, a.dtype), result), info


def _converged(name: str, a: NDArray, compute: Any) -> Any:
    """The result of an iteration; LinAlgError that says why there is none."""
    try:
        return compute()
    except np.linalg.LinAlgError:
        reason = (
            "is ill-conditioned or has too many repeated values"
            if np.isfinite(a).all()
            else "contained non-finite values"
        )
        raise LinAlgError(
            f"{name}: The algorithm failed to converge because the input matrix {reason}."
        ) from None


def _check_finite(name: str, a: NDArray) -> None:
    check(
        np.isfinite(a).all(), RuntimeError, f"{name}: input tensor should not contain infs or NaNs."
    )


def _dense(values: Any) -> NDArray:
    """C-contiguous, also without dims; NumPy keeps the order of a stack's strides."""
    return np.asarray(values, order="C")


def _complex(values: NDArray, a: NDArray) -> NDArray:
    """Values as complex numbers of a's precision."""
    return np.array(values, np.result_type(a.dtype, np.complex64), order="C")
