"""Simulated GPUs as the provider of `cuda`: CPU kernels over memories that count, fill up, and
cannot be reached from the host but by a copy."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ember.backends.base import Backend, Kernels, Memory, Queue, _backends, register
from ember.backends.cpu.kernels import CpuKernels
from ember.backends.gpus import explained, full, readable, refuse_after_fork, reserves
from ember.backends.sim.specification import GpuModel, parse
from ember.device import device as Device
from ember.errors import OutOfMemoryError, check
from ember.kernel.call import Call
from ember.kernel.work import bytes_of, operations_of

BLOCK = 512  # allocations are rounded up to this, as PyTorch's caching allocator does
SEGMENT = 2 << 20  # what is reserved from the device at a time


def rounded(nbytes: int) -> int:
    """The bytes that an allocation takes."""
    return -(-nbytes // BLOCK) * BLOCK


class Lease:
    """Memory held by one storage, given back when it dies."""

    __slots__ = ("address", "memory", "nbytes")
    _addresses = itertools.count(0x7F0000000000, 1 << 32)

    def __init__(self, memory: SimMemory, nbytes: int):
        self.memory, self.nbytes = memory, nbytes
        self.address = memory.next_address
        memory.next_address += max(nbytes, BLOCK)

    def __del__(self) -> None:
        self.memory.give_back(self.nbytes)


class SimMemory(Memory):
    """The memory of one simulated GPU: capacity, statistics, out-of-memory errors."""

    def __init__(self, device: Device, model: GpuModel):
        self.device, self.capacity = device, model.memory
        self.allocated = self.peak_allocated = self.reserved = self.peak_reserved = 0
        self.allocations = self.frees = self.retries = self.out_of_memories = 0
        self.limit = 1.0
        self.next_address = next(Lease._addresses)

    def take(self, nbytes: int) -> None:
        """Count an allocation; OutOfMemoryError if it does not fit."""
        size = rounded(nbytes)
        if self.allocated + size > self.capacity * self.limit and reserves:
            sum(give_back() for give_back in reserves)
        if self.allocated + size > self.capacity * self.limit:
            self.out_of_memories += 1
            raise OutOfMemoryError(self._full(nbytes))
        self.allocated += size
        self.allocations += 1
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        self.reserved = max(self.reserved, -(-self.allocated // SEGMENT) * SEGMENT)
        self.peak_reserved = max(self.peak_reserved, self.reserved)

    def _full(self, nbytes: int) -> str:
        free = self.capacity - self.allocated
        used = f"{readable(self.allocated)} is in use by tensors"
        return full(self.device.index or 0, nbytes, self.capacity, free, used) + explained(
            self.device, nbytes
        )

    def give_back(self, nbytes: int) -> None:
        """Count a free."""
        self.allocated -= rounded(nbytes)
        self.frees += 1

    def allocate(self, nbytes: int) -> Any:
        """A buffer; OutOfMemoryError if the device is full."""
        self.take(nbytes)
        try:
            return np.empty(nbytes, np.uint8)
        except MemoryError as error:
            self.give_back(nbytes)
            raise OutOfMemoryError(
                self._full(nbytes) + " (the host that simulates it is full)"
            ) from error

    def adopt(self, storage: Any) -> None:
        """Let the storage give its memory back when it dies."""
        storage.lease = Lease(self, storage.nbytes)

    def adopt_foreign(self, storage: Any) -> None:
        """Give an address to memory that another process has allocated, and counts."""
        self.take(0)
        storage.lease = Lease(self, 0)

    def read(self, buffer: Any) -> Any:
        """The bytes."""
        return buffer.reshape(-1).view(np.uint8)

    def write(self, buffer: Any, host: Any) -> None:
        """Copy bytes in."""
        buffer.reshape(-1).view(np.uint8)[:] = host

    def release_cached(self) -> None:
        """Forget reserved memory that no tensor uses."""
        self.reserved = -(-self.allocated // SEGMENT) * SEGMENT

    def reset_peaks(self) -> None:
        """Let the peaks start from now."""
        self.peak_allocated, self.peak_reserved = self.allocated, self.reserved


class SimQueue(Queue):
    """In-order work with a simulated clock: each kernel takes the time that its bytes and
    operations would."""

    def __init__(self, model: GpuModel):
        self.model, self.now, self.launches = model, 0.0, 0

    now: float

    def advance(self, nbytes: float, operations: float) -> None:
        """A kernel that moves `nbytes` and computes `operations`."""
        self.now += 2e-6 + max(nbytes / self.model.bandwidth, operations / self.model.flops)
        self.launches += 1

    def synchronize(self) -> None:
        """Work is done when it is given; only the clock is simulated."""

    def record(self) -> float:
        """The simulated time."""
        return self.now


class SimKernels(Kernels):
    """The CPU's kernels, with results counted against the device's memory and time against its
    clock."""

    runs_cpu_kernels = True
    widens_half = CpuKernels.widens_half

    def __init__(self, memory: SimMemory, queue: SimQueue):
        self.cpu, self.memory, self.queue = CpuKernels(), memory, queue

    def copy(self, target: Any, source: Any) -> None:
        """Write an array into another."""
        self.cpu.copy(target, source)

    def prepare(self, call: Call) -> Callable[..., Any]:
        """The CPU's runner inside the device's accounting."""
        inner, memory, queue = self.cpu.prepare(call), self.memory, self.queue
        sizes = [] if call.writes else [spec.nbytes for spec in call.out_specs]
        moved, operations = bytes_of(call), operations_of(call)

        def run(*operands: Any) -> Any:
            taken = 0
            try:
                for size in sizes:
                    memory.take(size)
                    taken += 1
                made = inner(*operands)
            except BaseException:
                for size in sizes[:taken]:
                    memory.give_back(size)
                raise
            queue.advance(moved, operations)
            if not call.writes:
                for array in made if isinstance(made, tuple) else (made,):
                    if not sizes:
                        memory.take(array.storage.nbytes)
                    memory.adopt(array.storage)
            return made

        return run


class SimBackend(Backend):
    """The provider of `cuda` made of simulated GPUs that CUDA_VISIBLE_DEVICES lets through."""

    type = "cuda"
    simulated = True

    def __init__(self, count: int, model: GpuModel):
        self.physical = visible(count)
        self.model = model
        self.current_index = 0
        self.memories = [SimMemory(Device("cuda", i), model) for i in range(len(self.physical))]
        self.queues = [SimQueue(model) for _ in self.physical]
        self.all_kernels = [
            SimKernels(m, q) for m, q in zip(self.memories, self.queues, strict=True)
        ]

    def device_count(self) -> int:
        """How many GPUs are visible."""
        return len(self.physical)

    def current(self) -> int:
        """The current device."""
        return self.current_index

    def set_current(self, index: int) -> None:
        """Make a device the current one."""
        self.check_index(index)
        self.current_index = index

    def memory(self, index: int) -> SimMemory:
        """The memory of a device."""
        return self.memories[index]

    def kernels(self, index: int) -> SimKernels:
        """The kernels of a device."""
        return self.all_kernels[index]

    def queue(self, index: int) -> SimQueue:
        """The queue of a device."""
        return self.queues[index]

    def uuid(self, index: int) -> str:
        """An identifier that stays with the physical GPU."""
        return f"e3be5000-5151-0000-0000-{self.physical[index]:012x}"


def _refuse_after_fork(self: SimMemory, nbytes: int) -> None:
    refuse_after_fork()


def _forget_in_child() -> None:
    """What CUDA does: a process forked from one that has used GPUs cannot use them.

    To count them is not to use them.
    """
    backend = _backends.get("cuda")
    if isinstance(backend, SimBackend) and any(m.allocations for m in backend.memories):
        SimMemory.take = _refuse_after_fork  # type: ignore[method-assign]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def visible(count: int) -> list[int]:
    """The physical GPUs that CUDA_VISIBLE_DEVICES names, by CUDA's rules: the list ends at the
    first bad entry."""
    if "CUDA_VISIBLE_DEVICE" in os.environ:
        warnings.warn(
            "CUDA_VISIBLE_DEVICE is set, which CUDA does not read: the variable is "
            "CUDA_VISIBLE_DEVICES (with an S)",
            UserWarning,
            stacklevel=2,
        )
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return list(range(count))
    found: list[int] = []
    for item in text.split(","):
        item = item.strip()
        index = int(item) if item.isascii() and item.isdigit() else _by_uuid(item, count)
        if index is None or index >= count:
            break
        if index in found:  # CUDA shows no device at all when one is named twice
            return []
        found.append(index)
    return found


def _by_uuid(item: str, count: int) -> int | None:
    name = item.removeprefix("GPU-")
    matches = [
        i for i in range(count) if name and f"e3be5000-5151-0000-0000-{i:012x}".startswith(name)
    ]
    return matches[0] if len(matches) == 1 else None


_specification: list[str | None] = [None]


def configure(text: str | None) -> None:
    """Provide simulated GPUs as `cuda`, or none for None. ValueError for a bad specification;
    RuntimeError once GPUs have been used."""
    check(
        "cuda" not in _backends or text == _specification[0],
        RuntimeError,
        "the GPUs of this process are in use already: simulate them before their first use",
    )
    _specification[0] = text
    if text:
        count, model = parse(text)
        register("cuda", lambda: SimBackend(count, model))


def configured() -> str | None:
    """The specification in force."""
    return _specification[0]


def has_started() -> bool:
    """Whether GPUs have been used in this process."""
    return "cuda" in _backends


if os.environ.get("EMBER_SIMULATE_GPUS"):
    configure(os.environ["EMBER_SIMULATE_GPUS"])
