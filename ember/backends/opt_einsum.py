"""`torch.backends.opt_einsum`: the package of that name, which Ember does not use; its einsum
contracts from left to right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ember.errors import check

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """Whether einsum finds orders of contraction by opt_einsum: no.

    >>> import ember as torch
    >>> torch.backends.opt_einsum.is_available()
    False
    """
    return False


def get_opt_einsum() -> Any:
    """The package: None."""
    return None


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple[Any, Any]:
    """The settings in force. ValueError for any but these."""
    check(
        not _enabled and _strategy is None,
        ValueError,
        "opt_einsum is not available, so setting `enabled` to True will not reap the benefits of "
        "calculating an optimal path for einsum: contract in the order that you want",
    )
    return False, None


@contextmanager
def flags(enabled: bool | None = None, strategy: str | None = None) -> Iterator[None]:
    """`set_flags` for a block."""
    set_flags(enabled, strategy)
    yield
