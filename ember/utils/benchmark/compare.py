"""`Compare`: measurements side by side."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from ember.utils.benchmark.measurement import (
    Measurement,
    select_unit,
    trim_sigfig,
    unit_to_english,
)

__all__ = ["Colorize", "Compare"]
BEST, GOOD, BAD, RESET = "\033[92m\033[1m", "\033[34m\033[1m", "\033[31m\033[1m", "\033[0m"


class Colorize(enum.Enum):
    """What colors stand for."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Tables of measurements: a table for each label, a column for each description, a row for each
    sub-label.

    >>> from ember.utils.benchmark import Compare, Measurement, TaskSpec
    >>> task = TaskSpec("x", "pass", label="L", sub_label="S", description="D")
    >>> print(Compare([Measurement(1, [0.002], task)]))
    [---- L ----]
             |  D
    1 threads: --
          S  |  2
    <BLANKLINE>
    Times are in milliseconds (ms).
    <BLANKLINE>
    """

    def __init__(self, results: Sequence[Measurement]):
        self._results: list[Measurement] = []
        self._trim, self._colorize, self._highlight = False, Colorize.NONE, False
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements. ValueError for anything else."""
        for found in results:
            if not isinstance(found, Measurement):
                raise ValueError(
                    f"Expected an instance of `Measurement`, got {type(found)} instead."
                )
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Show only the digits that the spread leaves."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Color times by how far from the best of their column, or row, they are."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark times whose spread is large."""
        self._highlight = True

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = list(dict.fromkeys(found.task_spec.label for found in merged))
        return "\n".join(
            self._table([found for found in merged if found.task_spec.label == label])
            for label in labels
        )

    def print(self) -> None:
        """Print the tables."""
        sys.stdout.write(f"{self}\n")

    def _table(self, group: list[Measurement]) -> str:
        unit, scale = select_unit(min(found.median for found in group))
        columns = list(dict.fromkeys(found.task_spec.description or "" for found in group))
        cells = {_key(found): self._cell(found, scale, group) for found in group}
        names = list(dict.fromkeys(_row(found) for found in group))
        shown = [_name(name, several=len({n[1] for n in names}) > 1) for name in names]
        left = max(len(name) for name in shown) + 6
        widths = [
            max(len(column), *(len(cells.get((*name, column), ("", ""))[0]) for name in names))
            for column in columns
        ]
        lines, threads = [], None
        for name, text in zip(names, shown, strict=True):
            if name[0] != threads:
                threads = name[0]
                lines.append(f"{threads} threads: ")
            found = [cells.get((*name, column), ("", "")) for column in columns]
            padded = [
                color + cell.rjust(width) + (RESET if color else "")
                for (cell, color), width in zip(found, widths, strict=True)
            ]
            lines.append(f"{('      ' + text).ljust(left)}  |  " + "  |  ".join(padded))
        head = (
            " " * left
            + "  |  "
            + "  |  ".join(
                column.rjust(width) for column, width in zip(columns, widths, strict=True)
            )
        )
        length = len(head)
        lines = [line.ljust(length, "-") if line.endswith("threads: ") else line for line in lines]
        title = f" {group[0].task_spec.label or group[0].task_spec.stmt} "
        top = "[" + title.center(max(length - 2, len(title)), "-") + "]"
        kind = unit_to_english(unit)
        return "\n".join([top, head, *lines, "", f"Times are in {kind}s ({unit}).", ""])

    def _cell(self, found: Measurement, scale: float, group: list[Measurement]) -> tuple[str, str]:
        """The text of a time, and its color."""
        value = found.median / scale
        if self._trim:
            value = trim_sigfig(value, found.significant_figures)
        text = f"{trim_sigfig(value, max(2, len(str(int(value))) + (value < 100))):g}"
        if self._highlight and found.has_warnings:
            text += f" (! {100 * found.iqr / found.median:.0f}%)"
        return text, self._color(found, group)

    def _color(self, found: Measurement, group: list[Measurement]) -> str:
        if self._colorize is Colorize.NONE:
            return ""
        same = [
            other.median
            for other in group
            if (
                _row(other) == _row(found)
                if self._colorize is Colorize.ROWWISE
                else other.task_spec.description == found.task_spec.description
            )
        ]
        best = min(same)
        if found.median <= best * 1.05:
            return BEST
        if found.median <= best * 1.25:
            return GOOD
        return BAD if found.median > best * 2 else ""


def _row(found: Measurement) -> tuple[Any, ...]:
    return found.task_spec.num_threads, found.task_spec.env, found.as_row_name


def _key(found: Measurement) -> tuple[Any, ...]:
    return (*_row(found), found.task_spec.description or "")


def _name(row: tuple[Any, ...], *, several: bool) -> str:
    return f"({row[1]}) {row[2]}" if several and row[1] else str(row[2])
