"""Tensors over memory that something else has: buffers of Python objects, and storages."""

from __future__ import annotations

from typing import Any

import numpy as np

from ember.core.array import Array, from_host
from ember.core.factory import finish
from ember.core.modes import get_default_dtype
from ember.core.registry import FUNCTION, composite
from ember.core.storages import UntypedStorage
from ember.core.tensor import Tensor, tensor_of
from ember.dtypes import dtype as DType
from ember.dtypes import int64
from ember.errors import check
from ember.kernel.array import expose, spec_of
from ember.source_lines import warn


@composite(FUNCTION)
def frombuffer(
    buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-dim tensor that shares the memory of an object with the buffer protocol."""
    size = memoryview(buffer).nbytes
    check(size > 0, ValueError, "both buffer length and count must not be 0")
    check(
        0 <= offset < size,
        ValueError,
        f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} "
        "bytes) minus 1",
    )
    check(
        count > 0 or (size - offset) % dtype.itemsize == 0,
        ValueError,
        f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple "
        f"of element size ({dtype.itemsize})",
    )
    check(
        count < 0 or offset + count * dtype.itemsize <= size,
        ValueError,
        f"requested buffer length ({count} * {dtype.itemsize} bytes) after offset ({offset} "
        f"bytes) must not be greater than actual buffer length ({size} bytes)",
    )
    if memoryview(buffer).readonly:
        warn(
            "The given buffer is not writable, and PyTorch does not support non-writable tensors. "
            "This means you can write to the underlying (supposedly non-writable) buffer using the "
            "tensor. You may want to copy the buffer to protect its data or make it writable "
            "before converting it to a tensor."
        )
    raw = np.frombuffer(buffer, np.uint8)[offset:]
    length = count if count > 0 else len(raw) // dtype.itemsize
    values = np.ndarray((length,), dtype.numpy, raw[: length * dtype.itemsize])
    array = from_host(values, dtype)
    expose(array.storage)
    return finish(array, requires_grad)


def of_memory(obj: Any, dtype: DType | None) -> Any:
    """A tensor over the bytes of a storage, or of an object with the buffer protocol; None for
    anything else."""
    if isinstance(obj, np.generic) or type(obj) in (list, tuple, int, float):
        return None
    if isinstance(obj, UntypedStorage):
        dtype = dtype or int64
        size, left = divmod(obj.nbytes(), dtype.itemsize)
        check(left == 0, ValueError, f"{obj.nbytes()} bytes are no whole number of {dtype}")
        spec = spec_of((size,), (1,), dtype, obj.device)
        return tensor_of(Array(obj._cell, spec, 0))
    try:
        memoryview(obj).release()
    except TypeError:
        return None
    return frombuffer(obj, dtype=dtype or get_default_dtype())
