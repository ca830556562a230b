"""`FunctionalTensor`, for isinstance: writes are not rewritten while a program is captured."""

from __future__ import annotations

from typing import Any


class FunctionalTensor:
    """A tensor whose writes are rewritten; none is made here."""


def mb_unwrap_functional_tensor(tensor: Any) -> Any:
    """The tensor under a FunctionalTensor: itself."""
    return tensor


def disable_functional_mode() -> Any:
    """A block without such a mode."""
    from contextlib import nullcontext

    return nullcontext()
