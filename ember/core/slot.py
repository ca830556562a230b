"""Where the executor is: below everything that runs work, so that all of it can ask."""

from __future__ import annotations

from typing import Any

executor_slot: list[Any] = [None]  # None is eager, and costs an op nothing
