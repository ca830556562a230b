"""`PyTorchFileReader`: the records of a saved file, one at a time."""

from __future__ import annotations

import os
from typing import Any

from ember import dtypes
from ember.core.array import from_host
from ember.core.storages import UntypedStorage
from ember.core.tensor import Tensor
from ember.serialization.zip_format import ZipReader


class PyTorchFileReader:
    """The records in a file of `torch.save`: a path, or a seekable file of bytes.

    >>> import ember as torch, io
    >>> file = io.BytesIO()
    >>> torch.save(torch.arange(3.0), file)
    >>> torch.PyTorchFileReader(file).get_storage_from_record("data/0", 3, torch.float32)
    tensor([0., 1., 2.])
    """

    def __init__(self, name_or_buffer: Any):
        is_path = isinstance(name_or_buffer, (str, os.PathLike))
        # kept open, and closed with the reader
        self._own = open(name_or_buffer, "rb") if is_path else None  # noqa: SIM115
        self._zip = ZipReader(self._own or name_or_buffer)

    def __del__(self) -> None:
        if getattr(self, "_own", None) is not None:
            self._own.close()  # type: ignore[union-attr]

    def has_record(self, name: str) -> bool:
        """Whether there is a record of that name."""
        return self._zip.has(name)

    def get_all_records(self) -> list[str]:
        """The names of the records."""
        return self._zip.names()

    def get_record(self, name: str) -> bytes:
        """The bytes of a record. RuntimeError if there is none, or its checksum is wrong."""
        return self._zip.read(name)

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Tensor:
        """A record as a tensor of `numel` elements, bytes for the dtype UntypedStorage.
        RuntimeError if it has another length."""
        dtype = dtypes.uint8 if dtype is UntypedStorage else dtype
        values = self._zip.array(name, numel * dtype.itemsize)
        tensor: Tensor = object.__new__(Tensor)
        tensor._array = from_host(values.view(dtype.numpy), dtype)
        return tensor
