"""Python's `multiprocessing`, whose queues and pipes send tensors without copying them.

A tensor that is sent moves into memory that both processes map: they share it, in both directions.
Everything else is Python's own, and `spawn` starts the processes of a program.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import *
from typing import Any

from ember.errors import check
from ember.missing import missing_attribute
from ember.multiprocessing import reductions
from ember.multiprocessing.reductions import init_reductions
from ember.multiprocessing.spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *multiprocessing.__all__,
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "init_reductions",
    "reductions",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]
_strategies = frozenset(("file_descriptor", "file_system"))
_strategy = ["file_descriptor"]

init_reductions()


def get_all_sharing_strategies() -> set[str]:
    """The names that set_sharing_strategy takes."""
    return set(_strategies)


def get_sharing_strategy() -> str:
    """The name in force."""
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how tensors are sent: "file_descriptor" or "file_system".

    Both names mean the same here: memory has a descriptor and no name in the file system, so that
    none is left behind.
    """
    check(
        new_strategy in _strategies,
        AssertionError,
        f"there is no sharing strategy {new_strategy!r}: there are {sorted(_strategies)}",
    )
    _strategy[0] = new_strategy


def __getattr__(name: str) -> Any:
    found = getattr(multiprocessing, name, None)
    if found is None or name.startswith("__"):
        raise missing_attribute("torch.multiprocessing", name, lambda: __all__)
    return found
