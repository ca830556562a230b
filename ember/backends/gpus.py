"""What real and simulated GPUs say alike."""

from __future__ import annotations

from collections.abc import Callable

from ember.device import device as Device

explainers: list[Callable[[Device, int], str]] = []  # what trackers add to an out-of-memory error

# who holds memory that can be done without: each gives it back, and says whether there was any
reserves: list[Callable[[], bool]] = []


def readable(nbytes: int) -> str:
    """Bytes as PyTorch's messages write them: 2.00 GiB."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= scale:
            return f"{nbytes / scale:.2f} {unit}"
    return f"{nbytes} bytes"


def full(index: int, nbytes: int, capacity: int, free: int, used: str) -> str:
    """The message of an allocation that does not fit; `used` tells what takes the memory."""
    return (
        f"CUDA out of memory. Tried to allocate {readable(nbytes)}. GPU {index} has a total "
        f"capacity of {readable(capacity)} of which {readable(free)} is free. Of the allocated "
        f"memory {used}. Free some (del, smaller batches, checkpointing, half precision), or place "
        f"part of the model on another device; torch.cuda.memory_summary({index}) shows what is in "
        "use."
    )


def explained(device: Device, nbytes: int) -> str:
    """What trackers know about an allocation that does not fit, to be added to the message."""
    if not explainers:
        return " Inside `with torch.devices.track():` this error lists the live tensors by line."
    return "".join(explain(device, nbytes) for explain in explainers)


def refuse_after_fork() -> None:
    """The error of a process that was forked from one that has used GPUs."""
    raise RuntimeError(
        "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
        "must use the 'spawn' start method"
    )
