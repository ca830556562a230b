"""The page of a report: one text, readable on a phone, light and dark."""

from __future__ import annotations

from html import escape
from typing import Any

from ember.backends.base import backend_of
from ember.devices.amounts import size
from ember.devices.autoplace import placements
from ember.devices.ledger_page import copies_of, document, table
from ember.devices.memory import KINDS
from ember.devices.report_charts import placement, stacked
from ember.source_lines import short

STYLE = """
:root { --s0: #0969da; --s1: #8250df; --s2: #bc4c00; --s3: #1a7f37; --s4: #bf8700; --s5: #cf222e;
  --s6: #8c959f; }
@media (prefers-color-scheme: dark) { :root { --s0: #4493f8; --s1: #ab7df8; --s2: #f0883e;
  --s3: #3fb950; --s4: #d29922; --s5: #f85149; --s6: #656c76; } }
.s0 { fill: var(--s0); background: var(--s0); } .s1 { fill: var(--s1); background: var(--s1); }
.s2 { fill: var(--s2); background: var(--s2); } .s3 { fill: var(--s3); background: var(--s3); }
.s4 { fill: var(--s4); background: var(--s4); } .s5 { fill: var(--s5); background: var(--s5); }
.s6 { fill: var(--s6); background: var(--s6); }
h3 { font-size: 1rem; margin: 1rem 0 .3rem; } figure { margin: .5rem 0 1.2rem; }
svg.chart { height: 11rem; border-bottom: 1px solid var(--line); display: block; }
.scale { display: flex; justify-content: space-between; color: var(--faint); font-size: .85rem; }
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1rem;
  font-size: .9rem; } .legend i { display: inline-block; width: .8em; height: .8em;
  border-radius: 2px; margin-right: .4em; } .legend li { margin: 0; overflow-wrap: anywhere; }
.facts { display: flex; flex-wrap: wrap; gap: .8rem 2rem; padding: 0; list-style: none; }
.facts b { display: block; font-size: 1.3rem; } .facts li { margin: 0; }
.boxes { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); }
.boxes section { border: 1px solid var(--line); border-radius: 8px; padding: .2rem .9rem .7rem; }
.parts { list-style: none; padding: 0; margin: 0; font-size: .9rem; }
.parts li { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 .5rem;
  overflow-wrap: anywhere; } .parts b { height: 5px; border-radius: 3px; background: var(--one);
  flex: none; margin-right: 100%; } .flows { display: grid; gap: 1rem; align-items: center;
  grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); max-width: 50rem; }
.flow { fill: none; stroke: var(--two); } .tip { fill: var(--two); }
.node { fill: var(--page); stroke: var(--faint); }
text.name { fill: var(--ink); font-size: 15px; text-anchor: middle; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border-left: 3px solid var(--s5);
  padding-left: .8rem; font-size: .85rem; } td.joined { white-space: normal; }
"""
_MOST_ROWS = 25


def page(record: Any) -> str:
    """The page of a report."""
    title = record.title or "A run"
    parts = [f"<style>{STYLE}</style><h1>{escape(title)}</h1>", _facts(record)]
    if record.error:
        parts.append(f"<h2>It ended with an error</h2><pre>{escape(record.error)}</pre>")
    parts += _memory(record)
    flows: dict[tuple[str, str], int] = {}
    for entry in record.ledger.entries:
        pair = (entry.source, entry.target)
        flows[pair] = flows.get(pair, 0) + entry.bytes
    drawn = placement(record.models, flows)
    parts.append(f"<h2>What is where</h2>{drawn or _nothing('No model ran.')}")
    chosen = placements()
    if chosen:
        items = "".join(f"<li>{_lines(str(p))}</li>" for p in chosen)
        parts.append(f"<h3>Chosen by cost</h3><ul>{items}</ul>")
    parts.append(f"<h2>Copies between devices</h2>{copies_of(record.ledger)}")
    parts += _kernels(record)
    return document(title, "\n".join(parts))


def _facts(record: Any) -> str:
    kernels, copies = record.kernels, record.ledger.totals()["all"]
    facts = [
        (f"{record.ended - record.started:.2f} s", "watched"),
        (str(record.steps), "optimizer steps"),
        (f"{sum(k.count for k in kernels):,}", "kernels"),
        (size(copies["bytes"]), f"in {copies['count']:,} copies"),
    ]
    for device in _devices(record):
        facts.append((size(record.peak(device).bytes), f"at most on {device}"))
    items = "".join(f"<li><b>{escape(value)}</b>{escape(name)}</li>" for value, name in facts)
    return f"<ul class=facts>{items}</ul>"


