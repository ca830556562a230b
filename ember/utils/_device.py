"""`torch.utils._device`: a block whose factories make tensors on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.device import device as Device
from ember.utils._contextlib import context_decorator


class DeviceContext:
    """A block in which factories that are given no device use this one; `with torch.device(...)` is
    the same."""

    def __init__(self, device: Any):
        self.device = Device(device)

    def __enter__(self) -> DeviceContext:
        self.device.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self.device.__exit__(*exc)


def set_device(device: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the factories that the function calls make tensors on `device`."""
    return lambda func: context_decorator(lambda: DeviceContext(device), func)


def device_decorator(device: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """`func` with its factories making tensors on `device`."""
    return context_decorator(lambda: DeviceContext(device), func)
