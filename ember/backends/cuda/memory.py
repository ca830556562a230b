"""The memory of a GPU: a caching pool over the driver's allocations, with PyTorch's statistics.

All work of a stream is in one order, so a block that is given back can be used by the next piece of
work of the stream it was made in at once: each stream has a pool of its own. What other streams use
too waits until they are past it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ember.backends.base import Memory
from ember.backends.cuda.driver import Driver, Full
from ember.backends.cuda.pinned import PinnedMemory, block_of
from ember.backends.gpus import explained, full, readable, reserves
from ember.device import device as Device
from ember.errors import OutOfMemoryError

BLOCK = 512
MOST_SENT = 64 << 20  # bytes on their way to a GPU by page-locked memory
SMALL, SEGMENT = 1 << 20, 2 << 20  # blocks up to a MiB are cut from segments of two


@lru_cache(4096)
def rounded(nbytes: int) -> int:
    """The bytes that an allocation takes: multiples of 512, above a MiB of an eighth of the power
    of two below."""
    if nbytes <= SMALL:
        return max(-(-nbytes // BLOCK) * BLOCK, BLOCK)
    step = max(1 << (nbytes.bit_length() - 4), BLOCK)
    return -(-nbytes // step) * step


class DeviceBuffer:
    """Memory of a GPU: it goes back to its pool when the last storage lets go of it."""

    __slots__ = ("__weakref__", "address", "memory", "nbytes", "pool", "size", "streams")

    def __init__(self, memory: CudaMemory, address: int, nbytes: int, size: int):
        self.memory, self.address, self.nbytes, self.size = memory, address, nbytes, size
        self.pool = memory.free
        self.streams: set[int] | None = None  # others that use it

    def __del__(self) -> None:
        self.memory.put_back(self.address, self.size, self.pool, self.streams)

    def used_by(self, stream: int) -> None:
        """Say that work of a stream, given by its handle, uses it."""
        if self.memory.pools.get(stream) is not self.pool:
            self.streams = (self.streams or set()) | {stream}

    @property
    def kernels(self) -> Any:
        """The kernels that can work on it."""
        return self.memory.kernels


class CudaMemory(Memory):
    """The memory of one GPU."""

    def __init__(self, driver: Driver, index: int):
        self.driver, self.index, self.device = driver, index, Device("cuda", index)
        self.capacity = driver.memory(index)
        self.free: dict[int, list[int]] = {}  # the current stream's
        self.pools = {0: self.free}  # each stream's
        self.waiting: list[tuple[list[Any], int, int, dict[int, list[int]]]] = []
        driver.followers.setdefault(index, []).append(self._follow)
        self.segments: dict[int, int] = {}  # whole allocations by address, with their sizes
        self.allocated = self.peak_allocated = self.reserved = self.peak_reserved = 0
        self.allocations = self.frees = self.retries = self.out_of_memories = 0
        self.limit = 1.0
        self.kernels: Any = None
        self.segment: Any = None  # the graph being captured
        self.pinned: PinnedMemory | None = None
        self.owned: dict[int, dict[int, list[int]]] = {}  # blocks of graphs, where each goes back
        self.doubtful = False  # whether an index may have been out of range

    def allocate(self, nbytes: int) -> DeviceBuffer:
        """A buffer; OutOfMemoryError if the device is full even after what is kept was given
        back."""
        size = rounded(nbytes)
        if self.waiting:
            self._collect()
        if self.segment is not None:
            return DeviceBuffer(self, self._for_graph(size, nbytes), nbytes, size)
        kept = self.free.get(size)
        address = kept.pop() if kept else self._fresh(size, nbytes)
        self.allocations += 1
        self.allocated += size
        if self.allocated > self.peak_allocated:
            self.peak_allocated = self.allocated
        return DeviceBuffer(self, address, nbytes, size)

    def _follow(self, stream: int) -> None:
        """Take blocks from another stream's pool."""
        self.free = self.pools.setdefault(self.driver.current(self.index), {})

    def _collect(self) -> None:
        """Blocks that the streams which used them are past."""
        if self.segment is None:
            waiting, self.waiting = self.waiting, []
            for events, address, size, pool in waiting:
                left = [e for e in events if not self.driver.reached(e)]
                if left:
                    self.waiting.append((left, address, size, pool))
                else:
                    pool.setdefault(size, []).append(address)

    def _for_graph(self, size: int, nbytes: int) -> int:
        """A block for work that is captured, which stays the graph's: one that the graph is done
        with, or a new one."""
        own = self.segment.free
        if own.get(size):
            return int(own[size].pop())
        kept = self.free.get(size)
        address = kept.pop() if kept else self._fresh(size, nbytes)
        self.owned[address] = own
        self.segment.blocks.append(address)
        self.allocations += 1
        self.allocated += size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return address

    def _fresh(self, size: int, nbytes: int) -> int:
        if size > SMALL:
            return self._segment(size, nbytes)
        first = self._segment(SEGMENT, nbytes)
        kept = self.free.setdefault(size, [])
        kept.extend(range(first + size, first + SEGMENT - size + 1, size))
        return first

    def _segment(self, size: int, nbytes: int) -> int:
        if self.reserved + size > self.capacity * self.limit:
            self.release_cached()
            if self.reserved + size > self.capacity * self.limit:
                if sum(give_back() for give_back in reserves):
                    self.release_cached()
            if self.reserved + size > self.capacity * self.limit:
                raise self._full(nbytes)
        try:
            address = self.driver.take(self.index, size)
        except Full:
            self.retries += 1
            self.release_cached()
            try:
                address = self.driver.take(self.index, size)
            except Full:
                raise self._full(nbytes) from None
        self.segments[address] = size
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return address

    def _full(self, nbytes: int) -> OutOfMemoryError:
        self.out_of_memories += 1
        free = self.driver.room(self.index)
        used = (
            f"{readable(self.allocated)} is in use by tensors, and "
            f"{readable(self.reserved - self.allocated)} is kept for later ones"
        )
        more = explained(Device("cuda", self.index), nbytes)
        return OutOfMemoryError(full(self.index, nbytes, self.capacity, free, used) + more)

    def put_back(
        self, address: int, size: int, pool: dict[int, list[int]], streams: set[int] | None
    ) -> None:
        """Keep a block for the next allocation of its size; one of a graph stays the graph's."""
        if self.owned or self.segment is not None:
            own = self.owned.get(address)
            if own is None and self.segment is not None:  # earlier work of the graph may use it
                own = self.owned[address] = self.segment.free
                self.segment.blocks.append(address)
            if own is not None:
                own.setdefault(size, []).append(address)
                return
        if streams:
            marks = [self.driver.mark(self.index, timed=False, stream=s) for s in streams]
            self.waiting.append((marks, address, size, pool))
        else:
            pool.setdefault(size, []).append(address)
        self.allocated -= size
        self.frees += 1

    def release_cached(self) -> None:
        """Give back to the device the segments of which no block is in use."""
        if not self.driver.is_open(self.index):
            return
        self.driver.finish(self.index)
        self._collect()
        for pool in self.pools.values():
            for size, kept in list(pool.items()):
                if size > SMALL:
                    for address in kept:
                        self._release(address)
                    del pool[size]
            self._release_small(pool)

    def _release_small(self, pool: dict[int, list[int]]) -> None:
        """Segments of small blocks all of which are free."""
        small = [a for a, s in self.segments.items() if s == SEGMENT]
        for first in small:
            inside = {
                size: [a for a in kept if first <= a < first + SEGMENT]
                for size, kept in pool.items()
                if size <= SMALL
            }
            size = next((s for s, found in inside.items() if found), None)
            if size is not None and len(inside[size]) == SEGMENT // size:
                gone = set(inside[size])
                pool[size] = [a for a in pool[size] if a not in gone]
                self._release(first)

    def _release(self, address: int) -> None:
        self.reserved -= self.segments.pop(address)
        self.driver.give(self.index, address)

    def adopt(self, storage: Any) -> None:
        """Nothing: the buffer itself goes back when it dies."""

    def read(self, buffer: Any) -> Any:
        """The bytes, copied to the host."""
        host = np.empty(buffer.nbytes, np.uint8)
        if buffer.nbytes:
            self.driver.download(self.index, buffer.address, host)
        if self.doubtful:
            self.driver.synchronize(self.index)
            self.kernels.check()
        return host

    def write(self, buffer: Any, host: Any) -> None:
        """Copy bytes in."""
        if buffer.nbytes:
            self.driver.upload(self.index, buffer.address, np.ascontiguousarray(host))

    def carry(self, source: Any, target: Any, blocking: bool) -> int:
        """Copy a storage of the host here, or one from here to the host; the bytes.

        What is page-locked goes by itself, in order with the stream, and the host waits for it only
        if `blocking`. Little that is to come here is put into such memory first, so that nobody
        waits for the stream.
        """
        upwards = target.device is self.device
        buffer, host = (
            (target.buffer, source.bytes()) if upwards else (source.buffer, target.bytes())
        )
        nbytes = int(host.nbytes)
        if not nbytes:
            return 0
        block = block_of(host)
        if block is None and upwards and self._sends(nbytes):
            assert self.pinned is not None
            given, host = host, self.pinned.allocate(nbytes)
            host[:] = given
            self._carry_pinned(buffer, host, block_of(host), upwards)
        elif block is None:
            move = self.driver.upload if upwards else self.driver.download
            move(self.index, buffer.address, host)
        else:
            self._carry_pinned(buffer, host, block, upwards)
            if blocking:
                self.driver.synchronize(self.index)
        if self.doubtful and not upwards and (blocking or block is None):
            self.driver.synchronize(self.index)
            self.kernels.check()
        return nbytes

    def _sends(self, nbytes: int) -> bool:
        """Whether so much ordinary memory of the host goes by way of page-locked memory."""
        if self.pinned is None or self.segment is not None:
            return False
        return nbytes <= SMALL and self.pinned.waiting_bytes < MOST_SENT

    def _carry_pinned(self, buffer: Any, host: Any, block: Any, upwards: bool) -> None:
        driver, index, place = self.driver, self.index, int(host.ctypes.data)
        if upwards:
            driver.send(index, buffer.address, place, host.nbytes)
        else:
            driver.fetch(index, place, buffer.address, host.nbytes)
        if self.segment is not None:  # each launch of the graph copies again
            self.segment.pinned.append(block)
        else:
            block.used(driver.mark(index, timed=False))

    def reset_peaks(self) -> None:
        """Let the peaks start from now."""
        self.peak_allocated, self.peak_reserved = self.allocated, self.reserved
