"""Triangular systems, LU factors and reflectors of stacks of matrices.

Stacks go through every step together; matrices are cut into blocks so that most of the work is
products. Large matrices go to LAPACK one by one where SciPy is installed.
Shapes: (..., n, n) and (..., n, k), leading dims broadcast.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

NDArray = np.ndarray[Any, Any]

LEAST_LAPACK = 24  # rows from which a matrix is worth a call of its own
BLOCK = 32  # columns that are worked on one by one before the rest is updated by a product


def triangular_solve(
    a: NDArray, b: NDArray, upper: bool, left: bool = True, unitriangular: bool = False
) -> NDArray:
    """X with a·X = b (or X·a = b if not left), by substitution; the other triangle is not read.

    unitriangular takes the diagonal as ones. A zero on the diagonal gives infinities.
    """
    multiply = _scipy_function("blas", "trsm", a.dtype) if a.shape[-1] >= LEAST_LAPACK else None
    if multiply and left and b.size:
        return _substitute_each(multiply, a, b, upper, unitriangular)
    if not left:
        turned = triangular_solve(
            np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2), not upper, True, unitriangular
        )
        return np.ascontiguousarray(np.swapaxes(turned, -1, -2))
    if upper:
        below = _substitute(a[..., ::-1, ::-1], b[..., ::-1, :], unitriangular)
        return np.ascontiguousarray(below[..., ::-1, :])
    return _substitute(a, b, unitriangular)


def lu_factor(a: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """P·L·U of (..., m, n) with partial pivoting, as LAPACK's getrf: L and U in one array.

    Also the pivots, int32 from 1: row i was swapped with row pivots[i]; and int32 info, 0 or the
    number of the first pivot that is zero.
    """
    rows, columns = a.shape[-2:]
    count = min(rows, columns)
    lu = np.array(a, order="C").reshape(prod(a.shape[:-2]), rows, columns)
    pivots = np.zeros((len(lu), count), np.int32)
    info = np.zeros(len(lu), np.int32)
    factor = _scipy_function("lapack", "getrf", a.dtype) if count >= LEAST_LAPACK else None
    if factor:
        for number, matrix in enumerate(lu):
            lu[number], places, info[number] = factor(matrix)
            pivots[number] = places + 1
        count = 0
    for first in range(0, count, BLOCK):
        last = min(first + BLOCK, count)
        for column in range(first, last):
            _eliminate(lu, pivots, info, column, last)
        if last < columns:
            corner = lu[:, first:last, first:last]
            lu[:, first:last, last:] = _substitute(corner, lu[:, first:last, last:], True)
            lu[:, last:, last:] -= np.matmul(lu[:, last:, first:last], lu[:, first:last, last:])
    batch = a.shape[:-2]
    return lu.reshape(a.shape), pivots.reshape(*batch, min(rows, columns)), info.reshape(batch)


def lu_permutation(pivots: NDArray, rows: int) -> NDArray:
    """The order of rows that pivots swap into: (P^T·a)[i] = a[order[i]]; (..., rows) int64."""
    flat = pivots.reshape(prod(pivots.shape[:-1]), pivots.shape[-1])
    order = np.tile(np.arange(rows), (len(flat), 1))
    every = np.arange(len(flat))
    for step in range(flat.shape[1]):
        other = flat[:, step] - 1
        held = order[every, other]
        order[every, other] = order[:, step]
        order[:, step] = held
    return order.reshape(*pivots.shape[:-1], rows)


def lu_solve(
    lu: NDArray, pivots: NDArray, b: NDArray, left: bool = True, adjoint: bool = False
) -> NDArray:
    """X with A·X = b (or X·A = b if not left, or A^H for A if adjoint), by A's `lu_factor`."""
    if not left:
        turned = np.swapaxes(b, -1, -2).conj()
        return np.ascontiguousarray(
            np.swapaxes(lu_solve(lu, pivots, turned, True, not adjoint), -1, -2).conj()
        )
    rows = lu.shape[-1]
    batch = np.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    order = np.broadcast_to(lu_permutation(pivots, rows), (*batch, rows))[..., None]
    b = np.broadcast_to(b, (*batch, *b.shape[-2:]))
    if not adjoint:
        y = triangular_solve(lu, np.take_along_axis(b, order, -2), False, True, True)
        return triangular_solve(lu, y, True)
    turned = np.swapaxes(lu, -1, -2).conj()
    y = triangular_solve(turned, b, False)
    z = triangular_solve(turned, y, True, True, True)
    out = np.empty_like(z)
    np.put_along_axis(out, np.broadcast_to(order, z.shape), z, -2)
    return out


