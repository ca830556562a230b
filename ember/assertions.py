"""Checks that programs make of their own: `torch._check` and its kin, which raise with a message
that is only made when it is needed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ember import dtypes
from ember.core.dispatch import overridden
from ember.core.tensor import Tensor
from ember.errors import check

__all__: list[str] = []

UNNAMED = "Expected cond to be True, but got False."


def _check_with(error_type: type, cond: Any, message: Callable[[], Any] | None = None) -> None:
    """Raise `error_type(message())` unless `cond`, a bool."""
    check(
        not isinstance(cond, Tensor),
        TypeError,
        "cond must be a bool, but got a Tensor. For tensor conditions, use "
        "torch._check_tensor_all() to assert that all elements are true.",
    )
    check(isinstance(cond, bool), TypeError, f"cond must be a bool, but got {type(cond)}")
    if not cond:
        raise error_type(_text(message))


def _text(message: Any) -> str:
    if message is None:
        return UNNAMED
    check(callable(message), TypeError, "message must be a callable")
    return str(message())


def _check(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """RuntimeError(message()) unless `cond`.

    >>> import ember as torch
    >>> torch._check(1 < 2, lambda: "numbers are broken")
    """
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """IndexError(message()) unless `cond`."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """ValueError(message()) unless `cond`."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """TypeError(message()) unless `cond`."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """NotImplementedError(message()) unless `cond`."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(
    i: Any, message: Callable[[], Any] | None = None, *, max: int | None = None
) -> None:
    """RuntimeError unless 0 <= i (<= max)."""
    warnings.warn(
        "_check_is_size will be removed in a future PyTorch release along with "
        "guard_size_oblivious. Use _check(i >= 0) instead.",
        FutureWarning,
        stacklevel=2,
    )
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all_with(
    error_type: type, cond: Any, message: Callable[[], Any] | None = None
) -> None:
    """Raise `error_type(message())` unless every element of a bool tensor is true."""
    check(isinstance(cond, Tensor), TypeError, f"cond must be a tensor, but got {type(cond)}")
    check(
        cond.dtype is dtypes.bool_,
        TypeError,
        f"cond tensor must have dtype torch.bool, but got {cond.dtype}",
    )
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """RuntimeError(message()) unless every element of a bool tensor is true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert(condition: Any, message: str) -> None:
    """AssertionError(message) unless `condition`; a class that overrides functions is asked."""
    if type(condition) is not Tensor and hasattr(type(condition), "__torch_function__"):
        found = overridden(_assert, (condition, message), {})
        if found is not NotImplemented:
            return
    if not condition:
        raise AssertionError(message)


def _assert_async(input: Any, assert_msg: str | None = None) -> None:
    """RuntimeError unless the one element of a tensor is not zero."""
    default = "Expected Tensor with single nonzero value, but got zero"
    check(bool(input), RuntimeError, default if assert_msg is None else assert_msg)


def _assert_scalar(self: Any, assert_msg: str) -> None:
    """RuntimeError(assert_msg) if a number is zero."""
    check(bool(self), RuntimeError, assert_msg)


def _assert_tensor_metadata(
    a: Tensor, size: Any = None, stride: Any = None, dtype: Any = None, **kwargs: Any
) -> None:
    """RuntimeError unless a tensor has this shape, these strides and this dtype, where given."""
    for what, wanted, found in (
        ("sizes", size, a.shape),
        ("strides", stride, a.stride()),
    ):
        check(
            wanted is None or tuple(wanted) == tuple(found),
            RuntimeError,
            lambda what=what, wanted=wanted, found=found: (
                f"Tensor {what} mismatch! Expected: {list(wanted)}, Got: {list(found)}"
            ),
        )
    check(
        dtype is None or a.dtype is dtype,
        RuntimeError,
        lambda: f"Tensor dtype mismatch! Expected: {dtype.title}, Got: {a.dtype.title}",
    )
