"""`torch.cpu`: what GPUs' module offers, for code written for either."""

from __future__ import annotations

from typing import Any

from ember.cpu import amp


def is_available() -> bool:
    """Whether there is a CPU: always."""
    return True


def device_count() -> int:
    """One."""
    return 1


def current_device() -> str:
    """The only one."""
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Work on the CPU is done when it is given."""


__all__ = ["amp", "current_device", "device_count", "is_available", "synchronize"]
