"""The ledger as a table in the terminal."""

from __future__ import annotations

from typing import Any

from ember.devices.amounts import size
from ember.source_lines import short


def table(record: Any, most: int | None) -> Any:
    """A rich table of the `most` entries with most bytes (None: all of them) and the totals."""
    from rich.table import Table

    entries, sums = record.entries, record.totals()
    with_modules = any(entry.module for entry in entries)
    made = Table(title="Copies between devices")
    for name in ("line", *(("module",) if with_modules else ()), "call", "from", "to"):
        made.add_column(name, overflow="fold")
    for name in ("copies", "waited for", "bytes", "ms"):
        made.add_column(name, justify="right")
    for entry in entries[:most]:
        texts = [f"{short(entry.file)}:{entry.line}"]
        texts += [entry.module] * with_modules
        figures = (entry.count, entry.blocking, size(entry.bytes), _milliseconds(entry.seconds))
        made.add_row(*texts, entry.call, entry.source, entry.target, *map(str, figures))
    if len(entries) > len(entries[:most]):
        made.add_row(f"... and {len(entries) - len(entries[:most])} more lines")
    made.add_section()
    blank = [""] * (3 + with_modules)
    for name, total in sums.items():
        if total["count"] or name == "all":
            figures = (total["count"], "", size(total["bytes"]), _milliseconds(total["seconds"]))
            made.add_row(name, *blank, *map(str, figures))
    for name, total in _per_step(record.steps).items():
        made.add_row(f"{name}, per step", *blank, *total)
    return made


def _per_step(steps: list[Any]) -> dict[str, tuple[str, ...]]:
    """The mean of each direction over the steps."""
    found = {}
    for name in steps[0] if steps else ():
        sums = [sum(step[name][field] for step in steps) for field in ("count", "bytes", "seconds")]
        count, nbytes, seconds = (value / len(steps) for value in sums)
        if count:
            found[name] = (f"{count:.1f}", "", size(nbytes), _milliseconds(seconds))
    return found


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f}"


def write(record: Any, file: Any) -> None:
    """Write the table, and the advice under it."""
    from rich.console import Console

    width = None if file.isatty() else 110  # a file has no width, and lines are long
    console = Console(file=file, width=width)
    console.print(record.table())
    for advice in record.advice():
        console.print(f"- {advice.pattern}: {advice.text}.", markup=False, highlight=False)