def householder_product(packed: NDArray, tau: NDArray) -> NDArray:
    """The first n columns of H_1·H_2·…·H_k, where H_i = 1 − tau_i·v_i·v_i^H.

    v_i is column i of (..., m, n) packed below the diagonal, with 1 on it, as `geqrf` leaves it.
    """
    rows, columns = packed.shape[-2:]
    identity = np.eye(rows, columns, dtype=packed.dtype)
    out = np.broadcast_to(identity, packed.shape).copy()
    for step in reversed(range(tau.shape[-1])):
        _reflect(out, packed, tau[..., step], step)
    return out


def ormqr(
    packed: NDArray, tau: NDArray, other: NDArray, left: bool = True, transpose: bool = False
) -> NDArray:
    """Q·other, or other·Q if not left, with Q = H_1·…·H_k of `householder_product`, or Q^H."""
    if not left:
        turned = np.swapaxes(other, -1, -2).conj()
        product = ormqr(packed, tau, turned, True, not transpose)
        return np.ascontiguousarray(np.swapaxes(product, -1, -2).conj())
    batch = np.broadcast_shapes(packed.shape[:-2], other.shape[:-2])
    out = np.array(np.broadcast_to(other, (*batch, *other.shape[-2:])), order="C")
    steps = range(tau.shape[-1])
    for step in steps if transpose else reversed(steps):
        factor = tau[..., step].conj() if transpose else tau[..., step]
        _reflect(out, packed, factor, step)
    return out


def _reflect(out: NDArray, packed: NDArray, factor: NDArray, step: int) -> None:
    """out ← (1 − factor·v·v^H)·out, in place, with v the reflector of a step."""
    vector = packed[..., step:, step : step + 1].copy()
    vector[..., 0, 0] = 1
    part = out[..., step:, :]
    along = np.matmul(np.swapaxes(vector, -1, -2).conj(), part)
    part -= (factor[..., None, None] * vector) * along


@lru_cache(32)
def _scipy_function(module: str, name: str, dtype: Any) -> Callable[..., Any] | None:
    """A function of BLAS or LAPACK for a dtype, from SciPy; None where it is not installed."""
    try:
        from scipy.linalg import get_blas_funcs, get_lapack_funcs
    except ImportError:
        return None
    get = get_blas_funcs if module == "blas" else get_lapack_funcs
    found: Callable[..., Any] = get((name,), dtype=dtype)[0]
    return found


def _substitute_each(
    multiply: Callable[..., Any], a: NDArray, b: NDArray, upper: bool, unitriangular: bool
) -> NDArray:
    """a⁻¹·b by trsm, matrix by matrix, as x^T·a^T = b^T: transposes are what BLAS sees anyway."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])), order="C")
    matrices = np.broadcast_to(a, (*batch, *a.shape[-2:]))
    for place in np.ndindex(batch):
        matrix = np.ascontiguousarray(matrices[place]).T
        solved = multiply(1, matrix, x[place].T, side=1, lower=upper, diag=unitriangular)
        x[place] = solved.T
    return x


def _substitute(a: NDArray, b: NDArray, unitriangular: bool) -> NDArray:
    """X with a·X = b for lower triangular a."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])), order="C")
    size = a.shape[-1]
    for first in range(0, size, BLOCK):
        last = min(first + BLOCK, size)
        for row in range(first, last):
            if row > first:
                part = np.matmul(a[..., row : row + 1, first:row], x[..., first:row, :])
                x[..., row : row + 1, :] -= part
            if not unitriangular:
                x[..., row, :] /= a[..., row, row, None]
        if last < size:
            x[..., last:, :] -= np.matmul(a[..., last:, first:last], x[..., first:last, :])
    return x


def _eliminate(lu: NDArray, pivots: NDArray, info: NDArray, column: int, last: int) -> None:
    """One step of Gauss: the largest of a column to the diagonal, the column scaled, a block
    updated."""
    below = lu[:, column:, column]
    size = np.abs(below.real) + np.abs(below.imag) if lu.dtype.kind == "c" else np.abs(below)
    other = size.argmax(1) + column
    pivots[:, column] = other + 1
    every = np.arange(len(lu))
    if (other != column).any():
        held = lu[every, other]
        lu[every, other] = lu[:, column]
        lu[:, column] = held
    pivot = lu[:, column, column]
    zero = pivot == 0
    info[zero & (info == 0)] = column + 1
    lu[:, column + 1 :, column] /= np.where(zero, 1, pivot)[:, None]
    rest = lu[:, column + 1 :, column + 1 : last]
    rest -= lu[:, column + 1 :, column, None] * lu[:, column, None, column + 1 : last]
