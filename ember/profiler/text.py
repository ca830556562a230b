"""Times, bytes and tables as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

LIMITED = {"Name": 0, "Input Shapes": 1, "Source Location": 2}  # columns with a widest width


def time_text(microseconds: float) -> str:
    """1.250ms: microseconds in the unit that suits."""
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.3f}ms"
    return f"{microseconds:.3f}us"


def memory_text(nbytes: int) -> str:
    """1.50 KB: bytes in the unit that suits."""
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= scale:
            return f"{nbytes / scale:.2f} {unit}"
    return f"{nbytes} B"


def table_of(
    rows: Sequence[Any],
    columns: Sequence[tuple[str, Callable[[Any], str]]],
    *,
    total: str,
    widths: tuple[int, int, int],
    header: str | None = None,
) -> str:
    """A table with a rule above and below its head and its body, and the total under it."""
    cells = [[fill(row) for _, fill in columns] for row in rows]
    sizes = []
    for place, (title, _) in enumerate(columns):
        longest = max((len(row[place]) for row in cells), default=0) + 4
        limit = widths[LIMITED[title]] if title in LIMITED else 12
        width = min(longest, limit) if title in LIMITED else 12
        sizes.append(max(width, len(title)))
        for row in cells:
            if len(row[place]) > sizes[-1]:
                row[place] = row[place][: sizes[-1] - 3] + "..."
    rule = "  ".join("-" * size for size in sizes) + "  "
    head = _line([title for title, _ in columns], sizes)
    above = [] if header is None else ["=" * len(rule), header]
    lines = [*above, rule, head, rule, *(_line(row, sizes) for row in cells), rule]
    return "\n".join(lines) + "\n" + total


def _line(cells: Sequence[str], sizes: Sequence[int]) -> str:
    return "  ".join(cell.rjust(size) for cell, size in zip(cells, sizes, strict=True)) + "  "
