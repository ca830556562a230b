"""The copy ledger: what was copied between devices, how often, and from which line."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, NamedTuple

from ember.backends.base import CopyEvent, copy_observers
from ember.source_lines import user_line

DIRECTIONS = ("host to device", "device to host", "device to device")


class Entry(NamedTuple):
    """All copies of one kind that one line of the program made."""

    direction: str
    source: str
    target: str
    file: str
    line: int
    count: int
    bytes: int
    seconds: float
    blocking: int  # how many of them made the program wait
    pinned: int  # how many of them used page-locked memory


class Ledger:
    """A record of copies between devices, kept while its `with` block runs.

    Copies that never leave the host are not in it. Entries are sums by line and pair of devices, so
    that a long run needs no more memory than a short one. `entries`, `totals`, `to_json`, `table`
    and `print` read the record, during the block and after it.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str, str, int], list[float]] = {}
        self._lock = threading.Lock()  # copies come from any thread

    def __enter__(self) -> Ledger:
        copy_observers.append(self._observe)
        return self

    def __exit__(self, *exception: object) -> None:
        copy_observers.remove(self._observe)

    def _observe(self, event: CopyEvent) -> None:
        if event.source.type == event.target.type == "cpu":
            return
        key = (str(event.source), str(event.target), *user_line())
        with self._lock:
            sums = self._sums.setdefault(key, [0, 0, 0.0, 0, 0])
            new = (1, event.nbytes, event.seconds, bool(event.blocking), bool(event.pinned))
            sums[:] = [before + one for before, one in zip(sums, new, strict=True)]

    @property
    def entries(self) -> list[Entry]:
        """The sums by line and pair of devices, most bytes first."""
        with self._lock:
            sums = [(*key, *values) for key, values in self._sums.items()]
        found = [Entry(_direction(row[0], row[1]), *row) for row in sums]  # type: ignore[arg-type]
        return sorted(found, key=lambda entry: (-entry.bytes, entry.file, entry.line))

    def totals(self) -> dict[str, dict[str, float]]:
        """Count, bytes and seconds of each direction, and of all copies together ("all")."""
        sums = {name: {"count": 0, "bytes": 0, "seconds": 0.0} for name in (*DIRECTIONS, "all")}
        for entry in self.entries:
            for name in (entry.direction, "all"):
                for field in sums[name]:
                    sums[name][field] += getattr(entry, field)
        return sums

    def to_json(self) -> str:
        """`{"totals": ..., "entries": [...]}` as text; an entry has the fields of `Entry`."""
        import json

        entries = [entry._asdict() for entry in self.entries]
        return json.dumps({"totals": self.totals(), "entries": entries}, indent=2)

    def table(self, most: int | None = 20) -> Any:
        """A rich table of the `most` entries with most bytes (None: all of them) and the totals."""
        from rich.table import Table

        entries, sums = self.entries, self.totals()
        table = Table(title="Copies between devices")
        for name in ("line", "from", "to"):
            table.add_column(name, overflow="fold")
        for name in ("copies", "waited for", "bytes", "ms"):
            table.add_column(name, justify="right")
        for entry in entries[:most]:
            place = f"{_short(entry.file)}:{entry.line}"
            figures = (
                entry.count,
                entry.blocking,
                _size(entry.bytes),
                f"{entry.seconds * 1e3:.2f}",
            )
            table.add_row(place, entry.source, entry.target, *map(str, figures))
        if len(entries) > len(entries[:most]):
            table.add_row(f"... and {len(entries) - len(entries[:most])} more lines")
        table.add_section()
        for name, total in sums.items():
            if total["count"] or name == "all":
                figures = (
                    f"{total['count']}",
                    "",
                    _size(total["bytes"]),
                    f"{total['seconds'] * 1e3:.2f}",
                )
                table.add_row(name, "", "", *figures)
        return table

    def print(self, file: Any = None) -> None:
        """Write the table to `file`, by default the standard output."""
        from rich.console import Console

        file = file or sys.stdout
        width = None if file.isatty() else 110  # a file has no width, and lines are long
        Console(file=file, width=width).print(self.table())


def _direction(source: str, target: str) -> str:
    return DIRECTIONS[0 if source == "cpu" else 1 if target == "cpu" else 2]


def _short(file: str) -> str:
    """`file` as seen from the working directory, where that is shorter."""
    if not os.path.isabs(file):
        return file
    return min(file, os.path.relpath(file), key=len)


def _size(count: float) -> str:
    """A number of bytes in the largest unit that keeps it at 1 or more."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def ledger() -> Ledger:
    """A new record of copies, for a `with` block around the program or a part of it.

    >>> import ember as torch
    >>> with torch.devices.ledger() as copies:
    ...     x = torch.ones(3) + 1
    >>> copies.totals()["all"]["count"]
    0
    """
    return Ledger()
