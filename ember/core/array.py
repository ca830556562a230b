"""Arrays on devices: making them, copying them, moving them. `Array` itself is in
kernel/array.py."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ember.backends import base
from ember.backends.cpu import backend as _cpu  # noqa: F401  registers the CPU
from ember.backends.cpu.errstate import enter, leave
from ember.backends.cpu.kernels import converted
from ember.core import levels
from ember.core.levels import LevelArray
from ember.core.modes import SPECIAL
from ember.core.slot import executor_slot
from ember.device import CPU, META
from ember.device import device as Device
from ember.dtypes import dtype as DType
from ember.dtypes import from_numpy_dtype
from ember.errors import check
from ember.kernel.array import Array, Spec, Storage, contiguous_spec, spec_of, wrap
from ember.layout import Shape, contiguous_strides, extent
from ember.source_lines import user_line

__all__ = ["Array", "Spec", "Storage", "contiguous_spec", "spec_of", "wrap"]

# where what is on a device was moved there, for errors; only programs with GPUs write it
moved_at: weakref.WeakKeyDictionary[Storage, tuple[str, int]] = weakref.WeakKeyDictionary()


def storage_of(nbytes: int, device: Device) -> Storage:
    """A new storage of `nbytes` on a resolved device; OutOfMemoryError if there is no room."""
    if device is META:
        storage = Storage(nbytes, META)
        if executor_slot[0] is not None and getattr(executor_slot[0], "sees_meta", False):
            executor_slot[0].made(storage)
        return storage
    memory = base.memory_of(device)
    if executor_slot[0] is not None:
        executor_slot[0].will_take(nbytes, device)
    storage = Storage(memory.allocate(nbytes), device)
    memory.adopt(storage)
    if executor_slot[0] is not None:
        executor_slot[0].made(storage)
    return storage


def empty(spec: Spec) -> Array:
    """An uninitialised array of a dense spec."""
    return Array(storage_of(spec.nbytes, spec.device), spec)


def empty_pinned(spec: Spec) -> Array:
    """An uninitialised array of the host, in page-locked memory where there is a real GPU."""
    buffer = base.page_locked(spec.nbytes)
    array = empty(spec) if buffer is None else Array(Storage(buffer, CPU), spec)
    array.storage.pinned = True
    return array


def full(spec: Spec, value: Any) -> Array:
    """An array with every element `value`."""
    array = empty(spec)
    if spec.device is not META:
        fill(array, value)
    return array


def fill(array: Array, value: Any) -> None:
    """Set every element; numbers are cast as C would."""
    if array.spec.device is META:
        return
    if SPECIAL[0] and type(array) is LevelArray:
        array.fill(value)
    elif executor_slot[0] is None:
        _fill(array, value)
    else:
        executor_slot[0].fill(array, value, _fill)


def _fill(array: Array, value: Any) -> None:
    kernels = getattr(array.storage.buffer, "kernels", None)
    if kernels is not None:
        kernels.fill(array, value)
        return
    nd = array.host()
    try:
        nd.fill(value)
    except (OverflowError, TypeError):
        np.copyto(nd, np.asarray(value), casting="unsafe")


def check_strides(nd: np.ndarray[Any, Any]) -> None:
    """ValueError for an ndarray that runs backwards."""
    check(
        all(s >= 0 for s in nd.strides) or nd.size == 0,
        ValueError,
        "At least one stride in the given numpy array is negative, and tensors with negative "
        "strides are not currently supported. (You can probably work around this by making a copy "
        "of your array with array.copy().)",
    )


def from_host(nd: np.ndarray[Any, Any], dtype: DType | None = None) -> Array:
    """A CPU array over the memory of an ndarray, which it keeps alive. ValueError for negative or
    odd strides."""
    dtype = dtype or from_numpy_dtype(nd.dtype)
    itemsize = nd.itemsize
    check_strides(nd)
    if nd.flags.c_contiguous:
        return constant(Array(Storage(nd, CPU), contiguous_spec(nd.shape, dtype, CPU), 0, nd))
    check(
        all(s % itemsize == 0 for s in nd.strides),
        ValueError,
        "given numpy array strides not a multiple of the element byte size. Copy the numpy array "
        "to reallocate the memory.",
    )
    strides = tuple(s // itemsize for s in nd.strides)
    length = extent(nd.shape, strides)
    flat = np.lib.stride_tricks.as_strided(nd, (length,), (itemsize,), writeable=nd.flags.writeable)
    return constant(Array(Storage(flat, CPU), spec_of(nd.shape, strides, dtype, CPU), 0, nd))


def constant(array: Array) -> Array:
    """Say that an array has been made of Python's or NumPy's values."""
    if executor_slot[0] is not None:
        executor_slot[0].constant(array.storage)
    return array


def host_copy(array: Array, *, blocking: bool = True, fresh: bool = True) -> np.ndarray[Any, Any]:
    """A fresh contiguous ndarray with the elements: a counted copy if they live on a GPU.

    With fresh=False the elements of a CPU array are shown where they are.
    """
    check(
        array.spec.device is not META,
        NotImplementedError,
        "Cannot copy out of meta tensor; no data! A meta tensor has a shape but no elements; make "
        "it on a real device, or use to_empty() for a module",
    )
    if SPECIAL[0] and type(array) is LevelArray and not array.batched:
        array = array.value._array
    will_read(array)
    if array.spec.device is not CPU:
        kernels = getattr(array.storage.buffer, "kernels", None)
        executor = executor_slot[0]
        if kernels is not None and (executor is None or executor.steps_aside):
            made: Array = kernels.to_host(array)  # a part is copied from where it is
            return made.host()
        array = to_device(array, CPU, blocking=blocking)
    return np.array(array.host(), order="C", copy=True) if fresh else array.host()


def will_read(array: Array) -> None:
    """Say that the program is about to look at the elements of an array."""
    if executor_slot[0] is not None:
        executor_slot[0].read(array)


def to_device(
    array: Array, device: Device, *, blocking: bool = True, pinned: bool = False
) -> Array:
    """A copy of the elements on another resolved device, dense there with the same order of
    dims."""
    if SPECIAL[0] and type(array) is LevelArray:
        return array.moved(device)
    source = array.spec
    check(
        source.device is not META or device is META,
        NotImplementedError,
        "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
        "torch.nn.Module.to() when moving module from meta to a different device.",
    )
    packed = array if is_whole(array) else copy_of(array, contiguous_strides(source.shape))
    wanted = packed.spec.with_device(device)
    target = empty_pinned(wanted) if pinned else empty(wanted)
    if device is not META and target.spec.numel:
        if executor_slot[0] is None:
            base.copy_bytes(packed.storage, target.storage, blocking=blocking)
        else:
            now = base.copy_bytes if blocking else base.send_bytes
            executor_slot[0].transfer(packed.storage, target.storage, now)
        if source.numel > 1:  # a number goes along wherever it is
            moved_at[target.storage] = user_line()
    return target


def carried(target: Array, source: Array, *, blocking: bool = True) -> bool:
    """Whether an array was copied into one of another device as it is: whole, alike, and nobody
    records it."""
    alike = target.spec.dtype is source.spec.dtype and target.spec.shape == source.spec.shape
    executor = executor_slot[0]
    if not alike or SPECIAL[0] or not (executor is None or executor.steps_aside):
        return False
    if META in (target.spec.device, source.spec.device) or not target.spec.numel:
        return False
    if not (is_whole(target) and is_whole(source)):
        return False
    base.copy_bytes(source.storage, target.storage, blocking=blocking)
    return True


def is_whole(array: Array) -> bool:
    """Whether the array covers its storage exactly, in row-major order."""
    return array.offset == 0 and array.spec.contiguous and array.storage.nbytes == array.spec.nbytes


def copy_of(source: Array, strides: Shape, dtype: DType | None = None) -> Array:
    """A copy with its own memory on the same device, with dense `strides`, as another dtype if one
    is given."""
    if SPECIAL[0] and type(source) is LevelArray:
        return source.copied(strides, dtype)
    spec = source.spec
    target = empty(spec_of(spec.shape, strides, dtype or spec.dtype, spec.device))
    copy_into(target, source)
    return target


def copy_into(target: Array, source: Array) -> None:
    """Write `source`, broadcast and cast, into `target` on the same device."""
    if SPECIAL[0] and (type(target) is LevelArray or type(source) is LevelArray):
        levels.copy_between(target, source)
    elif target.spec.device is META or not target.spec.numel:
        return
    elif executor_slot[0] is None:
        _copy(target, source)
    else:
        executor_slot[0].copy(target, source, _copy)


def _copy(target: Array, source: Array) -> None:
    kernels = getattr(target.storage.buffer, "kernels", None)
    if kernels is not None:
        kernels.copy(target, source)
        return
    if converted(target, source):
        return
    token = enter()
    try:
        _copyto(target.host(), source.host())
    finally:
        leave(token)


def _copyto(target: Any, source: Any) -> None:
    if source.dtype.kind == "V" and source.dtype.name != "complex32" and target.dtype.kind in "iu":
        source = source.astype(np.float32)  # versions of ml_dtypes differ in what has no integer
    if target.dtype.kind in "iufV" and source.dtype.kind not in "biufV":
        source = source.astype(np.result_type(source.dtype, np.complex64)).real
    np.copyto(target, source, casting="unsafe")


levels.copy_into.append(copy_into)
