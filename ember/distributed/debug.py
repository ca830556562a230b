"""How much the distributed package says, as TORCH_DISTRIBUTED_DEBUG asks for."""

from __future__ import annotations

import enum
import os

from ember.errors import check


class DebugLevel(enum.IntEnum):
    """OFF, INFO or DETAIL."""

    OFF = 0
    INFO = 1
    DETAIL = 2


_level = [DebugLevel.OFF]


def get_debug_level() -> DebugLevel:
    """The level in force."""
    return _level[0]


def set_debug_level(level: DebugLevel) -> None:
    """Change the level."""
    _level[0] = DebugLevel(level)


def set_debug_level_from_env() -> None:
    """Take the level from TORCH_DISTRIBUTED_DEBUG."""
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    check(
        name in DebugLevel.__members__,
        RuntimeError,
        "The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL.",
    )
    _level[0] = DebugLevel[name]


set_debug_level_from_env()
