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

STREAMS = 32  # of a GPU and a priority, as in PyTorch: more are these again


class CudaQueue(Queue):
    """The streams of a GPU, known by their handles; 0 is the first one."""

    def __init__(self, driver: Driver, index: int):
        self.driver, self.index = driver, index
        self.start: Any = None
        self.streams: dict[int, list[int]] = {}  # of each priority
        self.given = 0

    def new_stream(self, priority: int = 0) -> int:
        """A stream beside the first one; after 32 they come again."""
        made = self.streams.setdefault(priority, [])
        if len(made) < STREAMS:
            made.append(self.driver.new_stream(self.index, priority))
            return made[-1]
        self.given += 1
        return made[self.given % STREAMS]

    def choose(self, stream: int) -> None:
        """Let work go to a stream from now on."""
        if stream or self.driver.is_open(self.index):
            self.driver.choose(self.index, stream)

    def follow(self, stream: int, event: Any) -> None:
        """Let later work of a stream wait for an event."""
        self.driver.follow(self.index, stream, event)

    def synchronize(self, stream: int | None = None) -> None:
        """Wait for the work of a stream, or of all."""
        if not self.driver.is_open(self.index):
            return
        if stream is None:
            self.driver.finish(self.index)
        else:
            self.driver.synchronize(self.index, stream)

    def record(self) -> float:
        """The seconds from the first mark of this queue to one made now, when it is reached."""
        mark = self.mark()
        if self.start is None:
            self.start = mark
        return self.between(self.start, mark) / 1000

    def mark(self, stream: int | None = None) -> Any:
        """An event in a stream; the host does not wait for it."""
        return self.driver.mark(self.index, stream=stream)

    def between(self, start: Any, end: Any) -> float:
        """Milliseconds between two events."""
        return self.driver.elapsed(start, end)

    def reached(self, event: Any) -> bool:
        """Whether the work before an event is done."""
        return self.driver.reached(event)

    def wait_for(self, event: Any) -> None:
        """Wait for the work before an event."""
        self.driver.wait_for(event)

    def idle(self, stream: int | None = None) -> bool:
        """Whether all work of a stream is done."""
        return not self.driver.is_open(self.index) or self.driver.idle(self.index, stream)


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
            memory.pinned = self.pinned
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
