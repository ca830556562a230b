"""Names of layouts in files."""

from __future__ import annotations

from typing import Any

from ember.errors import check
from ember.ops.formats import strided


def _get_layout(name: str) -> Any:
    """The layout of that name; RuntimeError for those that Ember does not have."""
    check(name == "torch.strided", RuntimeError, f"Ember has no layout {name!r}, only strided")
    return strided
