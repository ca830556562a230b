"""`torch._C._nn`: the functions of `torch.nn.functional` under the name that some programs use."""

from __future__ import annotations

import importlib
from typing import Any

from ember.core.tensor import Tensor
from ember.device import device as Device
from ember.dtypes import dtype as DType
from ember.missing import missing_attribute


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """(device, dtype, non_blocking, memory_format) that the arguments of a `.to(...)` mean."""
    place, dtype = kwargs.get("device"), kwargs.get("dtype")
    flags = []
    for value in args:
        if isinstance(value, Tensor):
            place, dtype = value.device, value.dtype
        elif isinstance(value, DType):
            dtype = value
        elif isinstance(value, (str, Device)) or (isinstance(value, int) and value is not True):
            if isinstance(value, bool):
                flags.append(value)
            else:
                place = value
        elif isinstance(value, bool):
            flags.append(value)
    other = kwargs.get("other")
    if other is not None:
        place, dtype = other.device, other.dtype
    non_blocking = kwargs.get("non_blocking", flags[0] if flags else False)
    place = place if place is None else Device(place)
    return place, dtype, bool(non_blocking), kwargs.get("memory_format")


def __getattr__(name: str) -> Any:
    functional = importlib.import_module("ember.nn.functional")
    if not name.startswith("__") and hasattr(functional, name):
        return getattr(functional, name)
    raise missing_attribute("torch._C._nn", name, lambda: dir(functional))
