"""`out=`: results stored in tensors that the caller brings, resized to fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ember import dtypes
from ember.core import modes, out_rules
from ember.core.array import copy_into, empty
from ember.core.dispatch import needs_grad
from ember.core.history import check_elements, check_overlap, check_write, written
from ember.core.tensor import Tensor
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import Array, Spec, contiguous_spec


def store(name: str, out: Tensor, compute: Callable[[], Any], values: Sequence[Any]) -> Tensor:
    """`compute()` stored in `out`. RuntimeError where gradients would be lost or the dtype cannot
    hold the result."""
    check_out(name, out, values)
    with modes.no_grad():
        return put(out, compute(), name)


def check_out(name: str, out: Any, values: Sequence[Any]) -> None:
    """TypeError for what is not a tensor, RuntimeError where a gradient would get lost or memory
    overlaps."""
    check(
        isinstance(out, Tensor),
        TypeError,
        f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}",
    )
    if name in out_rules.WHOLE:
        check_elements(out._array)
    if name not in out_rules.FREE:
        for position, value in enumerate(values):
            apart = name in out_rules.APART or (position and name in out_rules.APART_BUT_FIRST)
            for read in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(read, Tensor):
                    check_overlap(out._array, read._array, bool(apart))
    if modes.state.grad:
        involved = [v for v in (*values, out) if isinstance(v, Tensor)]
        check(
            not any(needs_grad(t) for t in involved),
            RuntimeError,
            f"{name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad.",
        )


def put(out: Tensor, result: Tensor, name: str, with_places: bool = True) -> Tensor:
    """Store one result of the function `name`; `with_places` unless it gives just one."""
    spec, own = result._array.spec, out._array.spec
    only = name in out_rules.EXACT and (with_places or name not in ("max", "min", "median"))
    check(
        spec.dtype is own.dtype or not only,
        RuntimeError,
        lambda: (
            f"Expected out tensor to have dtype {_c_name(spec.dtype)}, but got "
            f"{_c_name(own.dtype)} instead: bring a tensor of {spec.dtype}, and convert the result "
            "afterwards"
        ),
    )
    check(
        spec.device is own.device,
        RuntimeError,
        f"Expected out tensor to have device {spec.device}, but got {own.device} instead",
    )
    check_cast(spec.dtype, own.dtype)
    fit(out, spec)
    check_write(out)
    copy_into(out._array, result._array)
    written(out)
    return out


def _c_name(dtype: DType) -> str:
    """The name of a dtype in PyTorch's messages on `out=`."""
    name = str(dtype).removeprefix("torch.")
    return {"float32": "float", "float64": "double", "int64": "long int", "int32": "int"}.get(
        name, name
    )


def fit(out: Tensor, spec: Spec) -> None:
    """Give `out` the shape of a result; a warning if it had elements of its own."""
    own = out._array.spec
    if own.shape == spec.shape:
        return
    if own.numel:
        warnings.warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(own.shape)}, which does not match the required output shape "
            f"{list(spec.shape)}. This behavior is deprecated, and in a future PyTorch release "
            "outputs will not be resized unless they have zero elements. You can explicitly reuse "
            "an out tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            UserWarning,
            stacklevel=5,
        )
    resize(out, spec.shape)


def resize(tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Give a tensor another shape, row-major, in its own storage if that is large enough, else in a
    larger one."""
    array = tensor._array
    spec = array.spec.with_shape(shape)
    if (array.offset + spec.numel) * spec.dtype.itemsize <= array.storage.nbytes:
        tensor._array = type(array)(array.storage, spec, array.offset)
        return
    grown = empty(spec)
    kept = min(array.storage.nbytes - array.offset * spec.dtype.itemsize, grown.storage.nbytes)
    if kept > 0 and not tensor.is_meta:
        bytes_of = contiguous_spec((kept,), dtypes.uint8, spec.device)
        start = array.offset * spec.dtype.itemsize
        copy_into(Array(grown.storage, bytes_of), Array(array.storage, bytes_of, start))
    array.storage.buffer = grown.storage.buffer
    if hasattr(grown.storage, "lease"):
        array.storage.lease = grown.storage.lease
    tensor._array = type(array)(array.storage, spec, 0)


def check_cast(found: DType, wanted: DType) -> None:
    """RuntimeError unless results of one dtype may be stored as another."""
    check(
        dtypes.can_cast(found, wanted),
        RuntimeError,
        f"result type {found.title} can't be cast to the desired output type {wanted.title}",
    )


def check_result(dtype: DType, shape: tuple[int, ...], own: Spec) -> None:
    """RuntimeError unless a result may be written in place into an array of spec `own`."""
    check_cast(dtype, own.dtype)
    check(
        shape == own.shape,
        RuntimeError,
        f"output with shape {list(own.shape)} doesn't match the broadcast shape {list(shape)}",
    )
