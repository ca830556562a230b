"""Drawings of a report, as text of SVG and HTML: nothing is fetched and nothing runs."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from math import cos, pi, sin
from typing import Any

from ember.devices.amounts import size

_COLUMNS = 200  # points in time that are drawn
_SERIES = 6  # colours; what is beyond is drawn as "other"


def stacked(
    events: list[Any],
    times: list[float],
    group: Callable[[Any], str],
    order: list[str] | None = None,
) -> str:
    """Memory over time as areas on one another, one for each group of blocks, with a legend.

    `events` are (bytes, block) as a tracker has them.
    """
    sums: dict[str, int] = {}
    for change, block in events:
        if change > 0:
            name = group(block)
            sums[name] = max(sums.get(name, 0), 0)
    columns, peaks = _columns(events, times, group)
    names = order or sorted(peaks, key=lambda name: -peaks[name])
    names = [name for name in names if peaks.get(name)]
    shown, rest = names[:_SERIES], names[_SERIES:]
    most = max((sum(column.values()) for column in columns), default=0) or 1
    areas, below = [], [0.0] * len(columns)
    for number, name in enumerate([*shown, *(["other"] if rest else [])]):
        members = rest if number >= len(shown) else [name]
        tops = [
            low + sum(column.get(m, 0) for m in members)
            for low, column in zip(below, columns, strict=True)
        ]
        areas.append(
            f'<path class="s{number}" d="{_area(below, tops, most)}">'
            f"<title>{escape(name)}</title></path>"
        )
        below = tops
    label = f"memory over time, at most {size(most)}"
    legend = [
        f'<li><i class="s{number}"></i>{escape(name)} <span class=faint>at most '
        f"{size(sum(peaks[m] for m in (rest if number >= len(shown) else [name])))}</span></li>"
        for number, name in enumerate([*shown, *(["other"] if rest else [])])
    ]
    span = times[-1] - times[0] if times else 0.0
    return (
        f"<figure><div class=scale><span>{size(most)}</span></div>"
        f'<svg class=chart viewBox="0 0 {len(columns)} 100" preserveAspectRatio="none" role="img" '
        f'aria-label="{label}">{"".join(areas)}</svg>'
        f"<div class=scale><span>0 s</span><span>{span:.2f} s</span></div>"
        f"<ul class=legend>{''.join(legend)}</ul></figure>"
    )


def _columns(
    events: list[Any], times: list[float], group: Callable[[Any], str]
) -> tuple[list[dict[str, int]], dict[str, int]]:
    """(for each column of time the moment at which most was held, the most of each group)."""
    if not events:
        return [{}], {}
    start, span = times[0], max(times[-1] - times[0], 1e-9)
    now: dict[str, int] = {}
    peaks: dict[str, int] = {}
    columns: list[dict[str, int]] = []
    total = best = 0
    last = -1
    for (change, block), moment in zip(events, times):
        column = min(int(_COLUMNS * (moment - start) / span), _COLUMNS - 1)
        while last < column:  # what was held goes on to be held
            columns.append(dict(now))
            last, best = last + 1, total
        name = group(block)
        now[name] = now.get(name, 0) + change
        peaks[name] = max(peaks.get(name, 0), now[name])
        total += change
        if total >= best:
            columns[last], best = dict(now), total
    while len(columns) < _COLUMNS:
        columns.append(dict(now))
    return columns, peaks


def _area(low: list[float], high: list[float], most: float) -> str:
    """The outline of an area between two lines, in steps."""
    forth = [f"{x},{100 - 100 * y / most:.1f} {x + 1},{100 - 100 * y / most:.1f}"
             for x, y in enumerate(high)]  # fmt: skip
    back = [f"{x + 1},{100 - 100 * y / most:.1f} {x},{100 - 100 * y / most:.1f}"
            for x, y in reversed(list(enumerate(low)))]  # fmt: skip
    return f"M{' '.join(forth)} {' '.join(back)}Z"


def placement(models: dict[str, Any], flows: dict[tuple[str, str], int]) -> str:
    """What is where: a box for each device with the parts of the models on it, and the copies that
    went between devices."""
    places: dict[str, list[tuple[str, str, int]]] = {}
    for parts in models.values():
        for part in parts:
            for place, nbytes in part.bytes.items():
                places.setdefault(place, []).append((part.path, part.kind, nbytes))
    if not places and not flows:
        return ""
    most = max((n for parts in places.values() for *_, n in parts), default=1)
    boxes = []
    for place in sorted(places):
        rows = "".join(
            f"<li><span>{escape(path)} <span class=faint>{escape(kind)}</span></span>"
            f"<span class=faint>{size(nbytes)}</span>"
            f'<b style="width:{max(100 * nbytes / most, 1):.0f}%"></b></li>'
            for path, kind, nbytes in places[place]
        )
        total = size(sum(n for *_, n in places[place]))
        boxes.append(f"<section><h3>{place} <span class=faint>{total}</span></h3>"
                     f"<ul class=parts>{rows}</ul></section>")  # fmt: skip
    return f"<div class=boxes>{''.join(boxes)}</div>{_arrows(flows)}"


def _arrows(flows: dict[tuple[str, str], int]) -> str:
    """Devices on a circle, and an arrow for each way that copies went, wider for more bytes."""
    if not flows:
        return ""
    names = sorted({name for pair in flows for name in pair})
    most, spots = max(flows.values()), {}
    for number, name in enumerate(names):
        angle = 2 * pi * number / len(names) + (0 if len(names) == 2 else -pi / 2)
        spots[name] = (180 + 125 * cos(angle), 130 + 100 * sin(angle))
    drawn = []
    for (source, target), nbytes in sorted(flows.items()):
        (ax, ay), (bx, by) = spots[source], spots[target]
        width = 1.5 + 7 * (nbytes / most) ** 0.5
        dx, dy = bx - ax, by - ay
        length = (dx * dx + dy * dy) ** 0.5 or 1
        px, py = -dy / length, dx / length  # to the side, so that there and back are two
        bend = 26
        start = (ax + dx * 0.2 + px * 9, ay + dy * 0.2 + py * 9)
        end = (bx - dx * 0.2 + px * 9, by - dy * 0.2 + py * 9)
        middle = ((ax + bx) / 2 + px * bend, (ay + by) / 2 + py * bend)
        text = f"{source} to {target}: {size(nbytes)}"
        drawn.append(
            f'<path class=flow stroke-width="{width:.1f}" marker-end="url(#tip)" '
            f'd="M{start[0]:.0f},{start[1]:.0f} Q{middle[0]:.0f},{middle[1]:.0f} '
            f'{end[0]:.0f},{end[1]:.0f}"><title>{text}</title></path>'
        )
    for name, (x, y) in spots.items():
        box = f'x="{x - 34:.0f}" y="{y - 15:.0f}" width="68" height="30" rx="6"'
        text = f'<text class=name x="{x:.0f}" y="{y + 5:.0f}">{name}</text>'
        drawn.append(f"<rect class=node {box}/>{text}")
    listed = "".join(
        f"<li>{source} → {target}: {size(nbytes)}</li>"
        for (source, target), nbytes in sorted(flows.items(), key=lambda item: -item[1])
    )
    return (
        '<div class=flows><svg viewBox="0 0 360 260" role="img" '
        'aria-label="copies between devices">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerUnits="userSpaceOnUse" '
        'markerWidth="14" markerHeight="14" orient="auto"><path class=tip d="M0,0 8,4 0,8Z"/>'
        f"</marker></defs>{''.join(drawn)}</svg><ul>{listed}</ul></div>"
    )
