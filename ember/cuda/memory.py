"""What the memories of GPUs hold, now and at most, in bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ember.core.executor import settle
from ember.cuda.devices import backend, index_of, is_available
from ember.errors import check


def _memory(device: Any) -> Any:
    settle()  # work that waits takes memory
    return backend().memory(index_of(device))


def memory_allocated(device: Any = None) -> int:
    """Bytes in use by tensors; each allocation counts as PyTorch's allocator rounds it, to 512."""
    return int(_memory(device).allocated) if is_available() else 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors have used since the peak was reset."""
    return int(_memory(device).peak_allocated) if is_available() else 0


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from the device, in use or kept for the next allocation."""
    return int(_memory(device).reserved) if is_available() else 0


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes taken from the device since the peak was reset."""
    return int(_memory(device).peak_reserved) if is_available() else 0


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes of a GPU."""
    memory = _memory(device)
    return max(memory.capacity - max(memory.allocated, memory.reserved), 0), memory.capacity


def empty_cache() -> None:
    """Give back to the devices what no tensor uses."""
    if is_available():
        for index in range(backend().device_count()):
            backend().memory(index).release_cached()


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the peaks start from now."""
    _memory(device).reset_peaks()


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Let the counts of allocations start from now."""
    memory = _memory(device)
    memory.allocations = memory.frees = memory.out_of_memories = memory.retries = 0


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let this process use only a part of a GPU's memory. ValueError unless 0 <= fraction <= 1."""
    check(
        isinstance(fraction, float),
        TypeError,
        "Invalid type for fraction argument, must be `float`",
    )
    check(0 <= fraction <= 1, ValueError, f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _memory(device).limit = fraction


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """Counters of a GPU's memory under PyTorch's names, such as allocated_bytes.all.peak."""
    if not is_available():
        return OrderedDict()
    memory = _memory(device)
    found: dict[str, int] = {
        "num_alloc_retries": memory.retries,
        "num_ooms": memory.out_of_memories,
    }
    groups = {
        "allocated_bytes": (memory.allocated, memory.peak_allocated),
        "active_bytes": (memory.allocated, memory.peak_allocated),
        "reserved_bytes": (memory.reserved, memory.peak_reserved),
    }
    for name, (current, peak) in groups.items():
        found[f"{name}.all.current"], found[f"{name}.all.peak"] = current, peak
    live = memory.allocations - memory.frees
    found["allocation.all.current"], found["allocation.all.allocated"] = live, memory.allocations
    found["allocation.all.freed"] = memory.frees
    return OrderedDict(sorted(found.items()))


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A table of a GPU's memory: in use, at most, total."""
    index = index_of(device)
    memory = backend().memory(index)
    rows = [
        ("Allocated memory", memory.allocated, memory.peak_allocated),
        ("GPU reserved memory", memory.reserved, memory.peak_reserved),
    ]
    line = "|" + "=" * 62 + "|"
    text = [line, f"|{f'PyTorch CUDA memory summary, device ID {index}':^62}|", line]
    text.append(f"| {'Metric':<22}| {'Cur Usage':>12} | {'Peak Usage':>12} | {'Total':>8} |")
    for name, current, peak in rows:
        text.append(
            f"| {name:<22}| {_mib(current):>12} | {_mib(peak):>12} | {memory.capacity >> 20:>4} "
            "MiB |"
        )
    text.append(
        f"| {'Allocations':<22}| {memory.allocations - memory.frees:>12} | {'':>12} | "
        f"{memory.allocations:>8} |"
    )
    return "\n".join([*text, line])


def _mib(nbytes: int) -> str:
    return f"{nbytes / (1 << 20):.1f} MiB"


def memory_snapshot(device: Any = None) -> list[dict[str, Any]]:
    """The segments of each GPU's memory, one here: its size and what is in use."""
    found = []
    for index in range(backend().device_count()):
        memory = backend().memory(index)
        found.append(
            {
                "device": index,
                "total_size": memory.reserved,
                "allocated_size": memory.allocated,
                "blocks": [],
            }
        )
    return found


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved
