"""Amounts of memory, as people write and read them."""

from __future__ import annotations

from ember.backends.sim.specification import UNITS
from ember.errors import check


def size(count: float) -> str:
    """A number of bytes in the largest unit that keeps it at 1 or more: 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def bytes_of(amount: int | float | str) -> int:
    """The bytes of a number or of text like "24GiB". ValueError for anything else."""
    if not isinstance(amount, str):
        check(amount >= 0, ValueError, f"an amount of memory cannot be negative: {amount}")
        return int(amount)
    text = amount.strip()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text[len(digits) :].lower() or "b"
    try:
        return int(float(digits) * UNITS[unit])
    except (ValueError, KeyError):
        raise ValueError(
            f"{amount!r} is not an amount of memory: a number with one of {', '.join(UNITS)}"
        ) from None
