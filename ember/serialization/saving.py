"""`torch.save`: objects and the storages of their tensors, in PyTorch's file format."""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from ember.core.generator import Generator
from ember.core.storages import UntypedStorage
from ember.core.typed_storages import LEGACY_CLASSES, TypedStorage
from ember.device import device as Device
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.layout import Size
from ember.ops.formats import layout
from ember.serialization.layouts import _get_layout
from ember.serialization.legacy import write_legacy
from ember.serialization.location import location_tag
from ember.serialization.names import name_in_files
from ember.serialization.pickling import (
    _rebuild_from_type_v2,
    _rebuild_tensor_v2,
    _rebuild_tensor_v3,
)
from ember.serialization.zip_format import ALIGNMENT, ZipWriter

DEFAULT_PROTOCOL = 2
Saved = dict[str, tuple[UntypedStorage, int]]  # key -> storage, number of elements


class StorageTable:
    """The storages of one file: each is written once, under a key."""

    def __init__(self, *, legacy: bool = False):
        self.legacy = legacy
        self.storages: Saved = {}
        self._keys: dict[int, tuple[str, DType | None]] = {}

    def identify(self, storage: Any) -> tuple[Any, ...]:
        """The persistent id of a storage, which pickles hold in its place.

        RuntimeError if the memory has been saved as another dtype: a file has room for one.
        """
        dtype = None if isinstance(storage, UntypedStorage) else storage.dtype
        untyped: UntypedStorage = storage.untyped()
        cell = untyped._cell
        key, before = self._keys.setdefault(id(cell), (self._new_key(untyped), dtype))
        check(
            before is dtype or not untyped.nbytes(),
            RuntimeError,
            "Cannot save multiple tensors or storages that view the same data as different types: "
            f"{before or 'bytes'} and {dtype or 'bytes'}. Clone one of them",
        )
        name = "UntypedStorage" if dtype is None else f"{dtype.title}Storage"
        label = UntypedStorage if dtype is None else LEGACY_CLASSES[name]
        count = untyped.nbytes() if dtype is None else storage.size()
        self.storages[key] = untyped, count
        place = sys.intern(location_tag(untyped))
        identity = ("storage", label, key, place, count)
        return (*identity, None) if self.legacy else identity

    def _new_key(self, storage: UntypedStorage) -> str:
        return str(id(storage._cell)) if self.legacy else str(len(self._keys))


def _legacy_form(func: Any, args: Any) -> tuple[Any, Any]:
    """A rebuilding call as PyTorch writes it: by a typed storage for the dtypes that have one."""
    if func is _rebuild_from_type_v2:
        inner, kind, inner_args, state = args
        inner, inner_args = _legacy_form(inner, inner_args)
        return func, (inner, kind, inner_args, state)
    if func is _rebuild_tensor_v3 and f"{args[6].title}Storage" in LEGACY_CLASSES:
        typed = TypedStorage(wrap_storage=args[0], dtype=args[6])
        return _rebuild_tensor_v2, (typed, *args[1:6])
    return func, args


