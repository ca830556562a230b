"""`torch.backends.mkldnn`: oneDNN, which Ember does not use; its CPU kernels are its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ember.backends.precision import Precision
from ember.errors import check

enabled = deterministic = False
allow_tf32: bool | None = None
fp32_precision = "none"
conv, matmul, rnn = Precision(), Precision(), Precision()
VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2


def is_available() -> bool:
    """Whether oneDNN is in use: no.

    >>> import ember as torch
    >>> torch.backends.mkldnn.is_available()
    False
    """
    return False


def is_acl_available() -> bool:
    """Whether ARM's library for oneDNN is in use: no."""
    return False


def set_flags(
    _enabled: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[Any, ...]:
    """The settings in force, which cannot be changed: RuntimeError for turning oneDNN on."""
    check(
        not _enabled,
        RuntimeError,
        "torch.backends.mkldnn: Ember does not use oneDNN, so it cannot be turned on",
    )
    return enabled, deterministic, allow_tf32, fp32_precision


@contextmanager
def flags(
    enabled: bool = False,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """`set_flags` for a block."""
    set_flags(enabled)
    yield


class verbose:
    """A block in which oneDNN reports. AssertionError: Ember does not use it."""

    def __init__(self, level: int):
        self.level = level

    def __enter__(self) -> verbose:
        check(
            self.level == VERBOSE_OFF,
            AssertionError,
            "Failed to set MKLDNN into verbose mode. Please consider to disable this verbose "
            "scope: Ember does not use oneDNN",
        )
        return self

    def __exit__(self, *error: object) -> None:
        pass
