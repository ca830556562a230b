"""Memory of large arrays is kept when they die and given to the next ones of about their size.

Fresh memory costs a page fault for each 4 KiB that is touched first, many times the work of an
elementwise operation. So NumPy's memory functions (NEP 49) are replaced by four compiled ones that
keep blocks of 64 KiB and more in lists by size; smaller ones go to NumPy's as before. They hold a
lock of their own and are right in threads and, since a fork waits for the lock, in children.

EMBER_HOST_CACHE_MIB says how much may be kept (256 by default; 0 turns this off).
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from typing import Any

from ember.backends.cpu import native
from ember.backends.cpu.allocator_text import CLASSES, FIELDS, allocator_text

void = ctypes.c_void_p
DEFAULT_MIB = 256
SET_HANDLER, GET_HANDLER = 304, 305  # places in NumPy's table of C functions
NAME = b"mem_handler"


class _Functions(ctypes.Structure):
    _fields_ = (
        ("context", void),
        ("malloc", void),
        ("calloc", void),
        ("realloc", void),
        ("free", void),
    )


class _Handler(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("functions", _Functions),
    )


class HostMemory:
    """The kept memory of a process; `handler` is what NumPy is told."""

    def __init__(self, limit: int):
        names = ("malloc", "calloc", "realloc", "free", "release", "enter", "leave")
        found = native.functions(allocator_text(), [f"ember_{n}" for n in names])
        addresses = dict(zip(names, found, strict=True))
        self.state = (ctypes.c_int64 * (len(FIELDS) + CLASSES))()
        self.address = ctypes.addressof(self.state)
        self._write("limit", limit)
        default = _read_handler(_current()).functions
        self._write("context", default.context or 0)
        for name in names[:4]:
            self._write(name, getattr(default, name))
        self.handler = _Handler(b"ember", 1)
        self.handler.functions = _Functions(self.address, *(addresses[n] for n in names[:4]))
        hold = ctypes.PYFUNCTYPE(ctypes.c_int64, void)
        self._release, self._enter, self._leave = (hold(addresses[n]) for n in names[4:])
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (void, ctypes.c_char_p, void)
        self.capsule = new(ctypes.addressof(self.handler), NAME, None)
        os.register_at_fork(
            before=lambda: self._enter(self.address),
            after_in_parent=lambda: self._leave(self.address),
            after_in_child=lambda: self._leave(self.address),
        )

    def _write(self, name: str, value: int) -> None:
        self.state[FIELDS.index(name)] = value

    def read(self, name: str) -> int:
        """One of the figures."""
        return int(self.state[FIELDS.index(name)])

    def install(self) -> None:
        """Use it for the arrays that this thread makes from here on."""
        _numpy_function(SET_HANDLER, ctypes.py_object)(self.capsule)

    def release(self) -> int:
        """Give all that is kept back to the system; how many bytes it was."""
        return int(self._release(self.address))


_memory: list[HostMemory] = []


def _numpy_function(place: int, *arguments: Any) -> Any:
    numpy = importlib.import_module("numpy._core._multiarray_umath")
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = void, (ctypes.py_object, ctypes.c_char_p)
    table = ctypes.cast(pointer(numpy._ARRAY_API, None), ctypes.POINTER(void))
    return ctypes.PYFUNCTYPE(ctypes.py_object, *arguments)(table[place])


def _current() -> Any:
    return _numpy_function(GET_HANDLER)()


def _read_handler(capsule: Any) -> _Handler:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = void, (ctypes.py_object, ctypes.c_char_p)
    return _Handler.from_address(pointer(capsule, NAME))


def install() -> None:
    """Keep memory from here on, in the calling thread; once for a process and then free of cost.

    Nothing happens where the system is not POSIX, another program has set functions of its own, or
    EMBER_HOST_CACHE_MIB is 0.
    """
    if not _memory:
        limit = int(os.environ.get("EMBER_HOST_CACHE_MIB", DEFAULT_MIB)) << 20
        if os.name != "posix" or sys.byteorder != "little" or limit <= 0:
            return
        from numpy._core.multiarray import get_handler_name

        if get_handler_name() != "default_allocator":
            return
        memory = HostMemory(limit)
        _memory.append(memory)
        # Arrays may outlive this module, and die only as the interpreter ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
    _memory[0].install()


def empty_cache() -> int:
    """Give the kept memory of dead arrays back to the system, and say how many bytes it was.

    >>> import ember as torch
    >>> torch.backends.cpu.empty_cache() >= 0
    True
    """
    return _memory[0].release() if _memory else 0


def memory_stats() -> dict[str, int]:
    """Bytes in use and kept, the greatest use, and how many blocks were kept ones or new.

    Only blocks of 64 KiB and more count; they are a quarter larger than asked for at most.
    """
    names = ("allocated_bytes", "peak_allocated_bytes", "cached_bytes", "hits", "misses")
    fields = ("live", "peak", "cached", "hits", "misses")
    if not _memory:
        return dict.fromkeys(names, 0)
    return {name: _memory[0].read(field) for name, field in zip(names, fields, strict=True)}
