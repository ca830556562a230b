"""Tools that watch and plan the use of devices: the copy ledger and its budgets, what moves leave
behind, what fills a device's memory and whether a step fits."""

from ember.devices.advice import Advice
from ember.devices.budgets import CopyBudgetError
from ember.devices.fit import Fit, fits
from ember.devices.ledger import Ledger, ledger
from ember.devices.leftovers import Finding, check
from ember.devices.memory import MemoryTracker
from ember.devices.out_of_memory import WatchedMemory, track

__all__ = [
    "Advice",
    "CopyBudgetError",
    "Finding",
    "Fit",
    "Ledger",
    "MemoryTracker",
    "WatchedMemory",
    "check",
    "fits",
    "ledger",
    "track",
]
