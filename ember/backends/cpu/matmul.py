"""Matrix products: BLAS for floats and complex numbers, exact products for integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ember.backends.cpu import few_rows, products, small_products, split_products, threads

NDArray = np.ndarray[Any, Any]

# Whole numbers up to these are exact in the float type, so sums that stay below come out right.
EXACT = ((np.float32, 2**24), (np.float64, 2**53))
LEAST_PACKED = 1 << 20  # multiplications from which a linear map is computed without BLAS,
LEAST_PACKED_ROWS, LEAST_PACKED_COLUMNS = 8, 32  # for so many rows and columns of the result;
MOST_PACKED_ROWS = 32  # its gradients for so few rows: BLAS is as fast at more
SMALLEST_EXACT_DETOUR = 512  # multiplications; below, NumPy's integer loop is faster than two casts


def matmul(a: NDArray, b: NDArray) -> NDArray:
    """a @ b: sum over k of a[..., i, k]·b[..., k, j], batch dims broadcast; vectors as in NumPy.

    Operands have one dtype, float32, float64, complex or integer; integers wrap around. A sum over
    nothing is 0.
    """
    if a.dtype.kind in "iub":
        return np.asarray(_integer_product(a, b))
    return np.asarray(_product(a, b))


def dot(a: NDArray, b: NDArray) -> NDArray:
    """Sum of a[k]·b[k] over two vectors of one length."""
    return matmul(a, b)


def vdot(a: NDArray, b: NDArray) -> NDArray:
    """Sum of conj(a[k])·b[k] over two vectors of one length."""
    return matmul(a.conj() if a.dtype.kind == "c" else a, b)


def outer(a: NDArray, b: NDArray) -> NDArray:
    """a[i]·b[j] of two vectors."""
    return np.multiply(a[:, None], b[None, :], order="C")


def linear(
    input: NDArray, weight: NDArray, bias: NDArray | None, out: NDArray | None = None
) -> NDArray:
    """input @ weightᵀ + bias over the last dim of the input; into `out`, dense, if it is given."""
    if out is None:
        out = np.empty((*input.shape[:-1], len(weight)), input.dtype)
    rows = _matrix(input)
    made = out.reshape(len(rows), -1) if out.ndim != 2 else out
    if few_rows.suits(rows, weight, bias):
        few_rows.linear(rows, weight, bias, made)
        return out
    if len(rows) >= LEAST_PACKED_ROWS and made.shape[1] >= LEAST_PACKED_COLUMNS:
        dense = bias is None or (bias.dtype == np.float32 and bias.strides[0] == bias.itemsize)
        if dense and _is_packed(rows, weight.T):
            split_products.multiply(rows, weight.T, made, bias)
            return out
    np.matmul(rows, weight.T, out=made)
    if bias is not None:
        np.add(out, bias, out=out)
    return out


def linear_backward(
    g: NDArray,
    input: NDArray,
    weight: NDArray,
    biased: bool,
    needs: tuple[bool, ...],
    outs: tuple[NDArray, ...] | None = None,
) -> tuple[NDArray, ...]:
    """The gradients of input, weight and bias; without elements where they are not needed. Into
    `outs`, dense, if they are given."""
    by_row, rows = _matrix(g), _matrix(input)
    if outs is None:
        shapes = (input.shape, weight.shape, weight.shape[:1])[: 3 if biased else 2]
        outs = tuple([np.empty(s if n else 0, g.dtype) for s, n in zip(shapes, needs)])
    if needs[0]:
        _gradient(len(rows), by_row, weight, outs[0].reshape(rows.shape))
    if needs[1]:
        _gradient(len(rows), by_row.T, rows, outs[1])
    if biased and needs[2]:
        by_row.sum(0, out=outs[2])
    return outs


def _gradient(count: int, a: NDArray, b: NDArray, out: NDArray) -> None:
    """out = a b, for a linear map of so many rows."""
    few = LEAST_PACKED_ROWS <= count <= MOST_PACKED_ROWS
    work = len(a) * a.shape[1] * b.shape[1]
    alone = work <= small_products.MOST and threads.count() == 1  # on several, others are quicker
    if alone and (count == len(a) or not few) and count <= few_rows.MOST_ROWS:
        small_products.multiply(a, b, out)
    elif few and _is_packed(a, b):
        split_products.multiply(a, b, out)
    else:
        multiply(a, b, out)


def _is_packed(a: NDArray, b: NDArray) -> bool:
    """Whether a product is worth packing its operands for the project's own kernel."""
    work = len(a) * a.shape[1] * b.shape[1]
    return work >= LEAST_PACKED and products.suits(a) and products.suits(b)


def _matrix(x: NDArray) -> NDArray:
    """The rows of x as a matrix that BLAS takes."""
    if x.ndim != 2:
        x = x.reshape(_rows(x), x.shape[-1])
    return x if x.strides[1] == x.itemsize else np.ascontiguousarray(x)


def _product(a: NDArray, b: NDArray) -> Any:
    if a.ndim < 2 or b.ndim < 2:
        return np.matmul(a, b, order="C")
    if a.shape[-1] == 1 and b.shape[-2] == 1:
        return np.multiply(a, b, order="C")  # an outer product: BLAS is 10 times slower at it
    if b.ndim == 2 and a.ndim > 2:
        # One large product instead of one for each batch entry.
        rows = a.reshape(-1, a.shape[-1]) if a.size else np.empty((_rows(a), a.shape[-1]), a.dtype)
        return _of_matrices(rows, b).reshape(a.shape[:-1] + b.shape[-1:])
    if a.ndim == b.ndim == 2:
        return _of_matrices(a, b)
    return np.matmul(a, b, order="C")


def _of_matrices(a: NDArray, b: NDArray) -> Any:
    """The product of two matrices."""
    if not split_products.suits(a, b):
        return np.matmul(a, b, order="C")
    out = np.empty((len(a), b.shape[1]), a.dtype)
    split_products.multiply(a, b, out)
    return out


def multiply(a: NDArray, b: NDArray, out: NDArray) -> None:
    """out = a b of two matrices of floats or complex numbers; rows of out are dense."""
    if split_products.suits(a, b):
        split_products.multiply(a, b, out)
    else:
        np.matmul(a, b, out=out)


def _rows(a: NDArray) -> int:
    """How many rows a stack of matrices has; -1 in a reshape cannot tell for empty ones."""
    count = 1
    for size in a.shape[:-1]:
        count *= size
    return count


def _integer_product(a: NDArray, b: NDArray) -> Any:
    """The product of integers, through floats where those are exact."""
    inner = a.shape[-1]
    columns = b.shape[-1] if b.ndim > 1 else 1
    if a.size * columns < SMALLEST_EXACT_DETOUR or not inner or not b.size:
        return np.matmul(a, b, order="C")
    bound = inner * _largest(a) * _largest(b)
    for float_type, limit in EXACT:
        if bound <= limit:
            product = _product(a.astype(float_type), b.astype(float_type))
            return product.astype(np.int64).astype(a.dtype, copy=False)
    return np.matmul(a, b, order="C")


def _largest(a: NDArray) -> int:
    """The largest magnitude, as a Python number, which does not overflow."""
    if a.dtype.itemsize <= 2:
        info = np.iinfo(a.dtype)
        return max(-int(info.min), int(info.max))
    return max(-int(a.min()), int(a.max()))
