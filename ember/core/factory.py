"""What factories share: the device and dtype that a new tensor gets, and numbers as tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ember import dtypes
from ember.backends.base import resolve
from ember.core import modes
from ember.core.array import constant, copy_into, empty, empty_pinned, full, to_device
from ember.core.array import fill as array_fill
from ember.core.tensor import Tensor, tensor_of
from ember.device import CPU, META, default_device
from ember.device import device as Device
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import Array, contiguous_spec, wrap


def place(device: Any) -> Device:
    """The resolved device of a factory's `device` argument; the default device for None."""
    if device is None:
        found = default_device()
        return found if found is CPU else resolve(found)
    return resolve(Device(device))


def finish(array: Array, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:
    """A new leaf."""
    if pin_memory:
        check(
            array.spec.device is CPU,
            RuntimeError,
            f"Only dense CPU tensors can be pinned: this one is made on {array.spec.device}",
        )
        fresh, array = array, empty_pinned(array.spec)
        copy_into(array, fresh)
    made = tensor_of(array)
    if requires_grad:
        made.requires_grad_(True)
    return made


def check_dtype(dtype: Any) -> None:
    """TypeError for a `dtype` argument that is none."""
    check(
        dtype is None or isinstance(dtype, DType),
        TypeError,
        f"argument 'dtype' must be torch.dtype, not {type(dtype).__name__}",
    )


def new_empty(shape: tuple[int, ...], dtype: DType | None, device: Any = None) -> Array:
    """An uninitialised array; RuntimeError for negative sizes."""
    check_dtype(dtype)
    for size in shape:
        check(
            size >= 0,
            RuntimeError,
            f"Trying to create tensor with negative dimension {size}: {list(shape)}",
        )
    return empty(contiguous_spec(shape, dtype or modes.get_default_dtype(), place(device)))


MARKED = [False]  # whether memory without values is filled with ones that stand out
_marking = {"deterministic": False, "asked": True}  # settings.py, utils/deterministic.py


def mark_uninitialised(**change: bool) -> bool:
    """Fill what `empty` makes with NaN, the largest integer or True, while both `deterministic` and
    `asked`; returns `asked`."""
    _marking.update(change)
    MARKED[0] = all(_marking.values())
    return _marking["asked"]


def marked(made: Tensor) -> Tensor:
    """A tensor without values, with ones that stand out where that is asked for."""
    dtype = made._array.spec.dtype
    if MARKED[0] and made._array.spec.device is not META:
        value: Any = dtypes.iinfo(dtype).max if dtype.category == dtypes.INTEGRAL else math.nan
        array_fill(made._array, True if dtype is dtypes.bool_ else value)
    return made


def new_full(shape: tuple[int, ...], value: Any, dtype: DType, device: Any) -> Array:
    """An array filled with a number."""
    check_dtype(dtype)
    check(
        all(n >= 0 for n in shape),
        RuntimeError,
        f"Trying to create tensor with negative dimension: {list(shape)}",
    )
    return full(contiguous_spec(shape, dtype, place(device)), value)


def from_values(nd: np.ndarray[Any, Any], dtype: DType, device: Device) -> Array:
    """A fresh contiguous ndarray as an array on a device: an upload if that is a GPU."""
    array = constant(wrap(nd, CPU, dtype))
    if device is CPU:
        return array
    return empty(array.spec.with_device(META)) if device is META else to_device(array, device)


def shape_of(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape given as separate sizes or as one sequence. TypeError for what is no integer."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list, np.ndarray)):
        sizes = tuple(sizes[0])
    for size in sizes:
        if type(size) is not int:
            return tuple([_size(n) for n in sizes])
    return sizes


def _size(n: Any) -> int:
    if type(n) is int:
        return n
    if isinstance(n, Tensor):
        check(
            n.numel() == 1,
            TypeError,
            "argument 'size' must be tuple of ints, not Tensor: give its .tolist()",
        )
        return int(n.item())  # type: ignore[attr-defined]
    try:
        return int(n.__index__())
    except AttributeError:
        raise TypeError(
            f"a size must be an int, not {type(n).__name__}: give sizes as separate ints or one "
            "tuple"
        ) from None


C_NAMES = {
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
}


def fill_value(dtype: DType, value: Any) -> Any:
    """A number to be stored as `dtype`; RuntimeError if it does not fit (infinities fit every
    float)."""
    dtypes.category_of_number(value)  # TypeError for what is no number
    fits = True
    if isinstance(value, complex) and not dtype.is_complex:
        fits = value.imag == 0
        value = value.real if fits else value
    elif dtype.category == dtypes.INTEGRAL and not isinstance(value, complex):
        info = np.iinfo(dtype.numpy)
        fits = not isinstance(value, float) or math.isfinite(value)
        # an unsigned type takes negatives round, as C does
        low = -info.max - 1 if info.min == 0 else info.min
        fits = fits and low <= int(value) <= info.max
    elif dtype.is_floating_point and isinstance(value, (int, float)):
        largest = dtypes.finfo(dtype).max
        fits = abs(value) <= largest or math.isinf(value) or math.isnan(value)
    name = C_NAMES.get(dtype.name, dtype.name)
    check(
        fits, RuntimeError, f"value cannot be converted to type {name} without overflow: {value!r}"
    )
    return value
