"""Library kernels by CuPy, which knows cuFFT, cuSOLVER and CUB: transforms, factorizations, sorting
and running sums of arrays on a GPU.

Each function takes `xp`, CuPy itself, and otherwise what the CPU's kernel of its name takes, and
gives what that gives. What CuPy does not do as the CPU's kernel would, `Elsewhere` leaves to the
host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Elsewhere(Exception):
    """The host has to do this one."""


def _ask(condition: Any) -> None:
    if not condition:
        raise Elsewhere


# transforms


def _transform(name: str) -> Callable[..., Any]:
    def transform(xp: Any, x: Any, s: Sequence[int] | None, dim: Sequence[int], norm: Any) -> Any:
        _ask(len(dim) and x.size)
        lengths = [x.shape[d] for d in dim] if s is None else list(s)
        if name == "irfftn" and s is None:
            lengths[-1] = 2 * (lengths[-1] - 1)
        _ask(min(lengths) > 0)
        return getattr(xp.fft, name)(x, lengths, tuple(dim), norm)

    transform.__name__ = name
    transform.__doc__ = f"`{name}` along dims, cut or padded to lengths s."
    return transform


# order


def _order(xp: Any, x: Any, dim: int, descending: bool) -> Any:
    """The indices that put x in order along dim, equals in theirs; NaN is the greatest."""
    _ask(x.ndim and x.dtype.kind != "c")
    keys = x.astype(xp.uint8) if x.dtype.kind == "b" else x
    if not descending:
        return xp.argsort(keys, axis=dim, kind="stable")
    backwards = xp.argsort(xp.flip(keys, dim), axis=dim, kind="stable")
    return x.shape[dim] - 1 - xp.flip(backwards, dim)


def sort(xp: Any, x: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """x in order along dim, and where its elements were."""
    order = _order(xp, x, dim, descending)
    return xp.take_along_axis(x, order, dim), order


def topk(xp: Any, x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k largest (or smallest) elements along dim, in order."""
    _ask(x.ndim and 0 < k <= x.shape[dim])
    order = _part(_order(xp, x, dim, largest), dim, slice(k))
    return xp.take_along_axis(x, order, dim), order


