"""Stores: small tables of bytes that the processes of a run share, to find each other through.

Every store has the same few methods; they differ in where the table lives: `HashStore` in this
process, `FileStore` in a file, `TCPStore` (tcp_store.py) in a server. `PrefixStore` is a part of
another store.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from ember.distributed.errors import DistStoreError, QueueEmptyError
from ember.errors import check

DEFAULT_TIMEOUT = timedelta(seconds=300)
POLL_SECONDS = 0.01  # how often a file is looked at while a key is waited for


def as_bytes(value: Any) -> bytes:
    """A value of a store: text is stored as UTF-8."""
    check(
        isinstance(value, str | bytes | bytearray),
        TypeError,
        f"a store holds str or bytes, not {type(value).__name__}",
    )
    return value.encode() if isinstance(value, str) else bytes(value)


def timed_out(seconds: float, keys: Sequence[str]) -> DistStoreError:
    """The error for keys that nobody has set in time."""
    listed = ", ".join(f"/{key}" for key in keys)
    return DistStoreError(
        f"wait timeout after {round(seconds * 1000)}ms, keys: {listed}. No process has set them: "
        "look whether all processes of the run have started, and for the error of one that ended"
    )


class Store:
    """A table of bytes by name. `get` waits for a key that is not there yet.

    Subclasses say how: `_update(key, change)` stores `change(value or None)` in one step (None
    deletes) and returns it, `_find(key)` reads, `_keys()` lists, `_wait(keys, seconds)` waits.
    """

    def __init__(self) -> None:
        self._timeout = DEFAULT_TIMEOUT

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Change how long `get` and `wait` wait."""
        self._timeout = timeout

    def _update(self, key: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        raise NotImplementedError

    def _find(self, key: str) -> bytes | None:
        raise NotImplementedError

    def _keys(self) -> list[str]:
        raise NotImplementedError

    def _wait(self, keys: Sequence[str], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self.check(keys):
            if time.monotonic() > deadline:
                raise timed_out(seconds, keys)
            time.sleep(POLL_SECONDS)

    def set(self, key: str, value: Any) -> None:
        """Store a value."""
        content = as_bytes(value)
        self._update(key, lambda _: content)

    def get(self, key: str) -> bytes:
        """The value of a key, waited for; DistStoreError if it does not come in time."""
        self._wait([key], self._timeout.total_seconds())
        found = self._find(key)
        return b"" if found is None else found

    def add(self, key: str, amount: int) -> int:
        """Add to a number (0 at first), and return it."""
        made = self._update(key, lambda old: str(int(old or 0) + amount).encode())
        return int(made or 0)

    def append(self, key: str, value: Any) -> None:
        """Put a value after what is stored."""
        content = as_bytes(value)
        self._update(key, lambda old: (old or b"") + content)

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Store `desired_value` if the value is `expected_value` ("" for a new key).

        Returns what is stored then (for a key that is not there, `expected_value`).
        """
        expected, desired = as_bytes(expected_value), as_bytes(desired_value)
        made = self._update(
            key, lambda old: desired if (old if old is not None else b"") == expected else old
        )
        return expected if made is None else made

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there; DistStoreError if it takes too long."""
        self._wait(list(keys), (timeout or self._timeout).total_seconds())

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there now."""
        return all(self._find(key) is not None for key in keys)

    def delete_key(self, key: str) -> bool:
        """Remove a key; whether it was there."""
        there = self._find(key) is not None
        self._update(key, lambda _: None)
        return there

    def num_keys(self) -> int:
        """The number of keys."""
        return len(self._keys())

    def list_keys(self) -> list[str]:
        """The keys."""
        return sorted(self._keys())

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of several keys, waited for."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Store several values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Whether `append`, `multi_get` and `multi_set` work: always."""
        return True

    def queue_push(self, key: str, value: Any) -> None:
        """Put a value at the end of a queue."""
        self.set(f"{key}/{self.add(f'{key}/last', 1)}", value)

    def queue_len(self, key: str) -> int:
        """How many values a queue holds."""
        return self.add(f"{key}/last", 0) - self.add(f"{key}/first", 0)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue; QueueEmptyError if there is none and `block` is off."""
        if not block and self.queue_len(key) <= 0:
            raise QueueEmptyError(f"queue {key} is empty")
        name = f"{key}/{self.add(f'{key}/first', 1)}"
        value = self.get(name)
        self.delete_key(name)
        return value


class HashStore(Store):
    """A store in this process, for threads, and for a group of one.

    >>> import ember as torch
    >>> store = torch.distributed.HashStore()
    >>> store.set("color", "green")
    >>> store.get("color"), store.add("steps", 2)
    (b'green', 2)
    """

    def __init__(self) -> None:
        super().__init__()
        self._table: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def _update(self, key: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        with self._changed:
            made = change(self._table.get(key))
            if made is None:
                self._table.pop(key, None)
            else:
                self._table[key] = made
            self._changed.notify_all()
        return made

    def _find(self, key: str) -> bytes | None:
        return self._table.get(key)

    def _keys(self) -> list[str]:
        return list(self._table)

    def _wait(self, keys: Sequence[str], seconds: float) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self.check(keys), seconds):
                raise timed_out(seconds, keys)


class FileStore(Store):
    """A store in a file that all processes can reach, also over a network file system with locks.

    The file is a journal of what was stored. With `world_size`, it is removed when that many
    processes are done with it.
    """

    _RECORD = struct.Struct("<IQ")  # the lengths of the key and of the value; no value: deleted
    _DELETED = (1 << 64) - 1

    def __init__(self, file_name: str, world_size: int = -1):
        super().__init__()
        self.path, self._position = os.fspath(file_name), 0
        self._table: dict[str, bytes] = {}
        self._lock = threading.Lock()
        with self._opened():
            pass
        if world_size > 0:
            weakref.finalize(self, _leave_file, self.path, world_size)

    def _opened(self) -> Any:
        return open(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")

    def _read(self, file: Any) -> None:
        file.seek(self._position)
        news, place = file.read(), 0
        while place < len(news):
            key_length, length = self._RECORD.unpack_from(news, place)
            place += self._RECORD.size
            key = news[place : place + key_length].decode()
            place += key_length
            if length == self._DELETED:
                self._table.pop(key, None)
            else:
                self._table[key] = news[place : place + length]
                place += length
        self._position += len(news)

    def _update(self, key: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        with self._lock, self._opened() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._read(file)
            made = change(self._table.get(key))
            name, content = key.encode(), made or b""
            length = self._DELETED if made is None else len(content)
            file.seek(0, os.SEEK_END)
            file.write(self._RECORD.pack(len(name), length) + name + content)
            file.flush()
            self._read(file)
        return made

    def _refresh(self) -> None:
        with self._lock, self._opened() as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            self._read(file)

    def _find(self, key: str) -> bytes | None:
        self._refresh()
        return self._table.get(key)

    def _keys(self) -> list[str]:
        self._refresh()
        return list(self._table)


def _leave_file(path: str, world_size: int) -> None:
    """Count a process that is done; the last one removes the file."""
    if os.path.exists(path) and FileStore(path).add("done with the file", 1) >= world_size:
        os.unlink(path)


class PrefixStore(Store):
    """The part of a store whose keys begin with a prefix."""

    def __init__(self, prefix: str, store: Store):
        super().__init__()
        self._prefix, self._store = prefix, store

    @property
    def underlying_store(self) -> Store:
        """The store that this is a part of."""
        return self._store

    @property
    def timeout(self) -> timedelta:
        """That of the store."""
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Change that of the store."""
        self._store.set_timeout(timeout)

    def _named(self, key: str) -> str:
        return f"{self._prefix}/{key}"

    def set(self, key: str, value: Any) -> None:
        """Store a value."""
        self._store.set(self._named(key), value)

    def get(self, key: str) -> bytes:
        """The value of a key, waited for."""
        return self._store.get(self._named(key))

    def add(self, key: str, amount: int) -> int:
        """Add to a number, and return it."""
        return self._store.add(self._named(key), amount)

    def append(self, key: str, value: Any) -> None:
        """Put a value after what is stored."""
        self._store.append(self._named(key), value)

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Store a value if another one is there."""
        return self._store.compare_set(self._named(key), expected_value, desired_value)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there."""
        self._store.wait([self._named(key) for key in keys], timeout)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there now."""
        return self._store.check([self._named(key) for key in keys])

    def delete_key(self, key: str) -> bool:
        """Remove a key; whether it was there."""
        return self._store.delete_key(self._named(key))

    def num_keys(self) -> int:
        """The number of keys of the whole store."""
        return self._store.num_keys()

    def _keys(self) -> list[str]:
        start = self._named("")
        return [k.removeprefix(start) for k in self._store.list_keys() if k.startswith(start)]
