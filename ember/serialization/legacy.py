"""The formats before archives: a row of pickles with raw storages after them, and tar files."""

from __future__ import annotations

import io
import pickle
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ember.core.array import from_host
from ember.core.storages import UntypedStorage, storage_face
from ember.core.typed_storages import TypedStorage, view_of
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.layout import Layout
from ember.serialization.zip_format import fill

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
_COUNT = struct.Struct("<q")
Unpickle = Callable[..., Any]  # (file, persistent_load) -> object


# writing


def write_legacy(file: Any, data: bytes, storages: dict[str, tuple[Any, int]], proto: int) -> None:
    """Write the pickles of the format before archives, then each storage after its length."""
    facts = {
        "protocol_version": PROTOCOL_VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for head in (MAGIC_NUMBER, PROTOCOL_VERSION, facts):
        file.write(pickle.dumps(head, protocol=proto))
    file.write(data)
    keys = sorted(storages)
    file.write(pickle.dumps(keys, protocol=proto))
    for key in keys:
        storage, count = storages[key]
        file.write(_COUNT.pack(count))
        file.write(memoryview(storage.bytes()))


# reading


def dtype_of_label(label: Any) -> DType | None:
    """The dtype of a storage class, or of its label, in an id; None for bytes."""
    if label is UntypedStorage:
        return None
    dtype = getattr(label, "dtype", None)
    known = isinstance(dtype, DType) or getattr(label, "name", "") == "UntypedStorage"
    check(known, RuntimeError, f"{label!r} is no storage class that Ember knows")
    return dtype


def new_storage(values: np.ndarray[Any, Any]) -> UntypedStorage:
    """A CPU storage over an array of bytes."""
    return storage_face(from_host(values).storage)


def with_dtype(storage: UntypedStorage, dtype: DType | None) -> Any:
    """The storage as what a file says it is."""
    return TypedStorage(wrap_storage=storage, dtype=dtype) if dtype is not None else storage


def untyped_result(storage: Any) -> UntypedStorage:
    """What a user's `map_location` function gave, as bytes. TypeError if it is no storage."""
    check(
        isinstance(storage, UntypedStorage | TypedStorage),
        TypeError,
        f"map_location has to return a storage, or None, but it returned {type(storage)}",
    )
    return storage.untyped()


def remaining(file: Any) -> int:
    """The bytes between here and the end of a file."""
    here = file.tell()
    end: int = file.seek(0, io.SEEK_END)
    file.seek(here)
    return end - here


class _Roots:
    """The storages of a legacy file: made when the pickle names them, filled after it."""

    def __init__(self, file: Any, restore: Callable[[Any, str], Any]):
        self._room = remaining(file)
        self._restore = restore
        self.made: dict[str, tuple[UntypedStorage, DType | None, int]] = {}
        self._views: dict[str, UntypedStorage] = {}

    def persistent_load(self, identity: Any) -> Any:
        """The storage, or the class of a module saved with its source, that an id names."""
        if identity[0] == "module":
            return identity[1]
        check(
            identity[0] == "storage" and len(identity) == 6,
            RuntimeError,
            f"Unknown saved id type: {identity[0]!r}",
        )
        label, key, location, count, view = identity[1:]
        dtype = dtype_of_label(label)
        itemsize = 1 if dtype is None else dtype.itemsize
        if key not in self.made:
            self.made[key] = self._new(count, itemsize, location), dtype, count
        storage = self.made[key][0]
        if view is not None:
            view_key, offset, size = view
            part = storage[offset * itemsize : (offset + size) * itemsize]
            storage = self._views.setdefault(view_key, part)
        return with_dtype(storage, dtype)

    def _new(self, count: Any, itemsize: int, location: str) -> UntypedStorage:
        fits = isinstance(count, int) and 0 <= count * itemsize <= self._room
        check(
            fits,
            RuntimeError,
            f"a storage of {count} elements of {itemsize} bytes is not in this file, which has "
            f"{self._room} bytes left. The file might be corrupted.",
        )
        self._room -= count * itemsize
        fresh = new_storage(np.zeros(count * itemsize, np.uint8))
        return untyped_result(self._restore(fresh, location))

    def fill(self, file: Any, keys: Any, foreign: bool) -> None:
        """Read the storages, which stand in the order of `keys`."""
        for key in keys:
            check(key in self.made, RuntimeError, "the file has a storage that no tensor uses")
            storage, dtype, count = self.made[key]
            values = read_storage(file, dtype, count, foreign)
            storage.copy_(new_storage(values))


def read_storage(
    file: Any, dtype: DType | None, count: int | None, foreign: bool = False
) -> np.ndarray[Any, Any]:
    """A length and as many elements, as bytes; the length is checked against the file's."""
    (found,) = _COUNT.unpack(_exactly(file, _COUNT.size))
    nbytes = found * (1 if dtype is None else dtype.itemsize)
    agrees = count is None or found == count
    check(
        agrees and 0 <= nbytes,
        RuntimeError,
        f"a storage says that it has {found} elements, and its tensors {count}. The file might be "
        "corrupted.",
    )
    missing = nbytes - remaining(file)
    check(
        missing <= 0,
        RuntimeError,
        f"unexpected EOF, expected {missing} more bytes. The file might be corrupted.",
    )
    values = np.empty(nbytes, np.uint8)
    fill(file, values)
    if foreign and dtype is not None:
        values.view(dtype.numpy).byteswap(inplace=True)
    return values


def _exactly(file: Any, count: int) -> bytes:
    data: bytes = file.read(count)
    check(len(data) == count, EOFError, "Ran out of input: the file is cut off")
    return data


class ForeignPickle(pickle.UnpicklingError, RuntimeError):
    """A pickle that torch.save did not write: PyTorch raises one or the other, by its protocol."""


def read_legacy(file: Any, unpickle: Unpickle, restore: Callable[[Any, str], Any]) -> Any:
    """The object in a file of the format before archives.

    ForeignPickle for other pickles, RuntimeError for broken files, EOFError for a file that is cut
    off.
    """
    magic = unpickle(file, None)
    check(
        isinstance(magic, int) and magic == MAGIC_NUMBER,
        ForeignPickle,
        f"Invalid magic number; corrupt file? It begins with a pickled {type(magic).__name__}, as "
        "pickle.dump writes it, not torch.save: read it with pickle.load, which runs what the file "
        "says, if you trust its source",
    )
    version = unpickle(file, None)
    check(version == PROTOCOL_VERSION, RuntimeError, f"Invalid protocol version: {version}")
    facts = unpickle(file, None)
    little = facts.get("little_endian", True) if isinstance(facts, dict) else True
    roots = _Roots(file, restore)
    result = unpickle(file, roots.persistent_load)
    keys = unpickle(file, None)
    check(isinstance(keys, list), RuntimeError, "the list of storages is broken")
    roots.fill(file, keys, little != (sys.byteorder == "little"))
    return result


# tar files, the first format of all


def is_tar(file: Any) -> bool:
    """Whether the file from here on is a tar archive."""
    here = file.tell()
    head = file.read(262)
    file.seek(here)
    return len(head) == 262 and head[257:262] == b"ustar"


def read_tar(file: Any, unpickle: Unpickle, restore: Callable[[Any, str], Any]) -> Any:
    """The object in a tar file: members `storages`, `tensors` and `pickle`."""
    import tarfile

    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            parts = [archive.extractfile(name) for name in ("storages", "tensors", "pickle")]
            storages = _tar_storages(parts[0], unpickle, restore)
            known = _tar_tensors(parts[1], unpickle, storages)
            return unpickle(parts[2], lambda identity: _of_tar(known, identity))
    except (tarfile.TarError, KeyError) as error:
        raise RuntimeError(f"this tar file is not one of torch.save, or broken: {error}") from error


def _of_tar(known: dict[int, Any], identity: Any) -> Any:
    return identity[0] if isinstance(identity, tuple) else known[int(identity)]


def _tar_storages(file: Any, unpickle: Unpickle, restore: Any) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for _ in range(unpickle(file, None)):
        key, location, label = unpickle(file, None)
        dtype = dtype_of_label(label)
        storage = new_storage(read_storage(file, dtype, None))
        found[key] = with_dtype(untyped_result(restore(storage, location)), dtype)
    for key, root, offset, size in unpickle(file, None):
        step = found[root].element_size()
        part = found[root].untyped()[offset * step : (offset + size) * step]
        found[key] = with_dtype(part, getattr(found[root], "dtype", None))
    return found


def _tar_tensors(file: Any, unpickle: Unpickle, storages: dict[int, Any]) -> dict[int, Any]:
    known: dict[int, Any] = dict(storages)
    for _ in range(unpickle(file, None)):
        key, storage_key, _ = unpickle(file, None)
        (ndim,) = struct.unpack("<i4x", _exactly(file, 8))
        check(0 <= ndim <= 64, RuntimeError, f"a tensor of {ndim} dims: the file is broken")
        numbers = struct.unpack(f"<{2 * ndim + 1}q", _exactly(file, 16 * ndim + 8))
        layout = Layout(numbers[:ndim], numbers[ndim : 2 * ndim], numbers[-1])
        storage = storages[storage_key]
        known[key] = view_of(storage.untyped(), storage.dtype, layout)
    return known
