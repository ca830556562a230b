"""Finding what waits for a GPU: the debug mode of synchronizing operations."""

from __future__ import annotations

from typing import Any

from ember.backends.base import CopyEvent, copy_observers
from ember.core.executor import settle
from ember.cuda.devices import backend
from ember.errors import check
from ember.source_lines import warn

MODES = {"default": 0, "warn": 1, "error": 2}
MESSAGE = "called a synchronizing CUDA operation"
_mode = [0]


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """What happens when the program waits for a GPU, as `.item()`, `.cpu()` and blocking copies do:
    "default" (0) nothing, "warn" (1) a warning, "error" (2) a RuntimeError that names the copy.

    AssertionError without a GPU; RuntimeError for another mode.
    """
    backend()
    if isinstance(debug_mode, str):
        check(
            debug_mode in MODES,
            RuntimeError,
            "invalid value of debug_mode, expected one of `default`, `warn`, `error`",
        )
        debug_mode = MODES[debug_mode]
    check(
        debug_mode in (0, 1, 2),
        RuntimeError,
        "invalid value of debug_mode, expected 0 or 1 or 2",
    )
    _mode[0] = int(debug_mode)
    if _observe in copy_observers:
        copy_observers.remove(_observe)
    if debug_mode:
        settle()
        copy_observers.append(_observe)


def get_sync_debug_mode() -> int:
    """The mode in force. AssertionError without a GPU."""
    backend()
    return _mode[0]


def _observe(event: CopyEvent) -> None:
    if not event.blocking:
        return
    what: Any = f"{MESSAGE}: a copy of {event.nbytes} bytes from {event.source} to {event.target}"
    if _mode[0] == 1:
        warn(what)
    else:
        raise RuntimeError(what)
