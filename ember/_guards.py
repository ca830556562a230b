"""`torch._guards`: whether a program is being captured on stand-ins for tensors. None is."""

from __future__ import annotations

from typing import Any


def active_fake_mode() -> None:
    """The mode in force that makes stand-ins: there is none."""


def detect_fake_mode(inputs: Any = None) -> None:
    """The mode that some inputs are stand-ins of: there is none."""
