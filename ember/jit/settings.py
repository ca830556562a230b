"""The settings of TorchScript's fusers: kept where they can be read back, without effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ember.errors import check

_onednn = [False]
_strategy: list[list[tuple[str, int]]] = [[("STATIC", 2), ("DYNAMIC", 10)]]
FUSERS = ("fuser0", "fuser1", "fuser2", "fuser3", "none")


def enable_onednn_fusion(enabled: bool) -> None:
    """Switch oneDNN fusion, which has nothing to fuse here."""
    _onednn[0] = bool(enabled)


def onednn_fusion_enabled() -> bool:
    """What `enable_onednn_fusion` was told last."""
    return _onednn[0]


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Set how often a fused kernel may be specialised; the setting before it is returned."""
    before, _strategy[0] = _strategy[0], list(strategy)
    return before


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block with graph optimisation switched; there are no graphs."""
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """A block with one of TorchScript's fusers; Exception for a name that is none of them."""
    check(name in FUSERS, Exception, f"unrecognized fuser option (name: {name})")
    yield


class strict_fusion:
    """A block whose ops a compiler must fuse: in Python a plain block."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: Any) -> None:
        return None
