"""What linear algebra asks of its arguments, with PyTorch's errors."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.core import modes
from ember.core.dispatch import needs_grad
from ember.core.lifting import whole
from ember.core.tensor import Tensor
from ember.errors import LinAlgError, check
from ember.layout import broadcast_shapes


def records(*tensors: Tensor) -> bool:
    """Whether an op of these tensors is recorded for gradients."""
    return modes.state.grad and any(needs_grad(t) for t in tensors)


def check_floating(name: str, input: Tensor) -> None:
    """RuntimeError unless a tensor is of floats or complex numbers."""
    check(
        input.dtype.category >= dtypes.FLOAT,
        RuntimeError,
        f"{name}: Expected a floating point or complex tensor as input. Got {input.dtype.title}",
    )


def check_precise(name: str, input: Tensor) -> None:
    """RuntimeError unless a tensor is of at least single precision: LAPACK has no less."""
    check_floating(name, input)
    check(
        input.dtype not in dtypes.HALF,
        RuntimeError,
        f"{name}: Low precision dtypes not supported. Got {input.dtype.title}",
    )


def check_matrix(name: str, input: Tensor, what: str = "A") -> None:
    """RuntimeError unless a tensor has the two dims of a matrix."""
    check(
        input.ndim >= 2,
        RuntimeError,
        f"{name}: The input tensor {what} must have at least 2 dimensions.",
    )


def check_square(name: str, input: Tensor, what: str = "A") -> None:
    """RuntimeError unless a tensor is of square matrices."""
    check_matrix(name, input, what)
    rows, columns = input.shape[-2:]
    check(
        rows == columns,
        RuntimeError,
        f"{name}: {what} must be batches of square matrices, but they are {rows} by {columns} "
        "matrices",
    )


def check_system(name: str, a: Tensor, b: Tensor, left: bool) -> None:
    """RuntimeError unless a·X = b (X·a = b if not left) has sides of fitting shapes and dtypes."""
    check(
        a.dtype is b.dtype,
        RuntimeError,
        f"{name}: Expected A and B to have the same dtype, but found A of type {a.dtype.title} and "
        f"B of type {b.dtype.title} instead",
    )
    check_matrix(name, b, "B")
    side = -2 if left else -1
    check(
        a.shape[-2] == b.shape[side],
        RuntimeError,
        f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
        f"({a.shape[-2]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})",
    )


def batch_of(*tensors: Tensor) -> tuple[int, ...]:
    """The common leading dims of matrices."""
    return broadcast_shapes(*(tuple(t.shape[:-2]) for t in tensors))


def check_info(name: str, info: Tensor, reason: Any) -> None:
    """LinAlgError, with the reason that `reason(number)` gives, where an int info is not 0."""
    info = whole(info)
    if info.is_meta or not info.any().item():
        return
    numbers = info.reshape(-1).tolist()
    place = next(i for i, n in enumerate(numbers) if n)
    batch = f" (Batch element {place}):" if info.ndim else ""
    raise LinAlgError(f"{name}:{batch} {reason(numbers[place])}")
