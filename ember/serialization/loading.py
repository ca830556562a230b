"""`torch.load`: files of `torch.save`, of all formats."""

from __future__ import annotations

import io
import mmap as memory_mapping
import os
import pickle
from collections.abc import Callable
from typing import Any

from ember.core.storages import UntypedStorage
from ember.device import META
from ember.device import device as Device
from ember.errors import check
from ember.serialization import legacy
from ember.serialization.allowed_globals import allowed_global, shown_name
from ember.serialization.location import restorer_of
from ember.serialization.names import find_global
from ember.serialization.weights_unpickler import OLD_MODULES, load_weights
from ember.serialization.zip_format import ZipReader

Unpickle = Callable[..., Any]


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """The object in a file of `torch.save`, Ember's or PyTorch's: a path, or a seekable file.

    Tensors return to the device that they were saved from; `map_location` sends them elsewhere: a
    device, a dict of places, or a function (storage, place) -> storage or None. With
    `weights_only`, the default, a file can hold only tensors and plain data, and nothing in it is
    run; UnpicklingError names what it refuses, and plain pickles. `weights_only=False` runs what
    the file says: only for files that you trust. `mmap=True` maps the file instead of reading it.
    RuntimeError for broken files, and for a GPU that is not there.

    >>> import ember as torch, io
    >>> file = io.BytesIO()
    >>> torch.save([torch.arange(3), "three"], file)
    >>> _ = file.seek(0)
    >>> torch.load(file, map_location="cpu")
    [tensor([0, 1, 2]), 'three']
    """
    if weights_only is None:
        weights_only = pickle_module is None
    check(
        not weights_only or pickle_module is None,
        RuntimeError,
        "Can not safely load weights when explicit pickle_module is specified",
    )
    unpickle = load_weights if weights_only else _trusting(pickle_module, pickle_load_args)
    is_path = isinstance(f, str | os.PathLike)
    check(
        is_path or not mmap, ValueError, "f must be a file path in order to use the mmap argument"
    )
    if not is_path:
        _check_file(f)
        return _read(f, map_location, unpickle, weights_only=weights_only)
    with open(f, "rb") as file:
        return _read(file, map_location, unpickle, weights_only=weights_only, mmap=bool(mmap))


def _check_file(f: Any) -> None:
    for name in ("read", "readline", "seek", "tell"):
        check(
            hasattr(f, name),
            AttributeError,
            f"'{type(f).__name__}' object has no attribute '{name}'. You can only torch.load from "
            "a file that is seekable. Please pre-load the data into a buffer like io.BytesIO and "
            "try to load from it instead.",
        )
    check(
        isinstance(f.read(0), bytes),
        TypeError,
        "torch.load needs a file opened for reading bytes: open(path, 'rb'), or io.BytesIO",
    )


def _read(
    file: Any, map_location: Any, unpickle: Unpickle, *, weights_only: bool, mmap: bool = False
) -> Any:
    here = file.tell()
    head = file.read(4)
    file.seek(here)
    check(head, EOFError, "Ran out of input: the file is empty, or at its end (then seek(0) first)")
    is_zip = head == b"PK\x03\x04"
    restore = restorer_of(map_location)
    if is_zip:
        return _read_archive(_from_here(file), unpickle, restore, _is_meta(map_location), mmap)
    check(
        not mmap,
        RuntimeError,
        "mmap can only be used with files saved with "
        "`torch.save(_use_new_zipfile_serialization=True), please torch.save your checkpoint with "
        "this option in order to use mmap.",
    )
    if legacy.is_tar(file):
        check(
            not weights_only,
            RuntimeError,
            "Cannot use ``weights_only=True`` with files saved in the legacy .tar format. "
            "Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but "
            "it can result in arbitrary code execution. Do it only if you got the file from a "
            "trusted source.",
        )
        return legacy.read_tar(file, unpickle, restore)
    try:
        return legacy.read_legacy(file, unpickle, restore)
    except legacy.ForeignPickle as error:
        if not weights_only:
            raise
        raise legacy.ForeignPickle(f"Weights only load failed. {error}") from None


