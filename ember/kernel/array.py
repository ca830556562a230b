"""`Array`: a storage seen through a layout and a dtype. All that executors and backends ever see of
a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from ember.device import device as Device
from ember.dtypes import dtype as DType
from ember.layout import Layout, Shape, contiguous_strides, is_contiguous, product


class Spec:
    """What an array is without its data: shape, strides, dtype, device. Equal specs are one object,
    so plans of ops are found by identity; a spec never holds data."""

    __slots__ = (
        "contiguous",
        "device",
        "dtype",
        "ndim",
        "numel",
        "numpy_strides",
        "shape",
        "strides",
    )

    def __init__(self, shape: Shape, strides: Shape, dtype: DType, device: Device):
        self.shape, self.strides, self.dtype, self.device = shape, strides, dtype, device
        self.numel = product(shape)
        self.ndim = len(shape)
        self.contiguous = is_contiguous(shape, strides)
        self.numpy_strides = tuple(s * dtype.itemsize for s in strides)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements, without gaps."""
        return int(self.numel * self.dtype.itemsize)

    def with_dtype(self, dtype: DType) -> Spec:
        """The same, of another dtype."""
        return spec_of(self.shape, self.strides, dtype, self.device)

    def with_device(self, device: Device) -> Spec:
        """The same, on another device."""
        return spec_of(self.shape, self.strides, self.dtype, device)

    def with_shape(self, shape: Shape) -> Spec:
        """Contiguous, with another shape."""
        return contiguous_spec(shape, self.dtype, self.device)

    def __repr__(self) -> str:
        return (
            f"Spec({list(self.shape)}, strides={list(self.strides)}, {self.dtype}, {self.device})"
        )


_specs: dict[tuple[Shape, Shape, DType, Device], Spec] = {}
# a program with ever-changing shapes must not grow without end; a new table only misses caches
_LIMIT = 200_000


def spec_of(shape: Shape, strides: Shape, dtype: DType, device: Device) -> Spec:
    """The one spec with these parts."""
    key = (shape, strides, dtype, device)
    found = _specs.get(key)
    if found is None:
        if len(_specs) > _LIMIT:
            _specs.clear()
        found = _specs[key] = Spec(tuple(map(int, shape)), tuple(map(int, strides)), dtype, device)
    return found


def contiguous_spec(shape: Shape, dtype: DType, device: Device) -> Spec:
    """The spec of a row-major array."""
    return spec_of(tuple(shape), contiguous_strides(shape), dtype, device)


class Storage:
    """One block of memory on one device, shared by the views of it; `version` counts writes.

    `buffer` is the backend's own: a dense ndarray on the CPU and on simulated GPUs, None on `meta`.
    """

    __slots__ = ("__weakref__", "buffer", "device", "lease", "pinned", "version")
    lease: Any  # set by devices that account for memory; releases it when the storage dies
    pinned: bool

    def __init__(self, buffer: Any, device: Device):
        self.buffer, self.device, self.version = buffer, device, 0

    def bytes(self) -> np.ndarray[Any, Any]:
        """The memory as a vector of bytes (host and simulated devices)."""
        buffer = self.buffer
        if buffer.dtype is not _BYTE or buffer.ndim != 1:
            buffer = self.buffer = buffer.reshape(-1).view(np.uint8)
        return buffer  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        """The size in bytes; that of a `meta` storage is what it would be."""
        return self.buffer if isinstance(self.buffer, int) else int(self.buffer.nbytes)


_BYTE = np.dtype(np.uint8)


class Exposed(Storage):
    """A storage whose memory is known outside of tensors, as an ndarray or a shared block: it may
    be read or written there at any time."""

    __slots__ = ()


def expose(storage: Storage) -> None:
    """Say that a storage's memory is known outside of tensors from now on."""
    if type(storage) is Storage:
        storage.__class__ = Exposed


_buffer: Any = Storage.__dict__["buffer"]
_lease: Any = Storage.__dict__["lease"]
settle: list[Any] = []  # what does all waiting work (capture/deferred.py)


