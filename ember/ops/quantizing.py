"""Numbers rounded to a grid of integers times a scale, as quantization will leave them."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.core.dispatch import not_implemented
from ember.core.registry import FUNCTION, composite, elementwise
from ember.core.tensor import Tensor
from ember.dtypes import FLOATING
from ember.errors import check
from ember.ops.argument_types import check_tensor
from ember.scalar import primitives as p
from ember.scalar.primitives import where


def _refuse_whole_numbers(operands: list[dtypes.dtype]) -> None:
    if operands[0] not in FLOATING:
        raise not_implemented("fake_quantize_tensor_cachemask", operands[0])


@elementwise(FUNCTION, accepts=FLOATING, refuse=_refuse_whole_numbers)
def fake_quantize_per_tensor_affine(
    input: Any, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any
) -> Any:
    """(q - zero_point) · scale for q = round(input / scale) + zero_point held in [quant_min,
    quant_max].

    The gradient passes where q was within the bounds (Bengio et al., arXiv:1308.3432).

    >>> import ember as torch
    >>> torch.fake_quantize_per_tensor_affine(torch.tensor([0.3, 9.0]), 0.5, 0, 0, 7)
    tensor([0.5000, 3.5000])
    """
    place = p.round(input * (1 / scale)) + zero_point
    return (p.fmin(p.fmax(place, quant_min), quant_max) - zero_point) * scale


def _straight_through(
    g: Any, input: Any, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any
) -> tuple[Any, ...]:
    place = p.round(input * (1 / scale)) + zero_point
    return (where(p.ge(place, quant_min) & p.le(place, quant_max), g, 0),)


fake_quantize_per_tensor_affine.grad = _straight_through


def _check_grid(input: Any, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any) -> None:
    check(
        quant_min <= quant_max,
        RuntimeError,
        "`quant_min` should be less than or equal to `quant_max`.",
    )
    within = (zero_point >= quant_min) & (zero_point <= quant_max)
    check(
        bool(within.all() if isinstance(within, Tensor) else within),  # type: ignore[attr-defined]
        RuntimeError,
        "`zero_point` must be between `quant_min` and `quant_max`.",
    )


fake_quantize_per_tensor_affine.checks = _check_grid


@composite(FUNCTION)
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """`fake_quantize_per_tensor_affine` with a scale and a zero point for each slice of `axis`."""
    for position, (name, value) in enumerate((("input", input), ("scale", scale)), 1):
        check_tensor("fake_quantize_per_channel_affine", name, position, value)
    check(
        zero_point.dtype in (dtypes.int32, dtypes.float32, dtypes.float16),
        RuntimeError,
        f"Zero-point must be Int32, Float or Half, found {zero_point.dtype.title}",
    )
    check(
        scale.shape == zero_point.shape,
        RuntimeError,
        "scale and zero-point need to have the same dimensions",
    )
    check(
        -input.ndim <= axis < input.ndim and scale.shape == (input.shape[axis],),
        RuntimeError,
        "dimensions of scale and zero-point are not consistent with input tensor",
    )
    shape = [1] * input.ndim
    shape[axis] = -1
    made = fake_quantize_per_tensor_affine(
        input, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max
    )
    return made.to(input.dtype)