def _from_here(file: Any) -> Any:
    """The file; what follows in it, if it is not at its beginning."""
    return file if file.tell() == 0 else io.BytesIO(file.read())


def _is_meta(map_location: Any) -> bool:
    named = isinstance(map_location, str | Device)
    return named and str(map_location).partition(":")[0] == META.type


def _read_archive(
    file: Any, unpickle: Unpickle, restore: Callable[[Any, str], Any], meta: bool, mmap: bool
) -> Any:
    mapping = None
    if mmap:
        mapping = memory_mapping.mmap(file.fileno(), 0, access=memory_mapping.ACCESS_COPY)
    archive = ZipReader(file, mapping)
    foreign = archive.is_foreign_order()
    known: dict[str, UntypedStorage] = {}

    def persistent_load(identity: Any) -> Any:
        check(
            isinstance(identity, tuple) and len(identity) == 5 and identity[0] == "storage",
            RuntimeError,
            lambda: f"Unknown typename for persistent_load, expected 'storage' but got {identity}",
        )
        label, key, location, count = identity[1:]
        dtype = legacy.dtype_of_label(label)
        if key not in known:
            known[key] = new_storage(key, location, dtype, count)
        return legacy.with_dtype(known[key], dtype)

    def new_storage(key: Any, location: str, dtype: Any, count: Any) -> UntypedStorage:
        valid = isinstance(key, str) and isinstance(count, int) and count >= 0
        check(valid, RuntimeError, f"a storage has the key {key!r} and {count!r} elements")
        nbytes = count * (1 if dtype is None else dtype.itemsize)
        if meta:
            return UntypedStorage(nbytes, device=META)
        values = archive.array(f"data/{key}", nbytes)
        if foreign and dtype is not None:
            values = values.view(dtype.numpy).byteswap().view("uint8")
        storage = legacy.new_storage(values)
        return legacy.untyped_result(restore(storage, location))

    return unpickle(io.BytesIO(archive.read("data.pkl")), persistent_load)


def _trusting(pickle_module: Any, arguments: dict[str, Any]) -> Unpickle:
    """An unpickler that does whatever the file says, by PyTorch's names for things."""
    base: Any = (pickle_module or pickle).Unpickler

    class Unpickler(base):
        """Finds PyTorch's classes and functions here."""

        def find_class(self, module: str, name: str) -> Any:
            """What a name in the file means."""
            if module == "torch" or module.startswith("torch."):
                return find_global(module, name)
            return super().find_class(module, name)

    def unpickle(file: Any, persistent_load: Callable[[Any], Any] | None) -> Any:
        unpickler = Unpickler(file, **{"encoding": "utf-8", **arguments})
        if persistent_load is not None:
            unpickler.persistent_load = persistent_load
        return unpickler.load()

    return unpickle


def _load_from_bytes(content: bytes) -> Any:
    """What PyTorch's own pickles of storages call."""
    return load(io.BytesIO(content), weights_only=False)


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The names in a file that `weights_only=True` refuses now; nothing in the file is run.

    >>> import ember as torch, io, fractions
    >>> file = io.BytesIO()
    >>> torch.save(fractions.Fraction(1, 2), file)
    >>> _ = file.seek(0)
    >>> torch.serialization.get_unsafe_globals_in_checkpoint(file)
    ['fractions.Fraction']
    """
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            return _unsafe_globals(ZipReader(file).read("data.pkl"))
    return _unsafe_globals(ZipReader(f).read("data.pkl"))


def _unsafe_globals(data: bytes) -> list[str]:
    import pickletools

    found: dict[str, None] = {}
    texts: list[str] = []
    for opcode, argument, _ in pickletools.genops(data):
        if isinstance(argument, str) and opcode.name != "GLOBAL":
            texts.append(argument)
        if opcode.name == "GLOBAL":
            module, name = str(argument).split(" ", 1)
        elif opcode.name == "STACK_GLOBAL" and len(texts) > 1:
            module, name = texts[-2:]
        else:
            continue
        module = OLD_MODULES.get(module, module)
        if allowed_global(module, name) is None:
            found[shown_name(f"{module}.{name}")] = None
    return list(found)
