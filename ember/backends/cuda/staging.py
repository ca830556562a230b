"""Large copies between ordinary host memory and a GPU, by way of page-locked memory.

The driver copies ordinary memory by one thread through a small buffer of its own. Here several
threads copy pieces into page-locked memory (or out of it), each with two places and a stream, so
that the host's copies and the GPU's overlap.
"""

from __future__ import annotations

import ctypes
from typing import Any

PIECE = 4 << 20
LEAST = 8 << 20  # bytes from which it pays
WORKERS = 6


class Staging:
    """The threads and the page-locked memory for one GPU's copies."""

    def __init__(self, driver: Any, index: int):
        from concurrent.futures import ThreadPoolExecutor

        self.driver, self.index = driver, index
        self.pool = ThreadPoolExecutor(WORKERS, "ember-copies")
        self.lanes = [Lane(driver, index) for _ in range(WORKERS)]

    def copy(self, address: int, host: int, nbytes: int, upwards: bool) -> None:
        """Copy `nbytes` from the host's address to the GPU's (`upwards`), or back; done when this
        returns."""
        self.driver.synchronize(self.index)
        jobs = [
            self.pool.submit(lane.copy, number, address, host, nbytes, upwards)
            for number, lane in enumerate(self.lanes)
        ]
        for job in jobs:
            job.result()


class Lane:
    """One thread's stream and places."""

    def __init__(self, driver: Any, index: int):
        self.driver, self.index = driver, index
        driver.use(index)
        self.stream = driver._ask("cuStreamCreate", 1)
        self.places = [int(driver._ask("cuMemHostAlloc", PIECE, 1)) for _ in range(2)]
        self.events = [driver._ask("cuEventCreate", 2) for _ in range(2)]  # without times

    def copy(self, number: int, address: int, host: int, nbytes: int, upwards: bool) -> None:
        """Copy every sixth piece, from the given one on."""
        ask, stream = self.driver._ask, self.stream
        self.driver.use(self.index)
        waiting: list[tuple[int, int] | None] = [None, None]  # what is to be copied out of a place

        def finish(slot: int) -> None:
            piece = waiting[slot]
            if piece is not None:
                ask("cuEventSynchronize", self.events[slot])
                if not upwards:
                    ctypes.memmove(host + piece[0], self.places[slot], piece[1])
                waiting[slot] = None

        starts = range(number * PIECE, nbytes, WORKERS * PIECE)
        for turn, start in enumerate(starts):
            slot, size = turn % 2, min(PIECE, nbytes - start)
            finish(slot)
            if upwards:
                ctypes.memmove(self.places[slot], host + start, size)
                ask("cuMemcpyHtoDAsync", address + start, self.places[slot], size, stream)
            else:
                ask("cuMemcpyDtoHAsync", self.places[slot], address + start, size, stream)
            ask("cuEventRecord", self.events[slot], stream)
            waiting[slot] = start, size
        for slot in (len(starts) % 2, (len(starts) + 1) % 2):
            finish(slot)
