"""Real GPUs as the provider of `cuda`, where NVIDIA's driver and the cuda-bindings package are."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ember.backends.base import Backend, Queue, register
from ember.backends.cuda.draws import CudaPhilox
from ember.backends.cuda.driver import Driver, load_bindings
from ember.backends.cuda.kernels import CudaKernels
from ember.backends.cuda.memory import CudaMemory
from ember.backends.cuda.pinned import PinnedMemory
from ember.backends.sim.specification import GpuModel
from ember.errors import AcceleratorError


class CudaQueue(Queue):
    """The one stream that a GPU's work goes through."""

    def __init__(self, driver: Driver, index: int):
        self.driver, self.index = driver, index
        self.start: Any = None

    def synchronize(self) -> None:
        """Wait for the work."""
        if self.driver.is_open(self.index):
            self.driver.synchronize(self.index)

    def record(self) -> float:
        """The seconds from the first mark of this queue to one made now, when it is reached."""
        mark = self.mark()
        if self.start is None:
            self.start = mark
        return self.between(self.start, mark) / 1000

    def mark(self) -> Any:
        """An event here; the host does not wait for it."""
        return self.driver.mark(self.index)

    def between(self, start: Any, end: Any) -> float:
        """Milliseconds between two events."""
        return self.driver.elapsed(start, end)

    def reached(self, event: Any) -> bool:
        """Whether the work before an event is done."""
        return self.driver.reached(event)

    def wait_for(self, event: Any) -> None:
        """Wait for the work before an event."""
        self.driver.wait_for(event)

    def idle(self) -> bool:
        """Whether all work is done."""
        return not self.driver.is_open(self.index) or self.driver.idle(self.index)


class CudaBackend(Backend):
    """The provider of `cuda` made of the GPUs that the driver shows."""

    type = "cuda"
    simulated = False

    def __init__(self, driver: Driver):
        self.driver = driver
        self.current_index = 0

    # made at the first use of a GPU: to count them is none, and leaves a fork possible

    @cached_property
    def parts(self) -> list[tuple[CudaMemory, CudaQueue, CudaKernels]]:
        """What each GPU has."""
        found = []
        for index in range(self.driver.count()):
            memory = CudaMemory(self.driver, index)
            kernels = CudaKernels(self.driver, memory)
            found.append((memory, CudaQueue(self.driver, index), kernels))
        return found

    @property
    def physical(self) -> list[int]:
        """The numbers of the GPUs."""
        return list(range(self.driver.count()))

    def device_count(self) -> int:
        """How many GPUs there are."""
        return self.driver.count()

    def current(self) -> int:
        """The current device."""
        return self.current_index

    def set_current(self, index: int) -> None:
        """Make a device the current one."""
        self.check_index(index)
        self.current_index = index

    def memory(self, index: int) -> CudaMemory:
        """The memory of a device."""
        return self.parts[index][0]

    def kernels(self, index: int) -> CudaKernels:
        """The kernels of a device."""
        return self.parts[index][2]

    def queue(self, index: int) -> CudaQueue:
        """The queue of a device."""
        return self.parts[index][1]

    @cached_property
    def pinned(self) -> PinnedMemory:
        """Page-locked memory of the host."""
        driver = self.driver
        return PinnedMemory(
            lambda nbytes: driver.lock_pages(self.current_index, nbytes),
            driver.unlock_pages,
            driver.reached,
        )

    def page_locked(self, nbytes: int) -> Any:
        """A vector of bytes on the host that GPUs read and write by themselves."""
        return self.pinned.allocate(nbytes)

    def random_source(self, seed: int) -> CudaPhilox:
        """The stream of random numbers of a generator."""
        return CudaPhilox(seed)

    def uuid(self, index: int) -> str:
        """A GPU's identifier."""
        return self.driver.uuid(index)

    @property
    def model(self) -> GpuModel:
        """What the current GPU is."""
        driver, index = self.driver, self.current_index
        return GpuModel(
            driver.name(index),
            driver.memory(index),
            0.0,
            0.0,
            0.0,
            driver.capability(index),
            driver.attribute(index, "MULTIPROCESSOR_COUNT"),
        )


def provide() -> bool:
    """Register the machine's GPUs as `cuda`, if it has any that Ember can use."""
    bindings = load_bindings()
    if bindings is None:
        return False
    driver = Driver(bindings)
    try:
        if not driver.count():
            return False
    except AcceleratorError:  # there is a driver's library, and no GPU that it can start
        return False
    register("cuda", lambda: CudaBackend(driver))
    return True