def _devices(record: Any) -> list[Any]:
    return sorted({block.device for _, block in record.events}, key=str)


def _memory(record: Any) -> list[str]:
    parts = ["<h2>Memory over time</h2>"]
    devices = _devices(record)
    if not devices:
        return [*parts, _nothing("Nothing was allocated on a GPU.")]
    for device in devices:
        chosen = [i for i, (_, block) in enumerate(record.events) if block.device is device]
        events = [record.events[i] for i in chosen]
        times = [record.times[i] for i in chosen]
        peak = record.peak(device)
        where = f" of {peak.module}" if peak.module else ""
        line = f" ({short(peak.file)}:{peak.line})" if peak.line else ""
        text = f"At most {size(peak.bytes)}{_of(device)}, in the {peak.phase}{where}{line}."
        parts.append(f"<h3>{device}, by kind</h3><p>{escape(text)}</p>")
        parts.append(stacked(events, times, lambda block: block.kind, list(KINDS)))
        parts.append(f"<h3>{device}, by module</h3>")
        parts.append(stacked(events, times, _module))
        parts.append(f"<h3>What {device} held at its peak</h3>{_peak_table(peak)}")
    return parts


def _of(device: Any) -> str:
    if device.type == "meta":
        return ""
    model = getattr(backend_of(device.type), "model", None)
    return f" of {size(model.memory)}" if model is not None else ""


def _module(block: Any) -> str:
    """The layer that memory belongs to, without its parts."""
    path, bracket, _ = block.module.partition("]")
    return f"{path}{bracket}" or "outside of modules"


def _peak_table(peak: Any) -> str:
    sums: dict[tuple[str, str, str], list[int]] = {}
    for block in peak.blocks:
        place = f"{short(block.file)}:{block.line}" if block.line else ""
        found = sums.setdefault((block.module, block.kind, place), [0, 0])
        found[0] += 1
        found[1] += block.bytes
    rows = sorted(sums.items(), key=lambda item: -item[1][1])
    shown: list[list[Any]] = [
        [module or "–", kind, place, count, size(nbytes)]
        for (module, kind, place), (count, nbytes) in rows[:_MOST_ROWS]
    ]
    if len(rows) > _MOST_ROWS:
        rest = rows[_MOST_ROWS:]
        count, nbytes = (sum(values[i] for _, values in rest) for i in (0, 1))
        shown.append([f"{len(rest)} more", "", "", count, size(nbytes)])
    return table(["module", "kind", "line", "tensors", "bytes"], shown, 2)


def _kernels(record: Any) -> list[str]:
    kernels = record.kernels
    if not kernels:
        return ["<h2>Kernels</h2>", _nothing("None ran.")]
    rows: list[list[Any]] = [
        [k.name, k.device, k.count, f"{k.seconds * 1e3:.2f}", size(k.bytes)]
        for k in kernels[:_MOST_ROWS]
    ]
    if len(kernels) > _MOST_ROWS:
        rest = kernels[_MOST_ROWS:]
        seconds = sum(k.seconds for k in rest)
        rows.append([f"{len(rest)} more", "", sum(k.count for k in rest),
                     f"{seconds * 1e3:.2f}", size(sum(k.bytes for k in rest))])  # fmt: skip
    parts = ["<h2>Kernels</h2>", table(["kernel", "device", "launches", "ms", "written"], rows, 3)]
    return parts + _fusions(record.fused)


def _fusions(fused: Any) -> list[str]:
    parts = ["<h2>Fusions</h2>"]
    if fused is None:
        text = "No second step was seen: fusions are read off the forward and backward of one."
        return [*parts, _nothing(text)]
    if not fused.after:
        return [*parts, _nothing(f"The step could not be joined: {fused.stopped}.")]
    text = (
        f"torch.compile makes {fused.after} kernels of the {fused.before} in the forward and "
        "backward of a step."
    )
    if fused.stopped:
        text += f" Only up to where {fused.stopped}."
    parts.append(f"<p>{escape(text)}</p>")
    rows = [[name, count] for name, count in fused.joined[:_MOST_ROWS]]
    if rows:
        parts.append(table(["joined into one", "times"], rows, 1, wide=True))
    return parts


def _lines(text: str) -> str:
    return "<br>".join(escape(line) for line in text.splitlines())


def _nothing(text: str) -> str:
    return f"<p class=faint>{escape(text)}</p>"
