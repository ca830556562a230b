"""What passes between the loader and a worker: pickled objects, whose big buffers travel as shared
memory.

An object is pickled with its buffers (tensors, arrays) out of band. A small one goes through the
socket. A big one is written to a file without a name that lives in memory; only its descriptor goes
through the socket, and the receiver maps it: one copy in all. Nothing has a name, so nothing is
left behind whoever dies.

A block, in the socket or in the file, is: the number of parts, their sizes, the pickle, the
buffers, each aligned to 64 bytes. A frame is: the length of what follows, the number of
descriptors, and the block.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
import struct
import weakref
from collections import deque
from typing import Any

from ember.core.tensor import Tensor

INLINE_LIMIT = 32 * 1024
MAPPED_LIMIT = (
    128  # Python keeps a descriptor open for each mapping; beyond this, blocks are read instead
)
ALIGNMENT = 64
_FRAME = struct.Struct("<QI")
_COUNT = struct.Struct("<Q")
_RECEIVE = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class _Pickler(pickle.Pickler):
    """Pickles tensors with what they show: of a big storage, a small view travels without the
    rest.
    """

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type) or not isinstance(value, Tensor):
            return NotImplemented
        if not value.is_leaf and value.requires_grad:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, since "
                "autograd does not "
                "support crossing process boundaries. If you just want to transfer the data, call "
                "detach() on "
                "the tensor before serializing (e.g., putting it on the queue)."
            )
        array = value._array
        if type(value) is Tensor and array.storage.nbytes > max(
            2 * array.spec.nbytes, INLINE_LIMIT
        ):
            copied = value.detach().clone().requires_grad_(value.requires_grad)
            return copied.__reduce_ex__(5)
        return NotImplemented


def pack(message: Any) -> list[Any]:
    """The parts of a block: the pickle, then its buffers."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _Pickler(stream, 5, buffer_callback=buffers.append).dump(message)
    return [stream.getbuffer(), *(buffer.raw() for buffer in buffers)]


def _header(parts: list[Any]) -> bytes:
    return struct.pack(f"<{len(parts) + 1}Q", len(parts), *(part.nbytes for part in parts))


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def block_size(parts: list[Any]) -> int:
    """The bytes of the block of these parts."""
    position = _COUNT.size * (len(parts) + 1)
    for part in parts:
        position = _aligned(position) + part.nbytes
    return position


def unpack(block: memoryview) -> Any:
    """The object in a block, whose buffers stay where they are in it."""
    (count,) = _COUNT.unpack_from(block)
    sizes = struct.unpack_from(f"<{count}Q", block, _COUNT.size)
    position, parts = _COUNT.size * (count + 1), []
    for size in sizes:
        start = _aligned(position)
        position = start + size
        parts.append(block[start:position])
    return pickle.loads(parts[0], buffers=parts[1:])


def _inline_block(parts: list[Any]) -> bytearray:
    block = bytearray(block_size(parts))
    header = _header(parts)
    block[: len(header)] = header
    position = len(header)
    for part in parts:
        start = _aligned(position)
        position = start + part.nbytes
        block[start:position] = part
    return block


