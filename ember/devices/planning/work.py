"""What a call costs a device."""

from __future__ import annotations

from typing import Any

from ember.kernel.work import bytes_of, operations_of


def work_of(call: Any) -> tuple[float, float, bool]:
    """(operations, bytes, whether in half precision) of a call."""
    half = any(s.dtype.is_floating_point and s.dtype.itemsize == 2 for s in call.out_specs)
    return operations_of(call), bytes_of(call), half


__all__ = ["work_of"]
