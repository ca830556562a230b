"""L·D·L^T factors of symmetric and Hermitian matrices, by LAPACK's sytrf and hetrf through SciPy.

D has blocks of one row, or of two where both pivots are the same negative number (Bunch and
Kaufman, 1977).
"""

from __future__ import annotations

from typing import Any

import numpy as np

NDArray = np.ndarray[Any, Any]


def ldl_factor(a: NDArray, hermitian: bool = False) -> tuple[NDArray, NDArray, NDArray]:
    """L below the diagonal and D on it and next to it, int32 pivots from 1, and info."""
    from scipy.linalg.lapack import get_lapack_funcs

    name = "hetrf" if hermitian and a.dtype.kind == "c" else "sytrf"
    (factor,) = get_lapack_funcs((name,), (a,))
    size = a.shape[-1]
    ld = np.tril(a)
    pivots = np.zeros(a.shape[:-1], np.int32)
    info = np.zeros(a.shape[:-2], np.int32)
    for place in np.ndindex(a.shape[:-2]):
        if size:
            made, pivots[place], info[place] = factor(ld[place], lower=1)
            ld[place] = np.tril(made)
    return ld, pivots, info


def ldl_solve(ld: NDArray, pivots: NDArray, b: NDArray, hermitian: bool = False) -> NDArray:
    """X with A·X = b by the factors of `ldl_factor`; leading dims broadcast."""
    batch = np.broadcast_shapes(ld.shape[:-2], b.shape[:-2])
    ld = np.broadcast_to(ld, (*batch, *ld.shape[-2:]))
    pivots = np.broadcast_to(pivots, (*batch, pivots.shape[-1]))
    out = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])), order="C")
    turned = hermitian and ld.dtype.kind == "c"
    for place in np.ndindex(batch):
        out[place] = _solved(ld[place], pivots[place], out[place], turned)
    return out


def _solved(ld: NDArray, pivots: NDArray, b: NDArray, turned: bool) -> NDArray:
    """One system: A = M·D·M^T with M = P₁L₁P₂L₂…, undone from the left and then from the right."""
    steps = _blocks(pivots)
    x = b.copy()
    for first, width, other in steps:
        _swap(x, first + width - 1, other)
        x[first + width :] -= ld[first + width :, first : first + width] @ x[first : first + width]
    for first, width, _ in steps:
        part = slice(first, first + width)
        block = np.tril(ld[part, part])
        mirrored = np.tril(block, -1).T
        block = block + (mirrored.conj() if turned else mirrored)
        if turned:
            block[np.diag_indices(width)] = block.diagonal().real
        x[part] = np.linalg.solve(block, x[part])
    for first, width, other in reversed(steps):
        column = ld[first + width :, first : first + width].T
        x[first : first + width] -= (column.conj() if turned else column) @ x[first + width :]
        _swap(x, first + width - 1, other)
    return x


def _blocks(pivots: NDArray) -> list[tuple[int, int, int]]:
    """(first row, rows, the row that the last of them was swapped with) of each block of D."""
    found, first = [], 0
    while first < len(pivots):
        width = 1 if pivots[first] > 0 else 2
        found.append((first, width, abs(int(pivots[first])) - 1))
        first += width
    return found


def _swap(x: NDArray, row: int, other: int) -> None:
    if row != other:
        x[[row, other]] = x[[other, row]]
