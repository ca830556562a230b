"""Messages between processes: one TCP connection for each pair, and a mailbox.

A thread for each peer reads what comes in and puts it into the mailbox, whether it is waited for or
not. So a send never waits for the other program, and no order of sends and receives can block two
processes against each other. Messages of one sender under one label keep their order.

A process that dies closes its connections: what it sent before can still be read, and whoever waits
for more gets an error that names it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import struct
import threading
import time
from collections import deque
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np

from ember.distributed.errors import DistBackendError
from ember.distributed.stores import PrefixStore, Store
from ember.distributed.tcp_store import TCPStore, try_until
from ember.errors import check

_HEADER = struct.Struct("<QBBBqQ")  # group, channel, op, dtype, tag, bytes
_GREETING = struct.Struct("<I16s")  # who connects, and the listener's secret
_WHOLE = getattr(socket, "MSG_WAITALL", 0)  # one call for all of it, in which others can run
COLLECTIVE, DIRECT, FAILURE = 0, 1, 2  # channels


class Label(NamedTuple):
    """What a message belongs to: its sender, its group, the channel, and the number in it."""

    source: int
    group: int
    channel: int
    tag: int


class Message(NamedTuple):
    """A message that has come in."""

    op: int
    dtype: int
    content: Any


class Mailbox:
    """The messages that nobody has taken yet, and which peers are gone."""

    def __init__(self) -> None:
        self._messages: dict[Label, deque[Message]] = {}
        self._gone: dict[int, str] = {}
        self._changed = threading.Condition()

    def put(self, label: Label, message: Message) -> None:
        """A message has come in."""
        with self._changed:
            self._messages.setdefault(label, deque()).append(message)
            self._changed.notify_all()

    def lose(self, peer: int, reason: str) -> None:
        """A peer is gone."""
        with self._changed:
            self._gone.setdefault(peer, reason)
            self._changed.notify_all()

    def take(self, labels: list[Label], seconds: float, what: str) -> tuple[Label, Message]:
        """Wait for a message under one of the labels; DistBackendError when there will be none."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                found = self._pop(labels)
                if found is not None:
                    return found
                gone = [label.source for label in labels if label.source in self._gone]
                if len(gone) == len(labels):
                    raise DistBackendError(
                        f"Connection closed by peer: rank {gone[0]} {self._gone[gone[0]]}, while "
                        f"{what} waited for it"
                    )
                left = deadline - time.monotonic()
                if left <= 0:
                    names = ", ".join(str(label.source) for label in labels)
                    raise DistBackendError(
                        f"Timed out waiting {round(seconds * 1000)}ms for recv operation to "
                        f"complete: {what} had nothing from rank {names}. Either that process is "
                        "slow (a longer timeout= in init_process_group helps), or it does not make "
                        "the same calls in the same order"
                    )
                self._changed.wait(left)

    def take_now(self, labels: list[Label]) -> tuple[Label, Message] | None:
        """A message that is there already."""
        with self._changed:
            return self._pop(labels)

    def _pop(self, labels: list[Label]) -> tuple[Label, Message] | None:
        for label in labels:
            waiting = self._messages.get(label)
            if waiting:
                message = waiting.popleft()
                if not waiting:
                    del self._messages[label]
                return label, message
            if label.channel == COLLECTIVE:
                failed = self._messages.get(label._replace(channel=FAILURE))
                if failed:
                    text = bytes(failed[0].content).decode()
                    raise DistBackendError(f"rank {label.source} failed in this collective: {text}")
        return None


