"""Choices between elements: where, masks, extremes of two, clamps, steps, replacements of NaN."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.core.dispatch import NUMBERS
from ember.core.factory import fill_value
from ember.core.registry import FUNCTION, INPLACE, METHOD, OPS, OUT, composite, elementwise
from ember.core.tensor import Tensor
from ember.dtypes import ANY, COMPLEX_TYPES, FLOATING, REAL
from ember.errors import check
from ember.ops.argument_types import require_tensors
from ember.scalar import primitives as p
from ember.scalar.primitives import where
from ember.source_lines import warn

API = FUNCTION | METHOD | INPLACE | OUT
PLAIN = FUNCTION | METHOD | OUT


@elementwise(keeps=("condition",), name="where")
def where_(condition: Any, input: Any, other: Any) -> Any:
    """input where the condition holds, else other."""
    return where(condition, input, other)


@composite(FUNCTION | OUT, name="where")
def chosen(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """input where the condition holds, else other; of a condition alone, where it holds.

    >>> import ember as torch
    >>> torch.where(torch.tensor([True, False]), 1, torch.tensor([10, 20]))
    tensor([ 1, 20])
    """
    if input is None and other is None:
        return OPS["nonzero"](condition, as_tuple=True)
    check(
        isinstance(condition, Tensor),
        TypeError,
        lambda: (
            "where(): argument 'condition' (position 1) must be Tensor, not "
            f"{type(condition).__name__}"
        ),
    )
    check(
        condition.dtype in (dtypes.bool_, dtypes.uint8),
        RuntimeError,
        lambda: (
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{condition.dtype.title}"
        ),
    )
    if condition.dtype is dtypes.uint8:
        warn(
            "where received a uint8 condition tensor. This behavior is deprecated and will be "
            "removed in a future "
            "version of PyTorch. Use a boolean condition instead."
        )
        condition = condition.bool()
    if isinstance(input, NUMBERS) and isinstance(other, NUMBERS):
        input = OPS["full"]((), input, device=condition.device)
    return where_(condition, input, other)


@composite(METHOD, name="where")
def where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """self where the condition holds, else other."""
    return chosen(condition, self, other)


def _fill_value(input: Tensor, mask: Tensor, value: Any) -> Any:
    """A mask's fill value in the tensor's dtype; RuntimeErrors for what it cannot hold."""
    check(
        mask.dtype is dtypes.bool_,
        RuntimeError,
        lambda: (
            f"masked_fill only supports boolean masks, but got mask with dtype {mask.dtype.name}"
        ),
    )
    if isinstance(value, Tensor):
        check(
            value.ndim == 0,
            RuntimeError,
            "masked_fill only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s).",
        )
        check(
            not value.is_complex() or input.is_complex(),
            RuntimeError,
            f"value cannot be converted to type {input.dtype.name} without overflow",
        )
        return value.to(input.device, input.dtype)
    value = fill_value(input.dtype, value)
    if input.dtype.category < dtypes.FLOAT:
        return bool(value) if input.dtype is dtypes.bool_ else int(value)
    return value


@elementwise(keeps=("mask",), name="masked_fill")
def filled(input: Any, mask: Any, value: Any) -> Any:
    """value where the mask holds, else input."""
    return where(mask, value, input)


@composite(FUNCTION | METHOD, name="masked_fill")
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """A copy of input with `value` wherever the mask holds.

    >>> import ember as torch
    >>> torch.zeros(2).masked_fill(torch.tensor([True, False]), 5.0)
    tensor([5., 0.])
    """
    return filled(input, mask, _fill_value(input, mask, value))


@composite(METHOD)
def masked_fill_(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """Write `value` wherever the mask holds."""
    return filled.inplace(self, mask, _fill_value(self, mask, value))


# extremes


@elementwise(PLAIN, accepts=ANY - COMPLEX_TYPES)
def maximum(input: Any, other: Any) -> Any:
    """The greater of two; NaN if one is."""
    return p.maximum(input, other)


@elementwise(PLAIN, accepts=ANY - COMPLEX_TYPES)
def minimum(input: Any, other: Any) -> Any:
    """The smaller of two; NaN if one is."""
    return p.minimum(input, other)


@elementwise(PLAIN, accepts=ANY - COMPLEX_TYPES)
def fmax(input: Any, other: Any) -> Any:
    """The greater of two; the number where one is NaN."""
    return p.fmax(input, other)


@elementwise(PLAIN, accepts=ANY - COMPLEX_TYPES)
def fmin(input: Any, other: Any) -> Any:
    """The smaller of two; the number where one is NaN."""
    return p.fmin(input, other)


require_tensors((maximum, minimum, fmax, fmin), 2)


@elementwise(API, names=("clip",), accepts=REAL)
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """input held between min and max (either may be None); NaN stays.

    >>> import ember as torch
    >>> torch.tensor([1, 5, 9]).clamp(2, 6)
    tensor([2, 5, 6])
    """
    check(
        min is not None or max is not None,
        RuntimeError,
        "torch.clamp: At least one of 'min' or 'max' must not be None",
    )
    value = input
    if min is not None:
        value = p.maximum(value, min)
    if max is not None:
        value = p.minimum(value, max)
    return value


def _clamp_gradient(g: Any, input: Any, min: Any, max: Any) -> tuple[Any, ...]:
    """A bound itself counts as inside; a tensor bound gets the gradient where it holds."""
    inside = g
    if min is not None:
        inside = where(p.ge(input, min), inside, 0)
    if max is not None:
        inside = where(p.le(input, max), inside, 0)
    by_max = None if max is None else where(p.gt(input, max), g, 0)
    if min is None:
        return inside, None, by_max
    below = p.lt(input, min)
    if max is not None:
        below = p.logical_and(below, p.lt(min, max))
        by_max = where(p.logical_or(p.gt(input, max), p.lt(max, min)), g, 0)
    return inside, where(below, g, 0), by_max


clamp.grad = _clamp_gradient


@elementwise(API, accepts=ANY - COMPLEX_TYPES)
def clamp_min(input: Any, min: Any) -> Any:
    """input, but at least min."""
    return p.maximum(input, min)


clamp_min.grad = lambda g, input, min: (
    where(p.ge(input, min), g, 0),
    where(p.lt(input, min), g, 0),
)


@elementwise(API, accepts=ANY - COMPLEX_TYPES)
def clamp_max(input: Any, max: Any) -> Any:
    """input, but at most max."""
    return p.minimum(input, max)


clamp_max.grad = lambda g, input, max: (
    where(p.le(input, max), g, 0),
    where(p.gt(input, max), g, 0),
)


require_tensors((clamp_min, clamp_max), 1)

# steps and replacements


@elementwise(API, accepts=ANY - COMPLEX_TYPES)
def heaviside(input: Any, values: Any) -> Any:
    """0 below 0, `values` at 0, 1 above."""
    return where(p.eq(input, 0), values, where(p.gt(input, 0), 1, 0))


def _one_dtype(input: Any, values: Any) -> None:
    check(
        input.dtype is values.dtype,
        RuntimeError,
        "heaviside is not yet implemented for tensors with different dtypes.",
    )
    check(
        not input.is_complex(),
        RuntimeError,
        "heaviside is not yet implemented for complex tensors.",
    )


heaviside.checks = _one_dtype
require_tensors((heaviside,), 2)
heaviside.grad = lambda g: (0, 0)


@elementwise(accepts=FLOATING, name="nan_to_num")
def replaced(input: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    """input with three numbers in place of NaN, inf and -inf."""
    finite = where(
        p.eq(input, float("inf")), posinf, where(p.eq(input, float("-inf")), neginf, input)
    )
    return where(p.ne(input, input), nan, finite)


@composite(API, name="nan_to_num")
def nan_to_num(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """NaN replaced by a number (0), infinities by others (the greatest and least of the dtype)."""
    if input.dtype.category < dtypes.FLOAT:
        return input.clone()
    if input.is_complex():
        parts = [nan_to_num(part, nan, posinf, neginf) for part in (input.real, input.imag)]
        return OPS["complex"](*parts)
    limits = dtypes.finfo(input.dtype)
    return replaced(
        input,
        0.0 if nan is None else nan,
        limits.max if posinf is None else posinf,
        limits.min if neginf is None else neginf,
    )
