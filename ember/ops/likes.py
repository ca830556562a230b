"""Tensors like another: its shape, dtype, device and dim order, with other numbers."""

from __future__ import annotations

from typing import Any

from ember.core.array import empty as array_of
from ember.core.array import fill
from ember.core.factory import check_dtype, finish, marked, place
from ember.core.factory import fill_value as converted
from ember.core.registry import FUNCTION, OPS, composite
from ember.core.tensor import Tensor
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import spec_of
from ember.layout import like_strides
from ember.ops.formats import layout as Layout
from ember.ops.formats import memory_format as MemoryFormat
from ember.ops.formats import preserve_format, strided


def _like(
    input: Tensor,
    value: Any,
    dtype: DType | None,
    layout: Any,
    device: Any,
    requires_grad: bool,
    pin_memory: bool,
    memory_format: Any,
) -> Tensor:
    check_dtype(dtype)
    for name, given, kind in (
        ("layout", layout, Layout),
        ("memory_format", memory_format, MemoryFormat),
    ):
        check(
            given is None or isinstance(given, kind),
            TypeError,
            f"argument '{name}' must be torch.{name}, not {type(given).__name__}",
        )
    spec = input._array.spec
    dtype = dtype or spec.dtype
    target = spec.device if device is None else place(device)
    if layout is not None and layout is not strided:
        check(
            value == 0,
            NotImplementedError,
            f"a tensor like another is made with the layout {layout} only by zeros_like()",
        )
        made = OPS["zeros"](input.shape, dtype=dtype, layout=layout, device=target)
        return made.requires_grad_(requires_grad)
    format_ = memory_format or preserve_format
    strides = format_.strides_of(spec.shape) if format_ is not preserve_format else None
    strides = strides or like_strides(spec.shape, spec.strides)
    array = array_of(spec_of(spec.shape, strides, dtype, target))
    if value is not None:
        fill(array, converted(dtype, value))
    return finish(array, requires_grad, pin_memory)


@composite(FUNCTION)
def zeros_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Zeros with the shape, dtype, device and dim order of another tensor.

    >>> import ember as torch
    >>> torch.zeros_like(torch.tensor([1, 2]), dtype=torch.float32)
    tensor([0., 0.])
    """
    return _like(input, 0, dtype, layout, device, requires_grad, pin_memory, memory_format)


@composite(FUNCTION)
def ones_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Ones with the shape, dtype, device and dim order of another tensor.

    >>> import ember as torch
    >>> torch.ones_like(torch.tensor([[True, False]]))
    tensor([[True, True]])
    """
    return _like(input, 1, dtype, layout, device, requires_grad, pin_memory, memory_format)


@composite(FUNCTION)
def empty_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """An uninitialised tensor with the shape, dtype, device and dim order of another.

    >>> import ember as torch
    >>> torch.empty_like(torch.ones(2, 3)).shape
    torch.Size([2, 3])
    """
    return marked(
        _like(input, None, dtype, layout, device, requires_grad, pin_memory, memory_format)
    )


@composite(FUNCTION)
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor with the shape, dtype, device and dim order of another, filled with a number.

    >>> import ember as torch
    >>> torch.full_like(torch.tensor([1.0, 2.0]), 7)
    tensor([7., 7.])
    """
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return _like(input, value, dtype, layout, device, requires_grad, pin_memory, memory_format)
