"""One pool of threads for the project's own kernels: `split` divides a range among them.

Kernels let other threads run while they work, so Python's threads do. A forked child starts its own
pool.
"""

from __future__ import annotations

import os
from _thread import _local
from collections.abc import Callable
from typing import Any

_inside = _local()  # `piece` is set while this thread runs a piece of something split
_pool: dict[str, Any] = {"executor": None, "count": None}


def count() -> int:
    """How many threads kernels use: what `set_count` said, OMP_NUM_THREADS, or the CPUs there
    are."""
    if _pool["count"] is None:
        named = os.environ.get("OMP_NUM_THREADS", "")
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
        _pool["count"] = (
            int(named) if named.isdigit() and int(named) else (available or os.cpu_count() or 1)
        )
    found: int = _pool["count"]
    return found


def set_count(threads: int) -> None:
    """Let kernels use so many threads."""
    _forget()
    _pool["count"] = threads


def _forget() -> None:
    executor, _pool["executor"] = _pool["executor"], None
    if executor is not None:
        executor.shutdown(wait=False)


def _executor(workers: int) -> Any:
    if _pool["executor"] is None:
        from concurrent.futures import ThreadPoolExecutor

        _pool["executor"] = ThreadPoolExecutor(workers, thread_name_prefix="ember")
    return _pool["executor"]


def is_inside() -> bool:
    """Whether this thread runs a piece of something split, so that it would split nothing."""
    return bool(getattr(_inside, "piece", False))


def split(part: Callable[[int, int], None], size: int, grain: int) -> None:
    """Run part(begin, end) over the whole of range(size), in pieces of at least `grain`, on as many
    threads as that gives work to; what a piece raises is raised here.

    What a piece itself splits stays in its thread: the others are busy with pieces, and waiting for
    them from inside one could go on for ever.
    """
    pieces = min(count(), size // max(grain, 1)) if size > grain else 1
    if pieces <= 1 or is_inside():
        part(0, size)
        return
    executor = _executor(count() - 1)
    bounds = [size * i // pieces for i in range(pieces + 1)]

    def piece(begin: int, end: int) -> None:
        _inside.piece = True
        try:
            part(begin, end)
        finally:
            _inside.piece = False

    futures = [executor.submit(piece, bounds[i], bounds[i + 1]) for i in range(1, pieces)]
    try:
        piece(bounds[0], bounds[1])
    finally:
        for future in futures:
            future.exception()
    for future in futures:
        future.result()


def _after_fork() -> None:
    _pool["executor"] = None  # its threads stayed with the parent


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
