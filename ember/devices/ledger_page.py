"""The ledger as one HTML page: readable on a phone, light and dark, with nothing to fetch."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from ember.devices.amounts import size
from ember.source_lines import short

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #59636e; --line: #d1d9e0;
  --page: #fff; --one: #0969da; --two: #bc4c00; --three: #8250df; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --faint: #9198a1; --line: #3d444d;
  --page: #0d1117; --one: #4493f8; --two: #f0883e; --three: #ab7df8; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  margin: 0 auto; padding: 1rem; max-width: 70rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; } td.number, th.number { text-align: right;
  font-variant-numeric: tabular-nums; }
.faint { color: var(--faint); } li { margin: .4rem 0; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; } .one { fill: var(--one); } .two { fill: var(--two); }
.three { fill: var(--three); } text { fill: var(--faint); font-size: 11px; }
@media (max-width: 40rem) { th, td { white-space: normal; padding: .25rem .2rem;
  font-size: .76rem; } td.number { white-space: nowrap; } }
b.one, b.two, b.three { color: var(--one); } b.two { color: var(--two); }
b.three { color: var(--three); }
"""
COLOURS = ("one", "two", "three")  # of the directions


def document(title: str, body: str) -> str:
    """A whole page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>{body}</body></html>\n"
    )


def table(head: list[str], rows: list[list[Any]], numbers: int, wide: bool = False) -> str:
    """A table whose last `numbers` columns are figures; `wide` texts may take several lines."""
    kind = " class=joined" if wide else ""

    def row(cells: list[Any], tag: str) -> str:
        first = len(cells) - numbers
        return "".join(
            f"<{tag} class=number>{escape(str(cell))}</{tag}>"
            if i >= first
            else f"<{tag}{kind}>{_cell(cell)}</{tag}>"
            for i, cell in enumerate(cells)
        )

    body = "\n".join(f"<tr>{row(cells, 'td')}</tr>" for cells in rows)
    head_row = f"<thead><tr>{row(list(head), 'th')}</tr></thead>"
    return f"<div class=scroll><table>{head_row}<tbody>{body}</tbody></table></div>"


def _cell(cell: Any) -> str:
    """The text of a cell, which may take a new line where paths and names have their joints."""
    return re.sub(r"([/\]_+]|\.(?!py\b))(?=\S)", r"\1<wbr>", escape(str(cell)))


def page(record: Any) -> str:
    """The page of a ledger."""
    title = "Copies between devices"
    return document(title, f"<h1>{title}</h1>\n{copies_of(record)}")


def copies_of(record: Any) -> str:
    """What the page of a ledger shows, for a page that shows more."""
    totals, entries = record.totals(), record.entries
    everything = totals["all"]
    if not everything["count"]:
        return "<p class=faint>There were none.</p>"
    sums = f"{size(everything['bytes'])}, {everything['seconds'] * 1e3:.2f} ms"
    parts = [f"<p>{everything['count']} copies, {sums}.</p>", _directions(totals)]
    advice = record.advice()
    if advice:
        items = "".join(f"<li><b>{escape(a.pattern)}</b>: {escape(a.text)}.</li>" for a in advice)
        parts.append(f"<h2>What to do</h2><ul>{items}</ul>")
    if record.steps:
        parts.append(f"<h2>Bytes of each step</h2>{_bars(record.steps)}")
    rows = [
        [f"{short(e.file)}:{e.line}", e.module, e.call, f"{e.source} → {e.target}"]
        + [e.count, e.blocking, size(e.bytes), f"{e.seconds * 1e3:.2f}"]
        for e in entries
    ]
    head = ["line", "module", "call", "way", "copies", "waited for", "bytes", "ms"]
    parts.append(f"<h2>Lines</h2>{table(head, rows, 4)}")
    return "\n".join(parts)


def _directions(totals: dict[str, Any]) -> str:
    rows = [
        f"<li><b class={colour}>{name}</b>: {total['count']} copies, {size(total['bytes'])}, "
        f"{total['seconds'] * 1e3:.2f} ms</li>"
        for colour, (name, total) in zip(COLOURS, totals.items())
    ]
    return f"<ul>{''.join(rows)}</ul>"


def _bars(steps: list[Any]) -> str:
    """One stacked bar a step; of a long run, sums over equally many steps."""
    per_bar = -(-len(steps) // 200)
    groups = [steps[i : i + per_bar] for i in range(0, len(steps), per_bar)]
    heights = [
        [sum(step[name]["bytes"] for step in group) / len(group) for name in steps[0]]
        for group in groups
    ]
    most = max(1.0, *(sum(bar) for bar in heights))
    width, drawn = 700 / len(heights), []
    for index, bar in enumerate(heights):
        top = 150.0
        for colour, value in zip(COLOURS, bar):
            height = 130 * value / most
            top -= height
            drawn.append(
                f'<rect class="{colour}" x="{index * width:.2f}" y="{top:.2f}" '
                f'width="{max(width * 0.85, 0.5):.2f}" height="{height:.2f}"/>'
            )
    label = f"most: {size(most)} a step; {len(steps)} steps"
    return (
        f'<svg viewBox="0 15 700 137" role="img" aria-label="{label}">{"".join(drawn)}</svg>'
        f"<p class=faint>{label}</p>"
    )
