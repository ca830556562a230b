"""What capturing counts: nothing."""

from __future__ import annotations

from collections import Counter, defaultdict

counters: dict[str, Counter[str]] = defaultdict(Counter)


def is_compile_supported(device_type: str) -> bool:
    """Whether functions can be compiled for a device: not yet."""
    return False
