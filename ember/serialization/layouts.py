"""Names of layouts in files."""

from __future__ import annotations

from typing import Any

from ember.errors import check
from ember.ops.formats import LAYOUTS


def _get_layout(name: str) -> Any:
    """The layout of that name; RuntimeError for those that Ember does not have."""
    found = LAYOUTS.get(str(name).removeprefix("torch."))
    known = ", ".join(LAYOUTS)
    check(found is not None, RuntimeError, f"Ember has no layout {name!r}, only {known}")
    return found