def kthvalue(xp: Any, x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest element along dim, k from 1."""
    _ask(x.ndim and 1 <= k <= x.shape[dim])
    place = _part(_order(xp, x, dim, False), dim, slice(k - 1, k))
    return _reduced(xp, x, place, dim, keepdim)


def median(xp: Any, x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The lower median along dim; NaN, at its first place, if there is one."""
    _ask(x.ndim and x.shape[dim])
    middle = (x.shape[dim] + 1) // 2 - 1
    place = _part(_order(xp, x, dim, False), dim, slice(middle, middle + 1))
    if x.dtype.kind == "f":
        nan = xp.isnan(x)
        first = xp.expand_dims(nan.argmax(dim), dim)
        place = xp.where(nan.any(axis=dim, keepdims=True), first, place)
    return _reduced(xp, x, place, dim, keepdim)


def _part(x: Any, dim: int, part: slice) -> Any:
    return x[(slice(None),) * (dim % x.ndim) + (part,)]


def _reduced(xp: Any, x: Any, place: Any, dim: int, keepdim: bool) -> Any:
    values = xp.take_along_axis(x, place, dim)
    if keepdim:
        return values, place
    return xp.squeeze(values, dim), xp.squeeze(place, dim)


def searchsorted(
    xp: Any, sorted_sequence: Any, values: Any, right: bool = False, sorter: Any = None
) -> Any:
    """Where values go into a sorted vector, before equals or (right) after."""
    _ask(sorted_sequence.ndim == 1 and sorter is None and sorted_sequence.size and values.size)
    common = xp.result_type(sorted_sequence.dtype, values.dtype)
    sequence, sought = sorted_sequence.astype(common), values.astype(common)
    _ask(common.kind != "f" or not bool(xp.isnan(sequence).any()))
    found = xp.searchsorted(sequence, sought.reshape(-1), "right" if right else "left")
    return found.reshape(values.shape)


def bincount(xp: Any, x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each of 0, 1, … occurs in a vector, or the sum of weights there."""
    _ask(x.ndim == 1 and x.size and minlength >= 0 and bool((x >= 0).all()))
    if weights is None:
        return xp.bincount(x.astype(xp.int64), None, minlength).astype(xp.int64)
    _ask(weights.shape == x.shape)
    sums = xp.bincount(x.astype(xp.int64), weights.astype(xp.float64), minlength)
    return sums.astype(xp.float32) if weights.dtype == xp.float32 else sums


def unique(
    xp: Any,
    x: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements in order, where each went, and how often each is."""
    _ask(dim is None and x.size and x.dtype.kind != "c")
    _ask(x.dtype.kind != "f" or not bool(xp.isnan(x).any()))
    keys = x.astype(xp.uint8) if x.dtype.kind == "b" else x
    values, inverse, counts = xp.unique(
        keys.reshape(-1), return_index=False, return_inverse=True, return_counts=True
    )
    none = xp.empty(0, xp.int64)
    inverse = inverse.reshape(x.shape).astype(xp.int64) if return_inverse else none
    return values.astype(x.dtype), inverse, counts.astype(xp.int64) if return_counts else none


def isin(xp: Any, elements: Any, test_elements: Any, invert: bool = False) -> Any:
    """Whether each element is among test_elements; NaN is not."""
    _ask(elements.size and test_elements.size)
    return xp.isin(elements, test_elements, invert=invert)


# running sums, and elements in another order


def cumsum(xp: Any, x: Any, dim: int) -> Any:
    """y[i] = x[0] + … + x[i] along dim."""
    _ask(x.ndim and x.size)
    return xp.cumsum(x, axis=dim, dtype=x.dtype)


def cumprod(xp: Any, x: Any, dim: int) -> Any:
    """y[i] = x[0] · … · x[i] along dim."""
    _ask(x.ndim and x.size)
    return xp.cumprod(x, axis=dim, dtype=x.dtype)


def flip(xp: Any, input: Any, dims: tuple[int, ...]) -> Any:
    """The elements of dims in reverse order."""
    return xp.flip(input, tuple(dims))


def roll(xp: Any, input: Any, shifts: tuple[int, ...], dims: Any) -> Any:
    """The elements of dims moved on by shifts, those at the end to the front."""
    return xp.roll(input, tuple(shifts), None if dims is None else tuple(dims))


def masked_select(xp: Any, x: Any, mask: Any) -> Any:
    """The elements of x where mask holds, as a vector; the two broadcast."""
    _ask(x.size and mask.size and (x.ndim or mask.ndim))
    source, mask = xp.broadcast_arrays(x, mask)
    return source[mask]


def nonzero(xp: Any, x: Any) -> Any:
    """The indices of elements that are not zero, (n, ndim) int64, in order."""
    _ask(x.ndim and x.size)
    return xp.stack(xp.nonzero(x), axis=1).astype(xp.int64)


# factorizations: what fails in one matrix goes to the host, which says where


def _fine(xp: Any, a: Any) -> Any:
    """`info` of matrices with which all is well."""
    return xp.zeros(a.shape[:-2], xp.int32)


def _turned(xp: Any, a: Any) -> Any:
    return xp.swapaxes(a, -1, -2)


def _finite(xp: Any, a: Any) -> None:
    """Iterations of what is not finite end in an error, which the host words."""
    _ask(a.size and bool(xp.isfinite(a).all()))


def cholesky(xp: Any, a: Any, upper: bool = False) -> Any:
    """L with L·L^H = a (or U with U^H·U = a), from the triangle of that name; and info."""
    _ask(a.size)
    if not upper:
        return xp.linalg.cholesky(a), _fine(xp, a)
    return _turned(xp, xp.linalg.cholesky(_turned(xp, a).conj())).conj(), _fine(xp, a)


def inv(xp: Any, a: Any) -> Any:
    """The inverse, and info."""
    _ask(a.size)
    return xp.linalg.inv(a), _fine(xp, a)


def solve(xp: Any, a: Any, b: Any, left: bool = True) -> Any:
    """X with a·X = b (or X·a = b), and info."""
    _ask(a.size and b.size)
    if not left:
        found, info = solve(xp, _turned(xp, a), _turned(xp, b))
        return _turned(xp, found), info
    stack = xp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    given = (xp.broadcast_to(m, (*stack, *m.shape[-2:])).copy() for m in (a, b))
    return xp.linalg.solve(*given), _fine(xp, a)


def det(xp: Any, a: Any) -> Any:
    """The determinant."""
    _ask(a.size)
    wide = xp.complex128 if a.dtype.kind == "c" else xp.float64
    return xp.linalg.det(a.astype(wide)).astype(a.dtype)


def slogdet(xp: Any, a: Any) -> Any:
    """The sign (or phase) of the determinant and the log of its magnitude."""
    _ask(a.size)
    sign, logarithm = xp.linalg.slogdet(a)
    return sign, logarithm


def qr(xp: Any, a: Any, mode: Any = "reduced") -> Any:
    """Q with orthonormal columns and upper triangular R."""
    _ask(a.size)
    if mode == "r":
        return xp.empty(0, a.dtype), xp.linalg.qr(a, "r")
    q, r = xp.linalg.qr(a, mode)
    return q, r


def svd(xp: Any, a: Any, full_matrices: bool = True) -> Any:
    """U, the singular values in descending order, and V^H."""
    _finite(xp, a)
    u, s, vh = xp.linalg.svd(a, full_matrices)
    return u, s, vh


def svdvals(xp: Any, a: Any) -> Any:
    """The singular values in descending order."""
    _finite(xp, a)
    return xp.linalg.svd(a, compute_uv=False)


def eigh(xp: Any, a: Any, upper: bool = False) -> Any:
    """The eigenvalues of a Hermitian matrix, ascending, and its eigenvectors."""
    _finite(xp, a)
    values, vectors = xp.linalg.eigh(a, "U" if upper else "L")
    return values, vectors


def eigvalsh(xp: Any, a: Any, upper: bool = False) -> Any:
    """The eigenvalues of a Hermitian matrix, ascending."""
    _finite(xp, a)
    return xp.linalg.eigvalsh(a, "U" if upper else "L")


# What only moves elements takes those of any dtype, as words of their size.
_moving: tuple[Callable[..., Any], ...] = (flip, roll, masked_select)
MOVES = {f.__name__: f for f in _moving}
_functions: tuple[Callable[..., Any], ...] = (
    *(_transform(name) for name in ("fftn", "ifftn", "rfftn", "irfftn")),
    sort, topk, kthvalue, median, searchsorted, bincount, unique, isin, cumsum, cumprod,
    nonzero, cholesky, inv, solve, det, slogdet, qr, svd, svdvals, eigh, eigvalsh,
)  # fmt: skip
COMPUTES = {f.__name__: f for f in _functions}
