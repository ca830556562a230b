"""Tools that watch and plan the use of devices: the copy ledger."""

from ember.devices.ledger import Ledger, ledger

__all__ = ["Ledger", "ledger"]
