"""Storages, the memory behind tensors: `torch.storage`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ember.core.modes import get_default_dtype
from ember.core.storages import UntypedStorage
from ember.core.tensor import Tensor
from ember.core.typed_storages import LEGACY_CLASSES, TypedStorage, view_of
from ember.device import CPU
from ember.device import device as Device
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.layout import Layout

globals().update(LEGACY_CLASSES)
Storage = LEGACY_CLASSES["FloatStorage"]
StorageBase = UntypedStorage  # PyTorch's base class; typed storages are none


def is_storage(obj: Any) -> bool:
    """Whether an object is a storage, typed or not.

    >>> import ember as torch
    >>> torch.is_storage(torch.ones(2).untyped_storage()), torch.is_storage(torch.ones(2))
    (True, False)
    """
    return isinstance(obj, UntypedStorage | TypedStorage)


def _load_from_bytes(content: bytes) -> Any:
    """What PyTorch's own pickles of storages call."""
    return import_module("ember.serialization.loading")._load_from_bytes(content)


def from_file(
    filename: Any,
    shared: bool = False,
    size: int = 0,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A vector of `size` elements whose memory is a file, read when it is used.

    With `shared`, writes go to the file, which is made, or grows, if need be; else they stay in
    memory. RuntimeError for a file that is too short, or another device than the CPU.

    >>> import ember as torch, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
    >>> _ = torch.from_file(path, shared=True, size=3, dtype=torch.int32).copy_(torch.arange(3))
    >>> torch.from_file(path, size=2, dtype=torch.int32)
    tensor([0, 1], dtype=torch.int32)
    """
    dtype = dtype or get_default_dtype()
    check(
        (device is None or Device(device) is CPU) and not pin_memory,
        RuntimeError,
        "only CPU tensors that are not pinned can be mapped to files",
    )
    nbytes = size * dtype.itemsize
    memory = UntypedStorage.from_file(filename, shared, nbytes) if size else UntypedStorage(0)
    tensor = view_of(memory, dtype, Layout((size,), (1,)))
    return tensor.requires_grad_(requires_grad)  # type: ignore[no-any-return]


__all__ = ["Storage", "TypedStorage", "UntypedStorage", "from_file", "is_storage", *LEGACY_CLASSES]
