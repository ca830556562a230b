"""`torch.accelerator`: the one kind of accelerator of this program, whatever it is: GPUs, real or
simulated, or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember import cpu, cuda, mps, mtia, xpu
from ember.device import device as Device
from ember.errors import check

_OF_GPUS = {  # the same functions of torch.cuda
    "empty_cache": "empty_cache",
    "get_memory_info": "mem_get_info",
    "max_memory_allocated": "max_memory_allocated",
    "max_memory_reserved": "max_memory_reserved",
    "memory_allocated": "memory_allocated",
    "memory_reserved": "memory_reserved",
    "memory_stats": "memory_stats",
    "reset_accumulated_memory_stats": "reset_accumulated_memory_stats",
    "reset_peak_memory_stats": "reset_peak_memory_stats",
    "current_device_index": "current_device",
    "current_device_idx": "current_device",
    "current_stream": "current_stream",
    "set_device_index": "set_device",
    "set_device_idx": "set_device",
    "set_stream": "set_stream",
    "synchronize": "synchronize",
}
__all__ = ["current_accelerator", "device_count", "device_index", "is_available", *_OF_GPUS]


def is_available() -> bool:
    """Whether there is an accelerator.

    >>> import ember as torch
    >>> torch.accelerator.is_available() == torch.cuda.is_available()
    True
    """
    return cuda.is_available()


def device_count() -> int:
    """How many there are."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> Device | None:
    """The kind of accelerator, as a device without index; None if there is none."""
    return Device("cuda") if cuda.is_available() else None


def get_device_module(device: Any = None) -> Any:
    """The module of a device's kind, `torch.cuda` or `torch.cpu`: of the accelerator, if None.

    >>> import ember as torch
    >>> torch.get_device_module("cpu") is torch.cpu
    True
    """
    if device is None:
        place = current_accelerator() or Device("cpu")
    else:
        place = Device(device)
    modules = {"cpu": cpu, "cuda": cuda, "xpu": xpu, "mps": mps, "mtia": mtia}
    check(
        place.type in modules,
        RuntimeError,
        f"Device '{place.type}' does not have a corresponding module registered as "
        f"'torch.{place.type}'.",
    )
    return modules[place.type]


class device_index:
    """A block in which the accelerator of this index is the current one; None changes nothing."""

    def __init__(self, device: int | None):
        self.index = device

    def __enter__(self) -> None:
        if self.index is not None:
            _check_available()
            self.before = cuda.current_device()
            cuda.set_device(self.index)

    def __exit__(self, *exc: object) -> None:
        if self.index is not None:
            cuda.set_device(self.before)


def _check_available() -> None:
    check(
        cuda.is_available(),
        RuntimeError,
        "Cannot access accelerator device when none is available: there is no GPU. For simulated "
        "ones run the program with `ember run --gpus 1`.",
    )


def _of_gpus(name: str, function: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        _check_available()
        return getattr(cuda, function)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`torch.cuda.{function}` of the accelerator; RuntimeError if there is none."
    return call


for _name, _function in _OF_GPUS.items():
    globals()[_name] = _of_gpus(_name, _function)


def _get_available_device_type() -> str | None:
    """The kind of the accelerator; None without one."""
    found = current_accelerator()
    return None if found is None else str(found.type)


def _get_device_module(device_type: str) -> Any:
    """The module of a kind of device: `torch.cuda` of "cuda". RuntimeError if there is none."""
    kinds = {"cpu": cpu, "cuda": cuda, "mps": mps, "mtia": mtia, "xpu": xpu}
    check(isinstance(device_type, str), TypeError, "attribute name must be string")
    check(
        device_type in kinds,
        RuntimeError,
        f"Device '{device_type}' does not have a corresponding module registered as "
        f"'torch.{device_type}'.",
    )
    return kinds[device_type]
