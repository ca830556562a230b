"""`torch.random`: seeds and states of the default generators."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from ember.backends.base import backend_of, has_backend
from ember.core.generator import (
    default_generator,
    default_of,
    initial_seed,
    manual_seed,
    seed,
)
from ember.core.tensor import Tensor
from ember.device import device as Device
from ember.errors import check

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]


def get_rng_state() -> Tensor:
    """The state of the CPU's default generator: 5056 bytes, the same as PyTorch's.

    >>> import ember as torch
    >>> state = torch.get_rng_state()
    >>> a = torch.rand(2)
    >>> torch.set_rng_state(state)
    >>> bool((torch.rand(2) == a).all())
    True
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Let the CPU's default generator continue from a state of `get_rng_state`."""
    default_generator.set_state(new_state)


def thread_safe_generator() -> None:
    """The generator of a data loader's thread: None, so the default one; threads have no other."""
    return None


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """Draws inside leave no trace: the CPU's and the given GPUs' generators go back after.

    Without `devices`, all GPUs (a warning if there are several); nothing happens if `enabled` is
    False.

    >>> import ember as torch
    >>> before = torch.get_rng_state()
    >>> with torch.random.fork_rng(devices=[]):
    ...     _ = torch.rand(3)
    >>> bool((torch.get_rng_state() == before).all())
    True
    """
    if not enabled:
        yield
        return
    check(
        device_type in ("cpu", "cuda", "meta"),
        RuntimeError,
        f"torch has no module of `{device_type}`, you should register a module by "
        "`torch._register_device_module`.",
    )
    generators = [
        default_generator,
        *map(default_of, _forked(devices, device_type, _caller, _devices_kw)),
    ]
    states = [g.get_state() for g in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states):
            generator.set_state(state)


def _forked(devices: Iterable[Any] | None, kind: str, caller: str, keyword: str) -> list[Device]:
    """The GPUs whose generators a fork keeps."""
    if kind != "cuda":
        return []
    if devices is not None:
        return [Device(kind, d) if isinstance(d, int) else _with_index(Device(d)) for d in devices]
    count = backend_of(kind).device_count() if has_backend(kind) else 0
    if count > 1:
        warnings.warn(
            f"CUDA reports that you have {count} available devices, and you have used {caller} "
            "without explicitly "
            "specifying which devices are being used. For safety, we initialize *every* CUDA "
            "device by default, "
            "which can be quite slow if you have a lot of CUDAs. Name them with the keyword "
            f"`{keyword}`.",
            UserWarning,
            stacklevel=4,
        )
    return [Device(kind, index) for index in range(count)]


def _with_index(place: Device) -> Device:
    return (
        place if place.index is not None else Device(place.type, backend_of(place.type).current())
    )
