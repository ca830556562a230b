"""Tools that watch and plan the use of devices: the copy ledger and its budgets, what moves leave
behind."""

from ember.devices.advice import Advice
from ember.devices.budgets import CopyBudgetError
from ember.devices.ledger import Ledger, ledger
from ember.devices.leftovers import Finding, check

__all__ = ["Advice", "CopyBudgetError", "Finding", "Ledger", "check", "ledger"]
