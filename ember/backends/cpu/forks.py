"""Children of processes in which other threads import or compile what a first kernel needs.

A child has only the thread that forked. The locks of modules that another one was importing would
stay held in it, and LLVM's lock too, so that its own first kernel waited for ever.
"""

from __future__ import annotations

import importlib
import os
import sys
from _thread import RLock, get_ident
from typing import Any

compiling = RLock()  # held while LLVM works: a fork waits for that


def _after_in_child() -> None:
    compiling.release()
    _forget_imports()


def _forget_imports() -> None:
    """Let this process begin anew with modules whose import another thread had begun."""
    bootstrap: Any = getattr(importlib, "_bootstrap", None)
    locks: dict[str, Any] = getattr(bootstrap, "_module_locks", {})
    for name, reference in list(locks.items()):
        if getattr(reference(), "owner", None) not in (None, get_ident()):
            locks.pop(name, None)
            spec = getattr(sys.modules.get(name), "__spec__", None)
            if getattr(spec, "_initializing", False):
                del sys.modules[name]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=compiling.acquire, after_in_parent=compiling.release, after_in_child=_after_in_child
    )
