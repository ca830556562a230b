"""`TCPStore`: a store in a server, which is a thread of one of the processes.

A message is a count of fields and the fields, each with its length. A request is the name of a
method and its arguments; an answer is b"ok", or the name of what went wrong, and the result.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from ember.distributed.errors import DistNetworkError, DistStoreError
from ember.distributed.stores import DEFAULT_TIMEOUT, HashStore, Store, as_bytes, timed_out
from ember.errors import check

_COUNT, _LENGTH = struct.Struct("<I"), struct.Struct("<Q")
RETRY_SECONDS = 0.02
LOCAL = ("localhost", "127.0.0.1", "::1")
WORKERS = "init/"  # counts the processes that have connected


def send_fields(sock: socket.socket, fields: Sequence[bytes]) -> None:
    """Send one message."""
    parts = [_COUNT.pack(len(fields))]
    for field in fields:
        parts += [_LENGTH.pack(len(field)), field]
    sock.sendall(b"".join(parts))


def receive_fields(sock: socket.socket) -> list[bytes]:
    """Receive one message; ConnectionError when the other end is gone."""
    (count,) = _COUNT.unpack(_exactly(sock, _COUNT.size))
    fields = []
    for _ in range(count):
        (length,) = _LENGTH.unpack(_exactly(sock, _LENGTH.size))
        fields.append(_exactly(sock, length))
    return fields


def _exactly(sock: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = sock.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise ConnectionError("the connection was closed")
        parts += part
    return bytes(parts)


class _Server:
    """The table, and a thread for each process that asks."""

    def __init__(self, host: str, port: int, listener: socket.socket | None = None):
        self.table = HashStore()
        place = host if host in LOCAL else ""  # other machines may only ask if they are meant to
        try:
            self.listener = listener or _listener(place, port)
        except OSError as error:
            raise DistNetworkError(
                f"The server socket has failed to listen on port {port} of {host}: {error}. Choose "
                "another MASTER_PORT, or 0 for a free one"
            ) from error
        self.port, self.users = self.listener.getsockname()[1], 0
        threading.Thread(target=self._accept, daemon=True, name="store").start()

    def leave(self) -> None:
        """A store of this process has gone; the last one ends the server."""
        self.users -= 1
        if self.users == 0:
            if _servers.get(self.port) is self:
                del _servers[self.port]
            with contextlib.suppress(OSError):
                self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True, name="store").start()

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                while True:
                    name, *arguments = receive_fields(sock)
                    try:
                        send_fields(sock, [b"ok", *self._answer(name.decode(), arguments)])
                    except DistStoreError:
                        send_fields(sock, [b"late"])
                    except ValueError as error:
                        send_fields(sock, [b"wrong", str(error).encode()])
            except (OSError, struct.error):
                return

    def _answer(self, name: str, arguments: list[bytes]) -> list[bytes]:
        table, names = self.table, [argument.decode(errors="replace") for argument in arguments]
        if name == "wait":
            table.wait(names[1:], timedelta(seconds=float(names[0])))
        elif name == "set":
            table.set(names[0], arguments[1])
        elif name == "get":
            found = table._find(names[0])
            return [] if found is None else [found]
        elif name == "add":
            return [str(table.add(names[0], int(names[1]))).encode()]
        elif name == "append":
            table.append(names[0], arguments[1])
        elif name == "compare_set":
            return [table.compare_set(names[0], *arguments[1:])]
        elif name == "delete":
            return [b"1"] if table.delete_key(names[0]) else []
        elif name == "keys":
            return [key.encode() for key in table.list_keys()]
        else:
            raise ValueError(f"a store has no method {name}")
        return []


def _listener(host: str, port: int) -> socket.socket:
    if host == "" and socket.has_dualstack_ipv6():
        return socket.create_server(
            ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=512)


class TCPStore(Store):
    """A store in a server that runs in the process with `is_master`; port 0 takes a free one.

    With `world_size`, the master waits until that many processes have connected.

    >>> import ember as torch
    >>> store = torch.distributed.TCPStore("127.0.0.1", 0, 1, is_master=True)
    >>> store.set("color", "green")
    >>> store.get("color")
    b'green'
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ):
        super().__init__()
        self._timeout = timeout
        self._server: _Server | None = None
        self._socket: Any = None
        if is_master:
            given = None if master_listen_fd is None else socket.socket(fileno=master_listen_fd)
            self._server = _shared_server(host_name, port, multi_tenant, given)
            self._server.users += 1
            port = self._server.port
        self._host, self._port = host_name, port
        self._lock = threading.Lock()
        self._socket = _connected(host_name, port, timeout.total_seconds())
        arrived = self.add(WORKERS, 1)
        if wait_for_workers and is_master and world_size and world_size > 0:
            self._wait_for_workers(arrived, world_size)

    def __del__(self) -> None:
        if getattr(self, "_socket", None) is not None:
            self._socket.close()
        if getattr(self, "_server", None) is not None:
            self._server.leave()

    def _wait_for_workers(self, arrived: int, world_size: int) -> None:
        seconds = self._timeout.total_seconds()
        deadline = time.monotonic() + seconds
        while arrived < world_size:
            if time.monotonic() > deadline:
                raise DistStoreError(
                    f"Timed out after {round(seconds)} seconds waiting for clients. {arrived}/"
                    f"{world_size} clients joined."
                )
            time.sleep(RETRY_SECONDS)
            arrived = self.add(WORKERS, 0)

    @property
    def host(self) -> str:
        """Where the server is."""
        return self._host

    @property
    def port(self) -> int:
        """The port of the server."""
        return self._port

    def local_address(self) -> str:
        """This machine's address as the server's machine sees it."""
        return str(self._socket.getsockname()[0])

    def clone(self) -> TCPStore:
        """Another connection to the same server."""
        return TCPStore(self._host, self._port, timeout=self._timeout, wait_for_workers=False)

    def _ask(self, name: str, *arguments: Any) -> list[bytes]:
        fields = [name.encode(), *(as_bytes(argument) for argument in arguments)]
        try:
            with self._lock:
                send_fields(self._socket, fields)
                state, *answer = receive_fields(self._socket)
        except OSError as error:
            raise DistNetworkError(
                f"the store at {self._host}:{self._port} is gone ({error}): the process that holds "
                "it, as a rule rank 0, has ended"
            ) from error
        if state == b"late":
            raise timed_out(float(arguments[0]), [str(key) for key in arguments[1:]])
        check(state == b"ok", DistStoreError, lambda: answer[0].decode())
        return answer

    def _wait(self, keys: Sequence[str], seconds: float) -> None:
        self._ask("wait", repr(seconds), *keys)

    def _find(self, key: str) -> bytes | None:
        return next(iter(self._ask("get", key)), None)

    def _keys(self) -> list[str]:
        return [key.decode() for key in self._ask("keys")]

    def set(self, key: str, value: Any) -> None:
        """Store a value."""
        self._ask("set", key, value)

    def add(self, key: str, amount: int) -> int:
        """Add to a number (0 at first), and return it."""
        return int(self._ask("add", key, str(amount))[0])

    def append(self, key: str, value: Any) -> None:
        """Put a value after what is stored."""
        self._ask("append", key, value)

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Store `desired_value` if the value is `expected_value` ("" for a new key)."""
        return self._ask("compare_set", key, expected_value, desired_value)[0]

    def delete_key(self, key: str) -> bool:
        """Remove a key; whether it was there."""
        return bool(self._ask("delete", key))

    def __repr__(self) -> str:
        server = f", server=TCPServer(port={self._port})" if self._server else ""
        return f"TCPStore(client=TCPClient({self._host}:{self._port}){server})"


_servers: dict[int, _Server] = {}  # those that several stores of this process may share


def _shared_server(host: str, port: int, shared: bool, given: socket.socket | None) -> _Server:
    if shared and port in _servers:
        return _servers[port]
    made = _Server(host, port, given)
    if shared:
        _servers[made.port] = made
    return made


def _connected(host: str, port: int, seconds: float) -> socket.socket:
    """A connection to a server that may still have to start."""
    deadline = time.monotonic() + seconds
    return try_until(
        deadline,
        lambda left: socket.create_connection((host, port), timeout=left),
        lambda error: (
            f"The client socket has timed out after {round(seconds * 1000)}ms while trying to "
            f"connect to ({host}, {port}). ({error}) Is the process with rank 0 running there?"
        ),
    )


def try_until(
    deadline: float, connect: Callable[[float], socket.socket], message: Callable[[Any], str]
) -> socket.socket:
    """`connect(seconds left)` again and again; DistNetworkError when the time is over."""
    while True:
        try:
            sock = connect(max(deadline - time.monotonic(), 0.01))
            break
        except OSError as error:
            if time.monotonic() + RETRY_SECONDS > deadline:
                raise DistNetworkError(message(error)) from error
        time.sleep(RETRY_SECONDS)
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock
