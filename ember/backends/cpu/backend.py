"""The CPU as a device: one memory, one in-order queue that is always done, NumPy kernels."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ember.backends.base import Backend, Memory, Queue, register
from ember.backends.cpu import forks as _forks  # noqa: F401  children of threads that compute
from ember.backends.cpu.kernels import CpuKernels
from ember.device import CPU


class CpuMemory(Memory):
    """Host memory: buffers are vectors of bytes."""

    device = CPU

    def allocate(self, nbytes: int) -> Any:
        """A vector of `nbytes` bytes; MemoryError becomes PyTorch's RuntimeError."""
        try:
            return np.empty(nbytes, np.uint8)
        except (MemoryError, ValueError) as error:
            raise RuntimeError(
                f"DefaultCPUAllocator: not enough memory: you tried to allocate {nbytes} bytes."
            ) from error

    def adopt(self, storage: Any) -> None:
        """Nothing to account for."""

    def read(self, buffer: Any) -> Any:
        """The buffer itself."""
        return buffer.reshape(-1).view(np.uint8)

    def write(self, buffer: Any, host: Any) -> None:
        """Copy bytes in."""
        buffer.reshape(-1).view(np.uint8)[:] = host


class CpuQueue(Queue):
    """Work is done when it is given."""

    def synchronize(self) -> None:
        """Nothing is ever pending."""

    def record(self) -> float:
        """The host's clock."""
        return time.perf_counter()


class CpuBackend(Backend):
    """The provider of `cpu`."""

    type = "cpu"

    def __init__(self) -> None:
        self._memory, self._kernels = CpuMemory(), CpuKernels()

    def device_count(self) -> int:
        """One."""
        return 1

    def current(self) -> int:
        """The only one."""
        return 0

    def memory(self, index: int) -> Memory:
        """Host memory."""
        return self._memory

    def kernels(self, index: int) -> CpuKernels:
        """NumPy kernels."""
        return self._kernels


register("cpu", CpuBackend)
