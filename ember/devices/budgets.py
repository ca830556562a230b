"""Budgets: how much a part of a program may copy."""

from __future__ import annotations

from typing import Any

from ember.devices.amounts import bytes_of, size
from ember.errors import check

_LIMITS = ("count", "bytes")
_DIRECTIONS = ("host to device", "device to host", "device to device")


class CopyBudgetError(AssertionError):
    """More was copied between devices than a budget allows."""


class Budget:
    """Limits on the number and the bytes of copies, in all and by direction.

    ValueError for a limit that is not understood.
    """

    def __init__(self, limits: Any, scope: str):
        self.scope = scope
        given = limits if isinstance(limits, dict) else {"bytes": limits}
        self.limits: dict[tuple[str, str], int] = {}
        for name, value in given.items():
            if name in _DIRECTIONS:
                inner = value if isinstance(value, dict) else {"bytes": value}
                for what, limit in inner.items():
                    self._limit(name, what, limit)
            else:
                self._limit("all", name, value)
        self.renew()

    def _limit(self, direction: str, what: str, value: Any) -> None:
        check(
            what in _LIMITS,
            ValueError,
            f"a copy budget has no limit {what!r}: it knows {', '.join(_LIMITS)}, and for each of "
            f"{', '.join(_DIRECTIONS)} a dict of these",
        )
        self.limits[direction, what] = bytes_of(value)

    def renew(self) -> None:
        """Start anew."""
        self.spent = dict.fromkeys(self.limits, 0)

    def spend(self, direction: str, nbytes: int, what: str) -> None:
        """Count a copy. CopyBudgetError if it is too much."""
        for key in self.limits:
            if key[0] not in ("all", direction):
                continue
            self.spent[key] += 1 if key[1] == "count" else nbytes
            if self.spent[key] > self.limits[key]:
                raise CopyBudgetError(self._message(key, what))

    def _message(self, key: tuple[str, str], what: str) -> str:
        def shown(amount: int) -> str:
            return f"{amount}" if key[1] == "count" else size(amount)

        way = "" if key[0] == "all" else f" from {key[0]}"
        copies = "copies" if key[1] == "count" else "copied"
        return (
            f"copy budget exceeded: {shown(self.spent[key])} {copies}{way} in {self.scope}, with "
            f"{shown(self.limits[key])} allowed. The copy that was too much: {what}. "
            "ember.devices.ledger() without a budget lists them all."
        )