def finish_waiting() -> None:
    """Do all waiting work, before a setting changes that it goes by."""
    for waiting in settle:
        waiting()


class Queued(Storage):
    """A storage that work reads or writes which waits in a queue: the work is done when its memory
    is asked for. The memory is not there yet if `held` is a size."""

    __slots__ = ()

    @property
    def held(self) -> Any:
        """The memory as it is, or the bytes that it will have."""
        return _buffer.__get__(self)

    @held.setter
    def held(self, value: Any) -> None:
        _buffer.__set__(self, value)

    def _settled(self) -> None:
        finish_waiting()
        if type(self) is Queued:
            raise RuntimeError("memory was asked for by the work that makes it")

    @property
    def buffer(self) -> Any:
        """The memory, once the work is done."""
        self._settled()
        return self.buffer

    @buffer.setter
    def buffer(self, value: Any) -> None:
        self._settled()
        self.buffer = value

    @property
    def lease(self) -> Any:
        """What accounts for the memory, once the work is done."""
        self._settled()
        return self.lease

    @lease.setter
    def lease(self, value: Any) -> None:
        _lease.__set__(self, value)

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        held = self.held
        return held if isinstance(held, int) else int(held.nbytes)


class Broken(Storage):
    """A storage whose work failed, or never came because other work had failed: to look at it is
    that error again. It holds its size and the error."""

    __slots__ = ()

    @property
    def buffer(self) -> Any:
        """The error."""
        raise _buffer.__get__(self)[1].with_traceback(None)

    @buffer.setter
    def buffer(self, value: Any) -> None:
        self.__class__ = Storage  # type: ignore[assignment]
        self.buffer = value

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return int(_buffer.__get__(self)[0])


class Array:
    """storage + spec + offset (in elements). Cheap to make; never holds gradients."""

    __slots__ = ("nd", "offset", "spec", "storage")
    kind = "strided"  # of other layouts: core/sparse_array.py

    def __init__(self, storage: Storage, spec: Spec, offset: int = 0, nd: Any = None):
        self.storage, self.spec, self.offset, self.nd = storage, spec, offset, nd

    @property
    def shape(self) -> Shape:
        """The sizes of the dims."""
        return self.spec.shape

    @property
    def strides(self) -> Shape:
        """The steps between neighbours of each dim, in elements."""
        return self.spec.strides

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.spec.dtype

    @property
    def device(self) -> Device:
        """Where the storage is."""
        return self.spec.device

    @property
    def numel(self) -> int:
        """The number of elements."""
        return self.spec.numel

    @property
    def layout(self) -> Layout:
        """Shape, strides and offset."""
        return Layout(self.spec.shape, self.spec.strides, self.offset)

    def host(self) -> np.ndarray[Any, Any]:
        """The elements as an ndarray that shares the storage's memory: what host backends compute
        with."""
        found = self.nd
        if found is None:
            spec = self.spec
            if len(spec.shape) > 64:
                raise RuntimeError("only tensors with up to 64 dims are supported, as in NumPy")
            if spec.numel == 0:
                found = np.empty(spec.shape, spec.dtype.numpy)
            else:
                found = np.ndarray(
                    spec.shape,
                    spec.dtype.numpy,
                    self.storage.bytes(),
                    self.offset * spec.dtype.itemsize,
                    spec.numpy_strides,
                )
            self.nd = found
        elif type(self.storage) is Queued:
            self.storage._settled()
        return found  # type: ignore[no-any-return]

    def with_layout(self, layout: Layout) -> Array:
        """Another view of the same storage."""
        spec = self.spec
        return Array(
            self.storage,
            spec_of(layout.shape, layout.strides, spec.dtype, spec.device),
            layout.offset,
        )


def wrap(nd: np.ndarray[Any, Any], device: Device, dtype: DType) -> Array:
    """A fresh C-contiguous ndarray as an array of its own storage."""
    return Array(Storage(nd, device), contiguous_spec(nd.shape, dtype, device), 0, nd)
