"""Tools that watch and plan the use of devices: the copy ledger and its budgets, what moves leave
behind, what fills a device's memory and whether a step fits."""

from importlib import import_module
from typing import Any

from ember.devices.advice import Advice
from ember.devices.autoplace import Placement, automatic, autoplace, placements, where
from ember.devices.budgets import CopyBudgetError
from ember.devices.fit import Fit, fits
from ember.devices.ledger import Ledger, ledger
from ember.devices.leftovers import Finding, check
from ember.devices.memory import MemoryTracker
from ember.devices.out_of_memory import WatchedMemory, track
from ember.devices.report import Report, report

__all__ = [
    "Advice",
    "CopyBudgetError",
    "Finding",
    "Fit",
    "Ledger",
    "MemoryTracker",
    "Placement",
    "Plan",
    "Report",
    "WatchedMemory",
    "automatic",
    "autoplace",
    "check",
    "fits",
    "ledger",
    "placements",
    "plan",
    "report",
    "track",
    "what_if",
    "where",
]


def __getattr__(name: str) -> Any:
    if name in ("Plan", "plan", "what_if"):  # the planner loads with its first use
        return getattr(import_module("ember.devices.planning"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
