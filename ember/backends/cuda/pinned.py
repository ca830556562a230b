"""Page-locked host memory, which a GPU reads and writes by itself while the host goes on.

To lock and to unlock pages takes the driver milliseconds, so blocks are kept for the next
allocation of their size. Each copy to or from a block leaves an event there: a block that its
arrays let go of while a copy still runs waits until that event is reached.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

LEAST = 512  # bytes of the smallest block


def size_of(nbytes: int) -> int:
    """The bytes of a block: powers of two, from a MiB on eighths of the one below."""
    if nbytes <= 1 << 20:
        return max(LEAST, 1 << max(nbytes - 1, 0).bit_length())
    step = 1 << (nbytes.bit_length() - 4)
    return -(-nbytes // step) * step


class PinnedBlock:
    """A block that goes back to its pool when the last array over it dies."""

    __slots__ = ("__weakref__", "address", "events", "nbytes", "pool", "size")

    def __init__(self, pool: PinnedMemory, address: int, size: int, nbytes: int):
        self.pool, self.address, self.size, self.nbytes = pool, address, size, nbytes
        self.events: list[Any] = []  # of the last copies, one of each stream

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """What NumPy makes an array of, which keeps this block alive."""
        return {
            "data": (self.address, False),
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    def used(self, event: Any) -> None:
        """Say that a copy was given to a stream, with an event behind it."""
        self.events = [e for e in self.events if not self.pool.reached(e)]
        self.events.append(event)

    def __del__(self) -> None:
        self.pool.put_back(self.address, self.size, self.events)


class PinnedMemory:
    """The page-locked memory of this process; `take` and `give` are the driver's."""

    def __init__(
        self,
        take: Callable[[int], int],
        give: Callable[[int], None],
        reached: Callable[[Any], bool],
    ):
        self.take, self.give, self.reached = take, give, reached
        self.free: dict[int, list[int]] = {}
        self.waiting: deque[tuple[list[Any], int, int]] = deque()  # events, size, address
        self.waiting_bytes = 0
        self.reserved = self.allocated = self.peak_allocated = self.peak_reserved = 0
        self.allocations = self.frees = self.locked = self.unlocked = 0

    def allocate(self, nbytes: int) -> Any:
        """A vector of bytes in page-locked memory."""
        if self.waiting:
            self._collect()
        size = size_of(nbytes)
        kept = self.free.get(size)
        if kept:
            address = kept.pop()
        else:
            address = self.take(size)
            self.locked += 1
            self.reserved += size
            self.peak_reserved = max(self.peak_reserved, self.reserved)
        self.allocations += 1
        self.allocated += size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return np.asarray(PinnedBlock(self, address, size, nbytes))

    def put_back(self, address: int, size: int, events: list[Any]) -> None:
        """Keep a block for the next allocation, once its copies are done."""
        self.allocated -= size
        self.frees += 1
        if events:
            self.waiting.append((events, size, address))
            self.waiting_bytes += size
        else:
            self.free.setdefault(size, []).append(address)

    def _collect(self) -> None:
        """Blocks whose copies are done: they end mostly in the order in which they were given."""
        waiting = self.waiting
        while waiting and all(self.reached(e) for e in waiting[0][0]):
            _, size, address = waiting.popleft()
            self.waiting_bytes -= size
            self.free.setdefault(size, []).append(address)

    def stats(self) -> dict[str, int]:
        """Counters under PyTorch's names."""
        return {
            "active_bytes.current": self.allocated,
            "active_bytes.peak": self.peak_allocated,
            "active_requests.allocated": self.allocations,
            "active_requests.current": self.allocations - self.frees,
            "active_requests.freed": self.frees,
            "allocated_bytes.current": self.reserved,
            "allocated_bytes.peak": self.peak_reserved,
            "allocations.allocated": self.locked,
            "allocations.current": self.locked - self.unlocked,
            "allocations.freed": self.unlocked,
            "num_host_alloc": self.locked,
            "num_host_free": self.unlocked,
        }

    def reset_counts(self) -> None:
        """Let the counts start from now."""
        self.allocations, self.frees = self.allocations - self.frees, 0
        self.locked, self.unlocked = self.locked - self.unlocked, 0

    def reset_peaks(self) -> None:
        """Let the peaks start from now."""
        self.peak_allocated, self.peak_reserved = self.allocated, self.reserved

    def release_cached(self) -> None:
        """Unlock what no array uses."""
        self._collect()
        free, self.free = self.free, {}
        for size, addresses in free.items():
            for address in addresses:
                self.give(address)
                self.unlocked += 1
                self.reserved -= size


def block_of(array: Any) -> PinnedBlock | None:
    """The block that an ndarray's memory lies in, if it is page-locked."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array if type(array) is PinnedBlock else None
