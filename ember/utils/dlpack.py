"""`torch.utils.dlpack`: memory shared with other array libraries."""

from __future__ import annotations

from typing import Any

from ember.ops.exchange import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Any) -> Any:
    """A DLPack capsule of the tensor's memory; `from_dlpack` takes the tensor itself, too."""
    return tensor.__dlpack__()
