"""`UntypedStorage`: the memory behind tensors as users see it, a block of bytes on a device.

It is a face on a kernel `Storage`, which tensors share; the same memory always gives
the same face while anyone holds it, so a pickler's memo keeps shared memory shared.
"""

from __future__ import annotations

import gc
import mmap
import os
import weakref
from collections.abc import Iterator
from importlib import import_module
from pickle import PickleBuffer
from typing import Any

import numpy as np

from ember import dtypes
from ember.backends import base
from ember.core.array import from_host, host_copy, storage_of, to_device
from ember.core.shared_memory import SharedBlock, block_of, mapping_of
from ember.core.tensor import address
from ember.device import CPU, META
from ember.device import device as Device
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import Array, Exposed, Storage, contiguous_spec, expose

_faces: weakref.WeakValueDictionary[int, UntypedStorage] = weakref.WeakValueDictionary()


def storage_face(cell: Storage) -> UntypedStorage:
    """The `UntypedStorage` of a kernel storage."""
    found = _faces.get(id(cell))
    if found is None:
        found = object.__new__(UntypedStorage)
        found._cell = cell
        _faces[id(cell)] = found
    return found


class UntypedStorage:
    """A block of bytes on a device, shared by the tensors that view it.

    Made from a size in bytes, or from a list of byte values.

    >>> import ember as torch
    >>> a = torch.tensor([1, 2], dtype=torch.uint8)
    >>> a.untyped_storage().tolist(), a[1:].untyped_storage() is a.untyped_storage()
    ([1, 2], True)
    """

    __slots__ = ("__weakref__", "_cell")
    _cell: Storage
    is_sparse = False

    def __new__(cls, *args: Any, device: Any = None) -> UntypedStorage:
        check(len(args) <= 1, TypeError, "UntypedStorage() takes a size, or a sequence of bytes")
        content = args[0] if args else 0
        place = base.resolve(Device(device)) if device is not None else CPU
        if isinstance(content, int):
            check(content >= 0, RuntimeError, f"a storage cannot have {content} bytes")
            return storage_face(storage_of(content, place))
        values = np.array(list(content), np.uint8)
        made = storage_face(storage_of(values.size, place))
        if values.size and place is not META:
            base.memory_of(place).write(made._cell.buffer, values)
        return made

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first `nbytes` of a file (all of it for 0) as memory, read when they are used.

        With `shared`, writes go to the file, which is made, or grows to `nbytes`, if need be.
        """
        if shared and not os.path.exists(filename):
            open(filename, "xb").close()
        with open(filename, "r+b" if shared else "rb") as file:
            length = os.fstat(file.fileno()).st_size
            if shared and length < nbytes:
                file.truncate(nbytes)
            check(
                shared or nbytes <= length,
                RuntimeError,
                f"{filename} has {length} bytes, {nbytes} were asked for",
            )
            if not (nbytes or length):
                return cls(0)
            access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
            mapping = mmap.mmap(file.fileno(), nbytes or length, access=access)
        return storage_face(Exposed(np.frombuffer(mapping, np.uint8), CPU))

    @property
    def device(self) -> Device:
        """Where the bytes are."""
        return self._cell.device

    @property
    def is_cuda(self) -> bool:
        """Whether the bytes are on a GPU."""
        return self._cell.device.type == "cuda"

    def get_device(self) -> int:
        """The index of the GPU; -1 on the CPU."""
        index = self._cell.device.index
        return -1 if index is None else index

    def nbytes(self) -> int:
        """The size in bytes."""
        return self._cell.nbytes

    size = __len__ = nbytes

    def element_size(self) -> int:
        """1: the elements are bytes."""
        return 1

    def data_ptr(self) -> int:
        """The address of the first byte; 0 on `meta` and for no bytes."""
        return address(self._array()) if self.nbytes() and self.device is not META else 0

    def untyped(self) -> UntypedStorage:
        """Itself."""
        return self

    def type(self) -> str:
        """The name of the class."""
        place = "" if self.device is CPU else f".{self.device.type}"
        return f"torch{place or '.storage'}.UntypedStorage"

    def _array(self) -> Array:
        cell = self._cell
        return Array(cell, contiguous_spec((cell.nbytes,), dtypes.uint8, cell.device))

    def bytes(self) -> np.ndarray[Any, Any]:
        """The bytes on the host: the memory itself on the CPU, a copy from a GPU.

        NotImplementedError on `meta`.
        """
        check(self.device is not META, NotImplementedError, "Not available for 'meta' device type")
        if self.device is CPU:
            if not self.nbytes():
                return np.empty(0, np.uint8)
            values = self._cell.bytes()
            expose(self._cell)
            return values
        return host_copy(self._array())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.bytes(), dtype, copy=copy)

    def byteswap(self, dtype: DType) -> None:
        """Reverse the order of the bytes in each element of a dtype, in place."""
        values = self.bytes()
        parts = dtype.to_real().itemsize  # a complex number is two
        values[:] = values.reshape(-1, parts)[:, ::-1].reshape(-1)
        self._cell.version += 1

    def tolist(self) -> list[int]:
        """The bytes as integers."""
        values: list[int] = self.bytes().tolist()
        return values

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            return int(self.bytes()[self._checked(index)])
        start, stop, step = index.indices(self.nbytes())
        check(
            step == 1,
            RuntimeError,
            f"Trying to slice with a step of {step}, but only a step of 1 is supported",
        )
        part = self.bytes()[start : max(start, stop)]
        if self.device is CPU:
            return storage_face(Storage(part, CPU))
        return storage_face(to_device(from_host(part), self.device).storage)

    def __setitem__(self, index: Any, value: int) -> None:
        target = self.bytes()
        if isinstance(index, slice):
            target[index] = value % 256
        else:
            target[self._checked(index)] = value % 256
        self._cell.version += 1
        if self.device is not CPU:
            base.copy_bytes(Storage(target, CPU), self._cell)

    def _checked(self, index: int) -> int:
        size = self.nbytes()
        check(
            -size <= index < size,
            IndexError,
            f"index {index} out of range for storage of size {size}",
        )
        return int(index)

    def clone(self) -> UntypedStorage:
        """A copy on the same device."""
        return self._moved(self.device)

    def cpu(self) -> UntypedStorage:
        """Itself on the CPU, else a copy there."""
        return self if self.device is CPU else self._moved(CPU)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """Itself if it is on that GPU, else a copy there; the current GPU without a device."""
        place = Device("cuda", device) if isinstance(device, int) else Device(device or "cuda")
        return self.to(device=place, non_blocking=non_blocking)

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """Itself if it is on that device, else a copy there."""
        place = base.resolve(Device(device))
        return self if place is self.device else self._moved(place, blocking=not non_blocking)

    def _moved(self, place: Device, *, blocking: bool = True) -> UntypedStorage:
        if place is META or self.device is META or not self.nbytes():
            return storage_face(storage_of(self.nbytes(), place))
        return storage_face(to_device(self._array(), place, blocking=blocking).storage)

    def copy_(self, source: Any, non_blocking: bool | None = None) -> UntypedStorage:
        """Take over the bytes of another storage of the same size, from any device."""
        other = source.untyped()
        check(
            self.nbytes() == other.nbytes(),
            RuntimeError,
            f"size does not match, self was {self.nbytes()} bytes but src was {other.nbytes()} "
            "bytes",
        )
        if self.nbytes():
            base.copy_bytes(other._cell, self._cell, blocking=not non_blocking)
        self._cell.version += 1
        return self

    def fill_(self, value: int) -> UntypedStorage:
        """Set every byte."""
        if self.device is not META and self.nbytes():
            values = np.full(self.nbytes(), value % 256, np.uint8)
            base.memory_of(self.device).write(self._cell.buffer, values)
        self._cell.version += 1
        return self

    def resize_(self, nbytes: int) -> UntypedStorage:
        """Change the size; what fits is kept, what is new has any content. Views follow."""
        cell = self._cell
        check(nbytes >= 0, RuntimeError, f"a storage cannot have {nbytes} bytes")
        if nbytes == cell.nbytes:
            return self
        if cell.device is META:
            cell.buffer = nbytes
            return self
        memory = base.memory_of(cell.device)
        kept = np.array(memory.read(cell.buffer)[:nbytes])
        fresh = storage_of(nbytes, cell.device)
        whole = np.zeros(nbytes, np.uint8)
        whole[: kept.size] = kept
        memory.write(fresh.buffer, whole)
        self._exchange(fresh.buffer)
        if hasattr(fresh, "lease"):
            cell.lease = fresh.lease
        return self

    def _exchange(self, buffer: Any, holder: Array | None = None) -> None:
        """Put other memory under the tensors: ndarrays of the old memory are forgotten.

        `holder` is the only array over the storage where the caller knows so: else all are found,
        which takes milliseconds.
        """
        self._cell.buffer = buffer
        for found in [holder] if holder else gc.get_referrers(self._cell):
            if isinstance(found, Array):
                found.nd = None

    def resizable(self) -> bool:
        """True: every storage can change its size."""
        return True

    def share_memory_(self) -> UntypedStorage:
        """Move the bytes to memory that other processes can map, and return itself."""
        if self.device is CPU and self.nbytes() and not self.is_shared():
            self.shared_block()
            # Python's own queues must know how such memory is sent, also in programs that use no
            # other part of it.
            import_module("ember.multiprocessing.reductions").init_reductions()
        return self

    def shared_block(self, holder: Array | None = None) -> SharedBlock:
        """The memory block of a storage that is to be shared, moved there if need be.

        `holder` is the only array over the storage where the caller knows so.

        NotImplementedError for memory that the host cannot see.
        """
        buffer = self._cell.buffer
        check(
            isinstance(buffer, np.ndarray) and buffer.nbytes > 0,
            NotImplementedError,
            f"memory on {self.device} cannot be shared between processes: send tensor.cpu()",
        )
        block = block_of(buffer)
        expose(self._cell)
        if block is None:
            block = SharedBlock.create(buffer.nbytes)
            shared = block.array()
            shared[:] = self._cell.bytes()
            self._exchange(shared, holder)
        return block

    def is_shared(self) -> bool:
        """Whether other processes can map the bytes (those on a GPU they always can)."""
        return self.is_cuda or mapping_of(self._cell.buffer) is not None

    def is_pinned(self, device: Any = "cuda") -> bool:
        """Whether the bytes are page-locked."""
        return bool(getattr(self._cell, "pinned", False))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other._cell is self._cell

    def __hash__(self) -> int:
        return id(self._cell)

    def __repr__(self) -> str:
        what = f"[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"
        shown = "..." if self.device is META else "\n ".join(map(str, ("", *self)))[1:]
        return f"{shown}\n{what}"

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[Any, Any]) -> UntypedStorage:
        known: dict[int, Any] = memo.setdefault("storages", {})
        if id(self._cell) not in known:
            known[id(self._cell)] = self.clone(), self  # the original stays alive with its id
        copied: UntypedStorage = known[id(self._cell)][0]
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.device is META:
            return _restored_meta, (self.nbytes(),)
        content: Any = self.bytes()
        content = PickleBuffer(content) if protocol >= 5 else content.tobytes()
        return _restored, (content, str(self.device))


def _restored_meta(nbytes: int) -> UntypedStorage:
    return storage_face(Storage(nbytes, META))


def _restored(content: Any, device: str) -> UntypedStorage:
    """The storage of a pickle: over the pickle's own buffer where that can be written to."""
    view = memoryview(content)
    values = np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)
    if view.readonly:
        values = values.copy()
    face = storage_face(Storage(values, CPU))
    return face if device == "cpu" else face.to(device=device)
