"""Memory that several processes map: a file without a name, which lives in memory only.

Nothing has a name, so nothing is left behind, however a process ends: the memory is freed with the
last descriptor and the last mapping.
"""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np


class SharedBlock(mmap.mmap):
    """A mapping of such a file; `descriptor` is what other processes are sent to map it too."""

    descriptor: int

    @classmethod
    def create(cls, nbytes: int) -> SharedBlock:
        """New memory. OSError when the process has too many files open."""
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("tensor", os.MFD_CLOEXEC)
        else:  # a system without it: a file that is unlinked at once
            from tempfile import TemporaryFile

            with TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        try:
            os.ftruncate(descriptor, nbytes)
            return cls.attach(descriptor, nbytes)
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def attach(cls, descriptor: int, nbytes: int) -> SharedBlock:
        """The memory behind a descriptor, which the block closes in the end."""
        block = cls(descriptor, nbytes)
        block.descriptor = descriptor
        return block

    def __del__(self) -> None:
        descriptor, self.descriptor = getattr(self, "descriptor", -1), -1
        if descriptor >= 0:
            os.close(descriptor)

    def array(self) -> np.ndarray[Any, Any]:
        """The bytes."""
        return np.frombuffer(self, np.uint8)


def mapping_of(buffer: Any) -> mmap.mmap | None:
    """The mapping that an array lies in; None for memory of the process's own."""
    while isinstance(buffer, np.ndarray):
        buffer = buffer.base
    found = getattr(buffer, "obj", buffer)
    return found if isinstance(found, mmap.mmap) else None


def block_of(buffer: Any) -> SharedBlock | None:
    """The block that an array covers exactly."""
    found = mapping_of(buffer)
    whole = isinstance(found, SharedBlock) and len(found) == buffer.nbytes
    return found if whole else None  # type: ignore[return-value]
