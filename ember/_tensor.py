"""What PyTorch's pickles of tensor subclasses name: `torch._tensor`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ember.core.tensor import Tensor

__all__ = ["Tensor"]


def _rebuild_from_type_v2(func: Any, new_type: Any, args: Any, state: Any) -> Any:
    """A tensor of a subclass, or one with attributes of the user's."""
    pickling = import_module("ember.serialization.pickling")
    return pickling._rebuild_from_type_v2(func, new_type, args, state)
