"""A plan as an SVG picture: the stages with their memories and cuts, and the timeline below."""

from __future__ import annotations

from html import escape
from typing import Any

from ember.devices.amounts import size
from ember.devices.planning.explain import headline, names_of, seconds
from ember.devices.planning.schedules import length

WIDTH, ROW, LEFT = 760, 46, 76
STYLE = """
.plan{font:13px system-ui,sans-serif;--ink:#1f2328;--soft:#656d76;--line:#d0d7de;--fill:#f6f8fa;
--weights:#2f6fde;--gradients:#8a63d2;--state:#c8811a;--rest:#2e8b57;--f:#2f6fde;--b:#c8811a}
@media (prefers-color-scheme:dark){.plan{--ink:#e6edf3;--soft:#9198a1;--line:#3d444d;
--fill:#151b23;--weights:#6ea4ff;--gradients:#b69cf0;--state:#e3a64a;--rest:#5cc28a;--f:#6ea4ff;
--b:#e3a64a}}
.plan text{fill:var(--ink)}.plan .soft{fill:var(--soft);font-size:11px}
.plan .box{fill:var(--fill);stroke:var(--line)}.plan .w{fill:var(--weights)}
.plan .g{fill:var(--gradients)}.plan .s{fill:var(--state)}.plan .r{fill:var(--rest)}
.plan .F{fill:var(--f)}.plan .B{fill:var(--b)}.plan .tiny{fill:#fff;font-size:9px}
"""


def drawing(plan: Any) -> str:
    """The picture; it scales with the page."""
    body = [_text(8, 20, headline(plan))]
    y = 34
    for position, part in enumerate(plan.found.parts):
        body += _stage(plan, part, y)
        y += ROW
        if position < len(plan.found.parts) - 1:
            body.append(f'<path d="M{LEFT + 14} {y - 8}v16" stroke="var(--soft)" fill="none"/>')
            body.append(_text(LEFT + 22, y + 4, f"{size(part.crossing)} each way", "soft"))
            y += 18
    y += 8
    body.append(_legend(y))
    body += _rows(plan, y + 26)
    height = y + 60 + 20 * len(plan.found.peaks)
    label = escape(headline(plan), quote=True)
    return (
        f'<svg class="plan" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="100%" role="img" aria-label="{label}"><style>{STYLE}</style>'
        f"{''.join(body)}</svg>"
    )


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{style}>{escape(text)}</text>'


def _bar(x: float, y: float, width: float, height: float, kind: str, title: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height}" '
        f'class="{kind}"><title>{escape(title)}</title></rect>'
    )


def _stage(plan: Any, part: Any, y: float) -> list[str]:
    """A device with its memory by kind, and the parts that run there."""
    place, peak = plan.machine.places[part.place], plan.found.peaks[part.place]
    whole = WIDTH - LEFT - 12
    made = [_text(8, y + 16, place.device), _bar(LEFT, y, whole, 14, "box", place.device)]
    x = float(LEFT)
    amounts = (
        ("w", "weights", peak.weights),
        ("g", "gradients", peak.gradients),
        ("s", "optimizer state", peak.state),
        ("r", "activations and workspace", peak.rest),
    )
    for kind, name, count in amounts:
        wide = whole * count / max(place.memory, peak.bytes, 1)
        made.append(_bar(x, y, wide, 14, kind, f"{name}: {size(count)}"))
        x += wide
    full = f"{size(peak.bytes)} of {size(place.memory)}"
    names = names_of(plan, part.atoms)
    names = names if len(names) < 70 else f"{names[:67]}..."
    made.append(_text(LEFT, y + 28, f"{names}: {full}", "soft"))
    return made


def _legend(y: float) -> str:
    found, x = [], float(LEFT)
    for kind, name in (
        ("w", "weights"),
        ("g", "gradients"),
        ("s", "optimizer state"),
        ("r", "activations and workspace"),
        ("F", "forward"),
        ("B", "backward"),
    ):
        found.append(_bar(x, y, 10, 10, kind, name) + _text(x + 14, y + 9, name, "soft"))
        x += 24 + 6.2 * len(name)
    return "".join(found)


def _rows(plan: Any, y: float) -> list[str]:
    """Who works when."""
    whole = length(plan.found.spans) or 1.0
    width = WIDTH - LEFT - 12
    made = []
    for row, place in enumerate(sorted(plan.found.peaks)):
        name = plan.machine.places[place].device
        top = y + 20 * row
        made += [_text(8, top + 11, name), _bar(LEFT, top, width, 14, "box", name)]
        for span in plan.found.spans:
            if span.device != place:
                continue
            x = LEFT + width * span.start / whole
            wide = width * (span.end - span.start) / whole
            title = f"{span.action} from {seconds(span.start)} to {seconds(span.end)}"
            made.append(_bar(x, top, wide - 0.5, 14, span.action.kind, title))
            if wide > 9:
                made.append(_text(x + 2, top + 11, str(span.action.micro_batch), "tiny"))
    bottom = y + 20 * len(plan.found.peaks) + 14
    made.append(_text(LEFT, bottom, f"{seconds(whole)} for forward and backward", "soft"))
    return made
