"""The container of saved files: a ZIP archive of uncompressed records that start at multiples of
64.

Written by hand, since `zipfile` cannot align records; the layout is APPNOTE.TXT's (PKWARE), and
byte for byte what PyTorch writes: sizes follow the data, the extra field `FB` pads the header.
"""

from __future__ import annotations

import io
import struct
import sys
import zlib
from typing import Any, NamedTuple

import numpy as np

from ember.errors import check

ALIGNMENT = 64
BROKEN = (
    "PytorchStreamReader failed reading zip archive: {reason}. There is a high likelihood that "
    "your checkpoint file is corrupted. This can happen if the checkpoint was not saved properly, "
    "was transferred incorrectly, or the file was modified after saving."
)
_LIMIT = 0xFFFFFFFF  # a size or offset that does not fit in 32 bits goes to the ZIP64 field
_LOCAL = struct.Struct("<IHHHHHIIIHH")
_CENTRAL = struct.Struct("<IHHHHHHIIIHHHHHII")
_END64 = struct.Struct("<IQHHIIQQQQ")
_LOCATOR = struct.Struct("<IIQI")
_END = struct.Struct("<IHHHHIIH")
_SIZES_FOLLOW, _UTF8 = 0x0008, 0x0800


class _Entry(NamedTuple):
    name: bytes
    flags: int
    crc: int
    size: int
    offset: int


class ZipWriter:
    """Writes records one after another to a file that need not be seekable, then the directory."""

    def __init__(self, file: Any, folder: str):
        self._file, self._folder = file, folder
        self._position = 0
        self._entries: list[_Entry] = []

    def write(self, name: str, data: Any) -> None:
        """Add a record of bytes, or of a contiguous array."""
        view = memoryview(data).cast("B")
        full = f"{self._folder}/{name}".encode()
        flags = _UTF8 | (_SIZES_FOLLOW if view.nbytes else 0)
        offset, crc = self._position, zlib.crc32(view)
        extra = self._padding(offset + _LOCAL.size + len(full), view.nbytes, offset)
        header = _LOCAL.pack(0x04034B50, 0, flags, 0, 0, 0, 0, 0, 0, len(full), len(extra))
        self._put(header + full + extra)
        if view.nbytes:
            self._put(view)
            sizes = "<IIQQ" if max(view.nbytes, offset) >= _LIMIT else "<IIII"
            self._put(struct.pack(sizes, 0x08074B50, crc, view.nbytes, view.nbytes))
        self._entries.append(_Entry(full, flags, crc, view.nbytes, offset))

    @staticmethod
    def _padding(start: int, size: int, offset: int) -> bytes:
        """The extra field after which data begin at a multiple of 64."""
        large = b""
        if size >= _LIMIT or offset >= _LIMIT:
            fields = [value for value in (size, size, offset) if value >= _LIMIT]
            large = struct.pack(f"<HH{len(fields)}Q", 1, 8 * len(fields), *fields)
        room = -(start + len(large) + 4) % ALIGNMENT
        return large + struct.pack("<HH", 0x4246, room) + b"Z" * room

    def _put(self, data: Any) -> None:
        self._file.write(data)
        self._position += len(data)

    def finish(self) -> None:
        """Write the directory, which makes the records an archive."""
        identity = zlib.crc32(b"".join(entry.name for entry in self._entries))
        content = zlib.crc32(
            struct.pack(f"<{len(self._entries)}I", *(e.crc for e in self._entries))
        )
        self.write(".data/serialization_id", f"{identity:020}{content:020}".encode())
        start = self._position
        for entry in self._entries:
            self._put(self._directory_entry(entry))
        size, count, end = self._position - start, len(self._entries), self._position
        self._put(_END64.pack(0x06064B50, 44, 0x031E, 45, 0, 0, count, count, size, start))
        self._put(_LOCATOR.pack(0x07064B50, 0, end, 1))
        short = min(count, 0xFFFF)
        self._put(
            _END.pack(0x06054B50, 0, 0, short, short, min(size, _LIMIT), min(start, _LIMIT), 0)
        )

    @staticmethod
    def _directory_entry(entry: _Entry) -> bytes:
        name, flags, crc, size, offset = entry
        wide = [value for value in (size, size, offset) if value >= _LIMIT]
        extra = struct.pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
        small, place = min(size, _LIMIT), min(offset, _LIMIT)
        head = (0x02014B50, 0, 0, flags, 0, 0, 0, crc, small, small)
        return _CENTRAL.pack(*head, len(name), len(extra), 0, 0, 0, 0, place) + name + extra


