"""What the driver tells of GPUs: processes, use, sensors (which simulated ones do not have)."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Any

from ember.cuda.devices import backend, index_of, is_available
from ember.cuda.memory import _memory, memory_stats

NO_SENSORS = (
    "a simulated GPU has no sensors, so there is no {}: run on a real one, and ask nvidia-smi"
)


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """`memory_stats` with a dict for each part of a name.

    >>> import ember as torch
    >>> torch.cuda.memory_stats_as_nested_dict() if not torch.cuda.is_available() else {}
    {}
    """
    return _nested(memory_stats(device))


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in flat.items():
        *parents, last = name.split(".")
        place = found
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return found


def host_memory_stats() -> dict[str, Any]:
    """Counters of the pinned memory of real GPUs under PyTorch's names, such as
    active_bytes.current; none without one: what is pinned then is ordinary memory."""
    pinned = _pinned()
    return OrderedDict() if pinned is None else OrderedDict(pinned.stats())


def _pinned() -> Any:
    return getattr(backend(), "pinned", None) if is_available() else None


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """`host_memory_stats` with a dict for each part of a name."""
    return _nested(host_memory_stats())


def reset_accumulated_host_memory_stats() -> None:
    """Let the counts of pinned memory start from now."""
    pinned = _pinned()
    if pinned is not None:
        pinned.reset_counts()


def reset_peak_host_memory_stats() -> None:
    """Let the peaks of pinned memory start from now."""
    pinned = _pinned()
    if pinned is not None:
        pinned.reset_peaks()


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of a GPU's memory that this process may use."""
    return float(_memory(device).limit)


def get_allocator_backend() -> str:
    """Which allocator serves GPUs: the native one."""
    return "native"


def device_memory_used(device: Any = None) -> int:
    """Bytes of a GPU that are taken, by tensors or kept for them."""
    memory = _memory(device)
    return int(max(memory.allocated, memory.reserved))


def list_gpu_processes(device: Any = None) -> str:
    """The processes that use a GPU, and how much of its memory. On a simulated one it is this
    process alone."""
    index = index_of(device)
    used = device_memory_used(index)
    if not used:
        return f"GPU:{index}\nno processes are running"
    return f"GPU:{index}\nprocess {os.getpid():>10d} uses {used / (1 << 20):>12.3f} MB GPU memory"


def _sensor(name: str, what: str) -> Any:
    def read(device: Any = None) -> int:
        index_of(device)
        raise NotImplementedError(NO_SENSORS.format(what))

    read.__name__ = read.__qualname__ = name
    read.__doc__ = f"The {what} of a GPU. NotImplementedError on a simulated one."
    return read


utilization = _sensor("utilization", "share of time in which it is busy")
memory_usage = _sensor("memory_usage", "share of time in which its memory is busy")
temperature = _sensor("temperature", "temperature")
power_draw = _sensor("power_draw", "power draw")
clock_rate = _sensor("clock_rate", "clock rate")


def is_tf32_supported() -> bool:
    """Whether products may round float32 to tf32: not where GPUs are simulated, or there is
    none."""
    return is_available() and not getattr(backend(), "simulated", False)


def get_gencode_flags() -> str:
    """The flags of nvcc that Ember was compiled with: none."""
    return ""
