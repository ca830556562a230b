"""A pytest fixture: tests that fail when their program copies more than it may.

Name it in `conftest.py`: `pytest_plugins = ["ember.devices.pytest_plugin"]`. It is not loaded by
itself, so that test runs of other projects do not pay for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ember.devices.ledger import Ledger


class CopyBudgets:
    """What the fixture `copy_budget` gives: call it with limits before the code under test."""

    def __init__(self) -> None:
        self._open: list[Ledger] = []

    def __call__(self, budget: Any = None, step_budget: Any = None) -> Ledger:
        """A ledger that is kept until the test ends, and fails it when the budget is exceeded."""
        record = Ledger(budget, step_budget).__enter__()
        self._open.append(record)
        return record

    def close(self) -> None:
        """End all ledgers."""
        while self._open:
            self._open.pop().__exit__(None, None, None)


@pytest.fixture
def copy_budget() -> Iterator[CopyBudgets]:
    """Limits on copies between devices for one test: `copy_budget({"device to host": ...})`."""
    budgets = CopyBudgets()
    yield budgets
    budgets.close()