class ZipReader:
    """The records of an archive, by their names without the folder. RuntimeError if it is none.

    `file` is seekable; with `mapping`, a buffer of the whole file, records are views of it. With
    `program`, the archive is to be one of TorchScript.
    """

    def __init__(self, file: Any, mapping: Any = None, program: bool = False):
        import zipfile

        self._file, self._mapping = file, mapping
        self._length = file.seek(0, io.SEEK_END)
        try:
            self._archive = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            reason = "failed finding central directory"
            raise RuntimeError(BROKEN.format(reason=reason)) from error
        names = self._archive.namelist()
        inside = [name for name in names if name.count("/") == 1 and name.endswith("/data.pkl")]
        folder = inside[0].rpartition("/")[0] if inside else ""
        self._prefix = f"{folder}/"
        is_program = f"{self._prefix}constants.pkl" in names
        mine, other = ("torch.jit", "torch.load") if program else ("torch.save", "torch.jit.load")
        check(
            inside and is_program == program,
            RuntimeError,
            f"this archive is not one of {mine}: it has no data.pkl, or is one for {other}",
        )

    def has(self, name: str) -> bool:
        """Whether there is a record of that name."""
        return self._prefix + name in self._archive.NameToInfo

    def names(self) -> list[str]:
        """The names of the records."""
        inside = (name for name in self._archive.namelist() if name.startswith(self._prefix))
        return [name[len(self._prefix) :] for name in inside]

    def _place(self, name: str) -> tuple[Any, int]:
        """A record's entry and where its data begin; RuntimeError if they are not in the file."""
        found = self._archive.NameToInfo.get(self._prefix + name)
        check(
            found is not None, RuntimeError, BROKEN.format(reason=f"file not found: archive/{name}")
        )
        there = 0 <= found.header_offset <= self._length
        check(there, RuntimeError, BROKEN.format(reason=f"invalid offset of {name}"))
        self._file.seek(found.header_offset)
        header = self._file.read(_LOCAL.size)
        fits = len(header) == _LOCAL.size and header[:4] == b"PK\x03\x04"
        check(fits, RuntimeError, BROKEN.format(reason=f"invalid header of {name}"))
        fields = _LOCAL.unpack(header)
        start = found.header_offset + _LOCAL.size + fields[-2] + fields[-1]
        inside = start + found.compress_size <= self._length
        check(inside, RuntimeError, BROKEN.format(reason=f"{name} reaches beyond the end"))
        return found, start

    def read(self, name: str) -> bytes:
        """The bytes of a small record; its checksum must be right."""
        entry, start = self._place(name)
        data = self._bytes_of(entry, start)
        check(
            zlib.crc32(data) == entry.CRC,
            RuntimeError,
            BROKEN.format(reason=f"wrong checksum of {name}"),
        )
        return bytes(data)

    def array(self, name: str, nbytes: int) -> np.ndarray[Any, Any]:
        """The `nbytes` bytes of a record as an array: fresh, or a view of the mapping."""
        entry, start = self._place(name)
        check(
            entry.file_size == nbytes,
            RuntimeError,
            BROKEN.format(reason=f"{name} has {entry.file_size} bytes, its tensors say {nbytes}"),
        )
        return self._bytes_of(entry, start)

    def _bytes_of(self, entry: Any, start: int) -> np.ndarray[Any, Any]:
        if entry.compress_type != 0:
            return self._inflated(entry)
        check(
            entry.file_size == entry.compress_size,
            RuntimeError,
            BROKEN.format(reason="invalid sizes"),
        )
        if self._mapping is not None:
            return np.frombuffer(self._mapping, np.uint8, entry.file_size, start)
        self._file.seek(start)
        data = np.empty(entry.file_size, np.uint8)
        fill(self._file, data)
        return data

    def _inflated(self, entry: Any) -> np.ndarray[Any, Any]:
        """A record that somebody has compressed; one that claims an impossible ratio is refused."""
        plausible = entry.file_size <= 1100 * entry.compress_size + 1024
        check(plausible, RuntimeError, BROKEN.format(reason="invalid sizes"))
        check(
            self._mapping is None,
            RuntimeError,
            "a compressed record cannot be mapped: load without mmap=True",
        )
        try:
            data = self._archive.read(entry)
        except Exception as error:
            raise RuntimeError(BROKEN.format(reason="invalid compressed data")) from error
        return np.frombuffer(bytearray(data), np.uint8)

    def is_foreign_order(self) -> bool:
        """Whether the numbers were written with the other byte order."""
        order = self.read("byteorder") if self.has("byteorder") else b"little"
        check(order in (b"little", b"big"), ValueError, f"Unknown endianness type: {order!r}")
        return order.decode() != sys.byteorder


def fill(file: Any, target: np.ndarray[Any, Any]) -> None:
    """Read bytes into an array; RuntimeError if the file ends before it is full."""
    rest = memoryview(target)
    read_into = getattr(file, "readinto", None)
    while rest.nbytes:
        if read_into is not None:
            count = read_into(rest)
        else:
            data = file.read(rest.nbytes)
            count = len(data)
            rest[:count] = data
        check(
            count,
            RuntimeError,
            f"unexpected EOF, expected {rest.nbytes} more bytes. The file might be corrupted.",
        )
        rest = rest[count:]
