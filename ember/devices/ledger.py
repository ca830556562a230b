"""The copy ledger: what was copied between devices, how often, from which line of which module."""

from __future__ import annotations

import importlib
import sys
import threading
import weakref
from typing import Any, NamedTuple

from ember.backends.base import CopyEvent, copy_observers
from ember.core.executor import settle
from ember.devices.advice import Advice, advise
from ember.devices.budgets import Budget
from ember.nn.places import Place, here

DIRECTIONS = ("host to device", "device to host", "device to device")
_ADDED = 7  # how many sums each entry has


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
    module: str = ""  # the innermost module that ran, or whose tensors moved
    call: str = ""  # what the line called: item, to, cuda ...
    repeated: int = 0  # how many moved what had been moved before, unchanged
    returned: int = 0  # how many brought back, unchanged, what had come from the target


class Ledger:
    """A record of copies between devices, kept while its `with` block runs.

    Copies that never leave the host are not in it. Entries are sums by line, module and pair of
    devices, so that a long run needs no more memory than a short one. A step ends with each
    `optimizer.step()`, or where the program calls `step()` itself. `entries`, `totals`, `steps`,
    `advice`, `to_json`, `to_html`, `table` and `print` read the record, during the block and after.
    """

    def __init__(self, budget: Any = None, step_budget: Any = None) -> None:
        self._sums: dict[tuple[Any, ...], list[float]] = {}
        self._lock = threading.Lock()  # copies come from any thread
        self._budget = None if budget is None else Budget(budget, "this block")
        self._step_budget = None if step_budget is None else Budget(step_budget, "one step")
        self._now = _no_copies()  # those of the step that is going on
        self.steps: list[dict[str, dict[str, float]]] = []
        self._by_hand = False
        self._mark: Any = None
        self._origins: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._sent: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def __enter__(self) -> Ledger:
        optimizers = importlib.import_module("ember.optim.optimizer")  # slow to load for one name
        self._mark = optimizers.register_optimizer_step_post_hook(self._optimizer_stepped)
        settle()  # what waits is not part of it
        copy_observers.append(self._observe)
        return self

    def __exit__(self, *exception: object) -> None:
        copy_observers.remove(self._observe)
        self._mark.remove()

    # recording

    def _observe(self, event: CopyEvent) -> None:
        if event.source.type == event.target.type == "cpu":
            return
        source, target = str(event.source), str(event.target)
        place = here(sys._getframe(1))
        key = (source, target, *place)
        with self._lock:
            again, back = self._follow(event)
            sums = self._sums.setdefault(key, [0] * _ADDED)
            new = (1, event.nbytes, event.seconds, bool(event.blocking), bool(event.pinned))
            for position, one in enumerate((*new, again, back)):
                sums[position] += one
            direction = direction_of(source, target)
            self._now = self._now or _no_copies()
            _add(self._now[direction], event)
        for budget in (self._budget, self._step_budget):
            if budget is not None:
                budget.spend(direction, event.nbytes, _described(event, place))

    def _follow(self, event: CopyEvent) -> tuple[bool, bool]:
        """Whether the same unchanged data has gone this way before, and whether it came from where
        it goes now."""
        origin, result = event.origin, event.result
        if origin is None or result is None:
            return False, False
        sent = self._sent.setdefault(origin, {})
        again = sent.get(event.target) == origin.version
        sent[event.target] = origin.version
        came = self._origins.get(origin)
        back = came is not None and came == (event.target, origin.version)
        self._origins[result] = (event.source, result.version)
        return again, back

    def step(self) -> None:
        """End a step here; from the first call on, steps of optimizers no longer count as ends."""
        if not self._by_hand:
            self._by_hand = True
            self.steps.clear()
        self._end_step()

    def _optimizer_stepped(self, *_: Any) -> None:
        if not self._by_hand:
            self._end_step()

    def _end_step(self) -> None:
        with self._lock:
            self.steps.append(self._now)
            self._now = _no_copies()
        if self._step_budget is not None:
            self._step_budget.renew()

    # reading

    @property
    def entries(self) -> list[Entry]:
        """The sums by line, module and pair of devices, most bytes first."""
        with self._lock:
            sums = [(*key, *values) for key, values in self._sums.items()]
        found = []
        for source, target, file, line, call, module, *rest in sums:
            direction = direction_of(source, target)
            found.append(
                Entry(direction, source, target, file, line, *rest[:5], module, call, *rest[5:])
            )
        return sorted(found, key=lambda entry: (-entry.bytes, entry.file, entry.line))

    def totals(self) -> dict[str, dict[str, float]]:
        """Count, bytes and seconds of each direction, and of all copies together ("all")."""
        sums = _no_copies()
        sums["all"] = {"count": 0, "bytes": 0, "seconds": 0.0}
        for entry in self.entries:
            for name in (entry.direction, "all"):
                for field in sums[name]:
                    sums[name][field] += getattr(entry, field)
        return sums

    def advice(self) -> list[Advice]:
        """What the known patterns among the entries suggest, the most bytes first."""
        return advise(self.entries)

    def to_json(self) -> str:
        """`{"totals": ..., "steps": [...], "entries": [...], "advice": [...]}` as text; an entry
        has the fields of `Entry`."""
        import json

        found = {
            "totals": self.totals(),
            "steps": self.steps,
            "entries": [entry._asdict() for entry in self.entries],
            "advice": [advice._asdict() for advice in self.advice()],
        }
        return json.dumps(found, indent=2)

    def to_html(self) -> str:
        """The record as one page that needs nothing else: no network, no scripts."""
        page = importlib.import_module("ember.devices.ledger_page")  # needed by few programs
        return str(page.page(self))

    def save(self, path: str) -> None:
        """Write the record to a file: `to_html()` for a name that ends in .html, else JSON."""
        text = self.to_html() if str(path).endswith((".html", ".htm")) else self.to_json()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def table(self, most: int | None = 20) -> Any:
        """A rich table of the `most` entries with most bytes (None: all of them) and the totals."""
        tables = importlib.import_module("ember.devices.ledger_table")
        return tables.table(self, most)

    def print(self, file: Any = None) -> None:
        """Write the table and the advice to `file`, by default the standard output."""
        tables = importlib.import_module("ember.devices.ledger_table")
        tables.write(self, file or sys.stdout)