class _NamesOfFiles:
    """Makes a pickler written in Python use the names that files have, and persistent ids."""

    table: StorageTable
    proto: int

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write a class or function by its name in files."""
        module = getattr(obj, "__module__", None)
        own = name or getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
        if own and str(module).partition(".")[0] in ("ember", "torch"):
            self._write_global(obj, *name_in_files(str(module), own))
        else:
            super().save_global(obj, name)

    def _write_global(self: Any, obj: Any, module: str, name: str) -> None:
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    def save_reduce(self: Any, func: Any, args: Any, *rest: Any, **named: Any) -> None:
        """Write a call, tensors in the form that files have."""
        super().save_reduce(*_legacy_form(func, args), *rest, **named)

    def save_storage(self: Any, storage: Any) -> None:
        """Write the id that stands for a storage."""
        self.save_pers(self.table.identify(storage))

    def save_dtype(self: Any, dtype: DType) -> None:
        """Write a dtype: a name in `torch`."""
        self._write_global(dtype, "torch", dtype.name)

    def save_device(self: Any, device: Device) -> None:
        """Write a device: its type, and its index if it has one."""
        parts = (device.type,) if device.index is None else (device.type, device.index)
        self.save_reduce(Device, parts, obj=device)

    def save_size(self: Any, size: Size) -> None:
        """Write a shape."""
        self.save_reduce(Size, (tuple(size),), obj=size)

    def save_layout(self: Any, value: layout) -> None:
        """Write a layout."""
        self.save_reduce(_get_layout, (repr(value),), obj=value)

    def save_generator(self: Any, generator: Generator) -> None:
        """Write a generator: device, seed, offset (a GPU's) and state."""
        offset = None if generator.device.type == "cpu" else generator.get_offset()
        state = (generator.initial_seed(), offset, generator.get_state())
        self.save_reduce(Generator, (generator.device,), state, obj=generator)


def _pickler_class(pickle_module: Any) -> Any:
    """The module's pickler with names of files; one that is compiled gets persistent ids only."""
    base = pickle._Pickler if pickle_module is pickle else pickle_module.Pickler
    if not issubclass(base, pickle._Pickler):
        return _compiled_pickler(base)
    table = _NamesOfFiles
    named = type("Pickler", (table, base), {"dispatch": base.dispatch.copy()})
    named.dispatch.update(
        {
            FunctionType: table.save_global,
            UntypedStorage: table.save_storage,
            TypedStorage: table.save_storage,
            DType: table.save_dtype,
            Device: table.save_device,
            Size: table.save_size,
            layout: table.save_layout,
            Generator: table.save_generator,
        }
    )
    return named


def _compiled_pickler(base: Any) -> Any:
    class Pickler(base):
        """A pickler such as cloudpickle's, whose names cannot be changed: Ember reads its files."""

        table: StorageTable

        def persistent_id(self, obj: Any) -> Any:
            """The id of a storage; None for all else."""
            if isinstance(obj, UntypedStorage | TypedStorage):
                return self.table.identify(obj)
            return None

    return Pickler


def pickled(obj: Any, table: StorageTable, pickle_module: Any, protocol: int) -> bytes:
    """The pickle of an object, with the ids of its storages, which go to `table`."""
    stream = io.BytesIO()
    pickler = _pickler_class(pickle_module)(stream, protocol=protocol)
    pickler.table = table
    pickler.dump(obj)
    return stream.getvalue()


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object with its tensors to a path or to a file opened for writing bytes.

    PyTorch reads the file, and Ember reads PyTorch's. Tensors that share memory share it again
    when loaded, so a view brings all of its storage along: clone it first to save only its part.
    A path gets its new content when all of it is written; a failure leaves the old file.

    >>> import ember as torch, io
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.ones(2)}, file)
    >>> _ = file.seek(0)
    >>> torch.load(file)
    {'weight': tensor([1., 1.])}
    """
    writable = isinstance(f, str | os.PathLike) or hasattr(f, "write")
    check(
        writable,
        AttributeError,
        "expected 'f' to be string, path, or a file-like object with a 'write' attribute",
    )
    table = StorageTable(legacy=not _use_new_zipfile_serialization)
    data = pickled(obj, table, pickle_module, pickle_protocol)
    with _opened(f) as (file, folder):
        if table.legacy:
            write_legacy(file, data, table.storages, pickle_protocol)
        else:
            _write_archive(file, folder, data, table.storages, not _disable_byteorder_record)


def _write_archive(file: Any, folder: str, data: bytes, storages: Saved, order: bool) -> None:
    archive = ZipWriter(file, folder)
    archive.write("data.pkl", data)
    archive.write(".format_version", b"1")
    archive.write(".storage_alignment", str(ALIGNMENT).encode())
    if order:
        archive.write("byteorder", sys.byteorder.encode())
    for key, (storage, _) in storages.items():
        archive.write(f"data/{key}", storage.bytes())
    archive.write("version", b"3\n")
    archive.finish()


@contextmanager
def _opened(f: Any) -> Iterator[tuple[Any, str]]:
    """The file to write to, and the name of the folder inside the archive."""
    if not isinstance(f, str | os.PathLike):
        yield f, "archive"
        return
    path = os.path.realpath(os.fspath(f))
    folder = os.path.splitext(os.path.basename(os.fspath(f)))[0]
    parent = os.path.dirname(path)
    check(os.path.isdir(parent), RuntimeError, f"Parent directory {parent} does not exist.")
    check(folder, RuntimeError, f"invalid file name: {os.fspath(f)!r}")
    if (os.path.exists(path) and not os.path.isfile(path)) or not os.access(parent, os.W_OK):
        with open(path, "wb") as file:
            yield file, folder
        return
    draft = os.path.join(parent, f".{os.path.basename(path)}.{os.getpid()}.saving")
    try:
        with open(draft, "wb") as file:
            yield file, folder
        if os.path.exists(path):
            os.chmod(draft, os.stat(path).st_mode & 0o7777)
        os.replace(draft, path)
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise
