"""Products of matrices and vectors."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core import modes
from ember.core.registry import FUNCTION, LINALG, METHOD, OUT, composite, library_op
from ember.core.tensor import Tensor
from ember.errors import check
from ember.kernel.array import Spec
from ember.layout import broadcast_shapes
from ember.layout import product as size_of

API = FUNCTION | METHOD | OUT


@library_op(Library.matmul, name="matmul")
def product(input: Tensor, other: Tensor) -> Spec:
    """a @ b of two operands with at least two dims each; batch dims broadcast."""
    a, b = input.shape, other.shape
    return input.spec.with_shape((*broadcast_shapes(tuple(a[:-2]), tuple(b[:-2])), a[-2], b[-1]))


def _turned(x: Any) -> Any:
    x = x.transpose(-2, -1)
    return x.conj() if x.is_complex() else x


product.grad = lambda g, input, other, needs: (
    product(g, _turned(other)) if needs[0] else None,
    product(_turned(input), g) if needs[1] else None,
)


def _check_types(name: str, a: Tensor, b: Tensor) -> None:
    check(
        a.dtype is b.dtype,
        RuntimeError,
        lambda: (
            f"expected m1 and m2 to have the same dtype, but got: {_word(a)} != {_word(b)}. mat1 "
            f"and mat2 must have the same dtype, but got {a.dtype.title} and {b.dtype.title}: "
            "products do not promote, convert one with .to()"
        ),
    )
    if a.dtype is dtypes.bool_:
        raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")


def _word(x: Tensor) -> str:
    return {"float32": "float", "float64": "double", "int64": "long long", "int32": "int"}.get(
        x.dtype.name, x.dtype.title
    )


@composite(API | LINALG)
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product; vectors are rows on the left, columns on the right; batches broadcast."""
    check(
        isinstance(input, Tensor) and isinstance(other, Tensor),
        TypeError,
        lambda: (
            f"matmul(): arguments must be Tensors, not {type(input).__name__} and "
            f"{type(other).__name__}"
        ),
    )
    left, right = input._array.spec, other._array.spec
    if left.ndim == 2 and (left, right) in product.plans and not modes.SPECIAL[0]:
        if right.ndim == 2:  # such matrices were multiplied before, so all is well with them
            return product.run((input, other))
    check(
        left.ndim > 0 and right.ndim > 0,
        RuntimeError,
        lambda: (
            f"both arguments to matmul need to be at least 1D, but they are {left.ndim}D and "
            f"{right.ndim}D"
        ),
    )
    vectors = left.ndim == 1 or right.ndim == 1
    _check_types("addmv_impl_cpu" if vectors else "addmm_impl_cpu_", input, other)
    a = input.unsqueeze(0) if left.ndim == 1 else input
    b = other.unsqueeze(1) if right.ndim == 1 else other
    rows, columns = a._array.spec.shape, b._array.spec.shape
    if rows[-1] != columns[-2]:
        _complain(input, other)
    if len(rows) > 2 and len(columns) == 2:  # one product of many rows
        flat = a.reshape(size_of(rows[:-1]), rows[-1])
        out = product(flat, b).reshape(*rows[:-1], columns[-1])
    else:
        out = product(a, b)
    if left.ndim == 1:
        out = out.squeeze(-2)
    return out.squeeze(-1) if right.ndim == 1 else out


def _complain(a: Tensor, b: Tensor) -> None:
    if a.ndim == 1 and b.ndim == 1:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{a.shape[0]}] and src [{b.shape[0]}] to "
            "have the same number "
            f"of elements, but got {a.shape[0]} and {b.shape[0]} elements respectively"
        )
    if a.ndim <= 2 and b.ndim <= 2:
        if b.ndim == 1:
            raise RuntimeError(
                f"size mismatch, got input ({a.shape[0]}), mat ({a.shape[0]}x{a.shape[1]}), vec "
                f"({b.shape[0]})"
            )
        rows = a.shape[0] if a.ndim == 2 else 1
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{a.shape[-1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )
    raise RuntimeError(
        "Expected size for first two dimensions of batch2 tensor to be: "
        f"[{', '.join(map(str, a.shape[:-2]))}, "
        f"{a.shape[-1]}] but got: {list(b.shape[:-1])}: the last dim of the first and the second "
        "to last of the second "
        "must agree"
    )


@composite(API)
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices."""
    check(input.ndim == 2, RuntimeError, f"self must be a matrix, got {input.ndim} dims")
    check(mat2.ndim == 2, RuntimeError, f"mat2 must be a matrix, got {mat2.ndim} dims")
    return matmul(input, mat2)


@composite(API)
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The products of two batches of matrices."""
    check(input.ndim == 3, RuntimeError, "batch1 must be a 3D tensor")
    check(mat2.ndim == 3, RuntimeError, "batch2 must be a 3D tensor")
    check(
        input.shape[0] == mat2.shape[0] and input.shape[2] == mat2.shape[1],
        RuntimeError,
        f"Expected size for first two dimensions of batch2 tensor to be: [{input.shape[0]}, "
        f"{input.shape[2]}] but got: "
        f"[{mat2.shape[0]}, {mat2.shape[1]}].",
    )
    return matmul(input, mat2)


@composite(API)
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector."""
    check(
        input.ndim == 2 and vec.ndim == 1,
        RuntimeError,
        "vector + matrix @ vector expected, got other dims",
    )
    return matmul(input, vec)


@composite(API)
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The sum of products of two vectors."""
    check(
        input.ndim == 1 and tensor.ndim == 1,
        RuntimeError,
        f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors",
    )
    check(
        input.dtype is tensor.dtype,
        RuntimeError,
        f"dot : expected both vectors to have same dtype, but found {input.dtype.title} and "
        f"{tensor.dtype.title}",
    )
    return matmul(input, tensor)