def _block_file(parts: list[Any]) -> int:
    """The descriptor of a nameless file in memory that holds the block."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("batch", os.MFD_CLOEXEC)
    else:  # a system without it: a file that is unlinked at once
        from tempfile import TemporaryFile

        with TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        os.ftruncate(descriptor, block_size(parts))
        header = _header(parts)
        _write_at(descriptor, memoryview(header), 0)
        position = len(header)
        for part in parts:
            start = _aligned(position)
            _write_at(descriptor, part, start)
            position = start + part.nbytes
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _write_at(descriptor: int, part: memoryview, offset: int) -> None:
    while part:
        written = os.pwrite(descriptor, part, offset)
        part, offset = part[written:], offset + written


def _open_block(descriptor: int) -> memoryview:
    """The block in a file, mapped (or, when very many are in use, read); takes the descriptor."""
    try:
        size = os.fstat(descriptor).st_size
        _mapped.drop_dead()
        if _mapped.count() < MAPPED_LIMIT:
            mapping = mmap.mmap(descriptor, size)
            _mapped.add(mapping)
            return memoryview(mapping)
        block = bytearray(size)
        with open(os.dup(descriptor), "rb", buffering=0) as file:
            file.seek(0)
            target = memoryview(block)
            while target:
                target = target[file.readinto(target) :]
        return memoryview(block)
    finally:
        os.close(descriptor)


class _LiveMappings:
    """Counts the mappings that some tensor still uses."""

    def __init__(self) -> None:
        self._references: list[Any] = []

    def drop_dead(self) -> None:
        self._references = [r for r in self._references if r() is not None]

    def count(self) -> int:
        return len(self._references)

    def add(self, mapping: Any) -> None:
        self._references.append(weakref.ref(mapping))


_mapped = _LiveMappings()


class Channel:
    """One end of a socket between the loader and a worker. The loader's end never blocks on a
    write.

    `send` queues a message and writes what the socket takes; `flush` goes on with it. `receive`
    reads what has come in, `next_message` takes a whole message of it; `closed` tells that the
    other end is gone and that all it sent has been read.
    """

    def __init__(self, sock: socket.socket, *, blocking: bool):
        self.socket = sock
        self.closed = False
        sock.setblocking(blocking)
        self._outgoing: deque[tuple[memoryview, int | None]] = deque()
        self._incoming = bytearray()
        self._inbox: deque[Any] = deque()
        self._descriptors: deque[int] = deque()

    def fileno(self) -> int:
        """For selectors."""
        return self.socket.fileno()

    def send(self, message: Any) -> None:
        """Send a message; what cannot be pickled raises here, before anything is sent."""
        parts = pack(message)
        if block_size(parts) <= INLINE_LIMIT:
            block = _inline_block(parts)
            frame = memoryview(_FRAME.pack(len(block), 0) + block)
            self._outgoing.append((frame, None))
        else:
            descriptor = _block_file(parts)
            self._outgoing.append((memoryview(_FRAME.pack(0, 1)), descriptor))
        self.flush()

    @property
    def pending(self) -> bool:
        """Whether something waits for room in the socket."""
        return bool(self._outgoing)

    def flush(self) -> None:
        """Write as much as the socket takes (all, on a blocking end)."""
        while self._outgoing:
            frame, descriptor = self._outgoing[0]
            try:
                if descriptor is not None:
                    written = socket.send_fds(self.socket, [frame], [descriptor])
                else:
                    written = self.socket.send(frame)
            except BlockingIOError:
                return
            except (BrokenPipeError, ConnectionResetError):
                self._drop_outgoing()  # what the other end sent before it closed can still be read
                return
            if descriptor is not None:
                os.close(descriptor)
            self._outgoing.popleft()
            if written < len(frame):
                self._outgoing.appendleft((frame[written:], None))

    def _drop_outgoing(self) -> None:
        for _, descriptor in self._outgoing:
            if descriptor is not None:
                os.close(descriptor)
        self._outgoing.clear()

    def receive(self) -> None:
        """Read once from the socket (a blocking end waits for something); whole messages go to
        the inbox.
        """
        try:
            data, descriptors, _, _ = socket.recv_fds(self.socket, 256 * 1024, 16, _RECEIVE)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data, descriptors = b"", []
        self._descriptors.extend(descriptors)
        self.closed = self.closed or not data
        self._incoming += data
        while len(self._incoming) >= _FRAME.size:
            length, attached = _FRAME.unpack_from(self._incoming)
            end = _FRAME.size + length
            if len(self._incoming) < end:
                return
            block = memoryview(self._incoming[_FRAME.size : end])
            del self._incoming[
                :end
            ]  # first: a message that cannot be unpickled must not stay in the way
            self._inbox.append(
                unpack(_open_block(self._descriptors.popleft()) if attached else block)
            )

    def next_message(self) -> Any:
        """The oldest message received and not taken; None if there is none."""
        return self._inbox.popleft() if self._inbox else None

    def close(self) -> None:
        """Close this end, and what came in and was not read."""
        self.closed = True
        self._drop_outgoing()
        while self._descriptors:
            os.close(self._descriptors.popleft())
        self.socket.close()


def channel_sockets() -> tuple[socket.socket, socket.socket]:
    """The loader's end and the worker's end."""
    if not hasattr(socket, "AF_UNIX") or not hasattr(socket, "send_fds"):
        raise NotImplementedError(
            "DataLoader: worker processes need Unix sockets, which this system does not have; use "
            "num_workers=0"
        )
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