class Peers:
    """The connections of this process with all others of the run.

    Every process listens on a free port, tells it in the store, and connects to the processes of
    lower rank; strangers, who do not know the secret in the store, are turned away.
    """

    def __init__(self, store: Store, rank: int, world_size: int, timeout: timedelta):
        self.rank, self.size, self.mailbox = rank, world_size, Mailbox()
        self._sockets: dict[int, socket.socket] = {}
        self._writing = {peer: threading.Lock() for peer in range(world_size)}
        self._process, self._closing = os.getpid(), False
        if world_size > 1:
            try:
                self._connect_all(store, timeout.total_seconds())
            except BaseException:
                self.close()
                raise
        for peer, sock in self._sockets.items():
            reader = threading.Thread(
                target=self._read, args=(peer, sock), daemon=True, name=f"from rank {peer}"
            )
            reader.start()

    def _connect_all(self, store: Store, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        address, secret = _own_address(store), secrets.token_bytes(16)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.create_server((address, 0), family=family, backlog=self.size) as listener:
            port = listener.getsockname()[1]
            store.set(f"rank {self.rank}", f"{address} {port} {secret.hex()}")
            places = self._places(store, seconds)
            for peer in range(self.rank):
                host, number, key = places[peer]
                self._sockets[peer] = self._connected(peer, host, int(number), deadline)
                self._sockets[peer].sendall(_GREETING.pack(self.rank, bytes.fromhex(key)))
            self._accept_all(listener, secret, deadline, seconds)

    def _places(self, store: Store, seconds: float) -> list[list[str]]:
        """Address, port and secret of all processes, waited for."""
        found = []
        for peer in range(self.size):
            store.wait([f"rank {peer}"], timedelta(seconds=seconds))
            found.append(store.get(f"rank {peer}").decode().split())
        return found

    def _connected(self, peer: int, host: str, port: int, deadline: float) -> socket.socket:
        return try_until(
            deadline,
            lambda left: socket.create_connection((host, port), timeout=left),
            lambda error: (
                f"rank {self.rank} cannot connect to rank {peer} at {host}:{port}: {error}"
            ),
        )

    def _accept_all(
        self, listener: socket.socket, secret: bytes, deadline: float, seconds: float
    ) -> None:
        missing = set(range(self.rank + 1, self.size))
        while missing:
            listener.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                sock, _ = listener.accept()
                sock.settimeout(5)
                peer, key = _GREETING.unpack(_exactly(sock, _GREETING.size))
            except TimeoutError as error:
                if time.monotonic() < deadline:
                    continue
                names = ", ".join(map(str, sorted(missing)))
                raise DistBackendError(
                    f"Timed out after {round(seconds)} s: rank {names} did not connect to rank "
                    f"{self.rank}"
                ) from error
            except (ConnectionError, struct.error):
                continue
            if not secrets.compare_digest(key, secret) or peer not in missing:
                sock.close()
                continue
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets[peer] = sock
            missing.discard(peer)

    def _read(self, peer: int, sock: socket.socket) -> None:
        """The life of a reader: messages into the mailbox until the connection ends."""
        try:
            while True:
                header = _exactly(sock, _HEADER.size)
                group, channel, op, dtype, tag, count = _HEADER.unpack(header)
                content = np.empty(count, np.uint8)
                _fill(sock, memoryview(content))
                label = Label(peer, group, channel, tag)
                self.mailbox.put(label, Message(op, dtype, content))
        except OSError:
            self.mailbox.lose(peer, "has closed its connection (its process has ended)")
            with self._writing[peer]:
                sock.close()

    def send(self, peer: int, label: Label, op: int, dtype: int, content: Any) -> None:
        """Send the bytes of a contiguous array; DistBackendError if the peer is gone."""
        view = memoryview(content).cast("B") if len(content) else memoryview(b"")
        header = _HEADER.pack(label.group, label.channel, op, dtype, label.tag, view.nbytes)
        check(
            os.getpid() == self._process,
            DistBackendError,
            "the process group belongs to the process that this one was forked from: call "
            "init_process_group here, or start processes with torch.multiprocessing.spawn",
        )
        if peer == self.rank:
            copied = np.frombuffer(bytes(view), np.uint8)
            self.mailbox.put(label, Message(op, dtype, copied))
            return
        try:
            with self._writing[peer]:
                if view.nbytes < 1 << 16:
                    self._sockets[peer].sendall(header + view)
                else:
                    self._sockets[peer].sendall(header)
                    self._sockets[peer].sendall(view)
        except (OSError, KeyError) as error:
            raise DistBackendError(
                f"Connection closed by peer: nothing can be sent to rank {peer} ({error}): its "
                "process has ended, or has destroyed the process group"
            ) from error

    def close(self) -> None:
        """Close all connections, once what was sent is out."""
        if os.getpid() != self._process:
            return
        for sock in self._sockets.values():
            # The readers go on until the others close too: what still comes in must be read, else
            # the system would throw away what we have sent.
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
        self._sockets.clear()


def _own_address(store: Store) -> str:
    """The address that the other processes reach this machine by: the one that reached the store's
    server, or this machine's own where the store is no server.
    """
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return store.local_address() if isinstance(store, TCPStore) else "127.0.0.1"


def _exactly(sock: socket.socket, count: int) -> bytearray:
    content = bytearray(count)
    _fill(sock, memoryview(content))
    return content


def _fill(sock: socket.socket, target: memoryview) -> None:
    while target:
        count = sock.recv_into(target, 0, _WHOLE)
        if not count:
            raise ConnectionError("the connection was closed")
        target = target[count:]