def direction_of(source: str, target: str) -> str:
    """The direction of a copy between two devices."""
    return DIRECTIONS[0 if source == "cpu" else 1 if target == "cpu" else 2]


def _no_copies() -> dict[str, dict[str, float]]:
    return {name: {"count": 0, "bytes": 0, "seconds": 0.0} for name in DIRECTIONS}


def _add(sums: dict[str, float], event: CopyEvent) -> None:
    sums["count"] += 1
    sums["bytes"] += event.nbytes
    sums["seconds"] += event.seconds


def _described(event: CopyEvent, place: Place) -> str:
    module = f" in {place.module}" if place.module else ""
    return (
        f"{place.file}:{place.line}{module}: {place.call or 'a copy'} of {event.nbytes} bytes from "
        f"{event.source} to {event.target}"
    )


def ledger(budget: Any = None, step_budget: Any = None) -> Ledger:
    """A new record of copies, for a `with` block around the program or a part of it.

    `budget` is what the block may copy, `step_budget` what each step may: a number of bytes, text
    such as "4MiB", or a dict with limits for "count", "bytes", or a direction ("device to host":
    {"count": 1}). The copy that exceeds it raises CopyBudgetError, an AssertionError.

    >>> import ember as torch
    >>> with torch.devices.ledger(budget="1MiB") as copies:
    ...     x = torch.ones(3) + 1
    >>> copies.totals()["all"]["count"]
    0
    """
    return Ledger(budget, step_budget)
