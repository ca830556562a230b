"""Tools that watch and plan the use of devices: the copy ledger and its budgets."""

from ember.devices.advice import Advice
from ember.devices.budgets import CopyBudgetError
from ember.devices.ledger import Ledger, ledger

__all__ = ["Advice", "CopyBudgetError", "Ledger", "ledger"]
