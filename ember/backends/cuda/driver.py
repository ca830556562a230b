"""CUDA's driver and run-time compiler, through NVIDIA's cuda-bindings: what Ember asks of a GPU.

Nothing here knows tensors. Every failure becomes an AcceleratorError with CUDA's own words, a
refused allocation a `Full`.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ember.backends import kept
from ember.backends.cuda.staging import LEAST, Staging
from ember.backends.cuda.visible import visible_count
from ember.backends.gpus import refuse_after_fork
from ember.errors import AcceleratorError

FULL = 2  # CUDA_ERROR_OUT_OF_MEMORY
PINNED, PORTABLE, MAPPED = 1 << 16, 1, 2  # bytes that go by page-locked memory; its flags
NOT_READY = 600  # CUDA_ERROR_NOT_READY
UNTIMED = 2  # CU_EVENT_DISABLE_TIMING
TYPES: dict[str, Any] = {
    "p": ctypes.c_uint64,
    "q": ctypes.c_int64,
    "i": ctypes.c_uint32,
    "d": ctypes.c_double,
}


class Full(Exception):
    """The device has no room for an allocation."""


def load_bindings() -> Any:
    """cuda.bindings' driver module, or None where it or the driver is missing. CUDA is not
    started."""
    try:
        from cuda.bindings import driver

        ctypes.CDLL("libcuda.so.1")
    except (ImportError, OSError):
        return None
    return driver


class _Thread(threading.local):
    """Which GPU the calls of a thread go to."""

    index = -1


class Driver:
    """The GPUs of this machine, as the driver shows them."""

    def __init__(self, bindings: Any):
        self.cuda = bindings
        self._devices: list[Any] | None = None
        self._contexts: dict[int, Any] = {}
        self._streams: dict[int, Any] = {}  # the one that work goes to now, of each GPU
        self._default: dict[int, Any] = {}
        self._places: dict[int, Any] = {}  # its handle, where launches find it
        self.followers: dict[int, list[Callable[[int], None]]] = {}  # are told of another stream
        self._thread = _Thread()
        self.lock = threading.Lock()  # held from storing a launch's arguments to its end
        self._launch: Any = None
        self._staging: dict[int, Staging] = {}
        self._pinned = 0  # the address of a little page-locked memory
        os.register_at_fork(after_in_child=self._lost)

    def _lost(self) -> None:
        if self._devices is not None:
            self._contexts.clear()
            self._ask = _refuse  # type: ignore[method-assign]
            self._thread = _Thread()  # so that its next call asks for a context

    @property
    def devices(self) -> list[Any]:
        """The driver's handles of the GPUs. The first look starts CUDA, which a child process
        forked after it cannot use."""
        if self._devices is None:
            self._ask("cuInit", 0)
            count = int(self._ask("cuDeviceGetCount"))
            self._devices = [self._ask("cuDeviceGet", i) for i in range(count)]
        return self._devices

    def _ask(self, name: str, *arguments: Any) -> Any:
        """The result of a driver call; AcceleratorError if it fails."""
        status, *found = getattr(self.cuda, name)(*arguments)
        if status:
            self._failed(status, name)
        return found[0] if len(found) == 1 else tuple(found)

    def _failed(self, status: Any, name: str) -> None:
        code = int(status)
        if code == FULL:
            raise Full(name)
        _, text = self.cuda.cuGetErrorString(self.cuda.CUresult(code))
        words = (text or b"unknown error").decode()
        raise AcceleratorError(
            f"CUDA error: {words} ({name}). CUDA kernel errors might be reported at a later "
            "call, so the line shown may be wrong; EMBER_LAUNCH_BLOCKING=1 waits for each one."
        )

    # what there is

    def count(self) -> int:
        """How many GPUs there are, without starting CUDA where that can be told."""
        found = visible_count() if self._devices is None else None
        return len(self.devices) if found is None else found

    def attribute(self, index: int, name: str) -> int:
        """An attribute of a GPU, by the end of CUDA's name for it."""
        which = getattr(self.cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._ask("cuDeviceGetAttribute", which, self.devices[index]))

    def name(self, index: int) -> str:
        """A GPU's name."""
        found = self._ask("cuDeviceGetName", 256, self.devices[index])
        return str(found.split(b"\0")[0].decode())

    def memory(self, index: int) -> int:
        """A GPU's memory in bytes."""
        return int(self._ask("cuDeviceTotalMem", self.devices[index]))

    def capability(self, index: int) -> tuple[int, int]:
        """A GPU's compute capability."""
        return (
            self.attribute(index, "COMPUTE_CAPABILITY_MAJOR"),
            self.attribute(index, "COMPUTE_CAPABILITY_MINOR"),
        )

    def uuid(self, index: int) -> str:
        """A GPU's identifier."""
        raw = bytes(self._ask("cuDeviceGetUuid", self.devices[index]).bytes).hex()
        return "-".join((raw[:8], raw[8:12], raw[12:16], raw[16:20], raw[20:32]))

    # contexts and streams

    def use(self, index: int) -> Any:
        """Make a GPU the one that calls of this thread go to; its stream."""
        if self._thread.index != index:
            context = self._contexts.get(index)
            if context is None:
                context = self._ask("cuDevicePrimaryCtxRetain", self.devices[index])
                self._contexts[index] = context
            self._ask("cuCtxSetCurrent", context)
            if index not in self._streams:
                stream = self._ask("cuStreamCreate", 1)  # not blocked by stream 0
                self._streams[index] = self._default[index] = stream
                self._places[index] = ctypes.c_void_p(int(stream))
            self._thread.index = index
        return self._streams[index]

    def new_stream(self, index: int, priority: int = 0) -> int:
        """The handle of another stream of a GPU; it lasts as long as the process."""
        self.use(index)
        return int(self._ask("cuStreamCreateWithPriority", 1, priority))

    def choose(self, index: int, stream: int) -> None:
        """Let work go to a stream from now on, given by its handle; 0 is the first one."""
        self.use(index)
        wanted = self.cuda.CUstream(stream) if stream else self._default[index]
        if int(wanted) == self._places[index].value:
            return
        self._streams[index] = wanted
        self._places[index].value = int(wanted)
        for follow in self.followers.get(index, ()):
            follow(int(wanted))

    def current(self, index: int) -> int:
        """The handle of the stream that work goes to; 0 for the first one."""
        stream = self.use(index)
        return 0 if stream is self._default[index] else int(stream)

    def _stream(self, index: int, handle: int | None) -> Any:
        stream = self.use(index)
        if handle is None:
            return stream
        return self.cuda.CUstream(handle) if handle else self._default[index]

    def follow(self, index: int, stream: int, event: Any) -> None:
        """Let later work of a stream wait for an event."""
        self._ask("cuStreamWaitEvent", self._stream(index, stream), event.handle, 0)

    def is_open(self, index: int) -> bool:
        """Whether a GPU has been used."""
        return index in self._contexts

    def synchronize(self, index: int, stream: int | None = None) -> None:
        """Wait for all work of a GPU's stream, the current one if none is given."""
        self._ask("cuStreamSynchronize", self._stream(index, stream))

    def finish(self, index: int) -> None:
        """Wait for all work of all streams of a GPU."""
        self.use(index)
        self._ask("cuCtxSynchronize")

    def mark(self, index: int, timed: bool = True, stream: int | None = None) -> Any:
        """An event at this place of a GPU's stream, the current one if none is given."""
        place = self._stream(index, stream)
        event = Event(self, self._ask("cuEventCreate", 0 if timed else UNTIMED))
        self._ask("cuEventRecord", event.handle, place)
        return event

    def elapsed(self, start: Any, end: Any) -> float:
        """Milliseconds between two events, waited for."""
        self._ask("cuEventSynchronize", start.handle)
        self._ask("cuEventSynchronize", end.handle)
        return float(self._ask("cuEventElapsedTime", start.handle, end.handle))

    def reached(self, event: Any) -> bool:
        """Whether the work before an event is done."""
        (status,) = self.cuda.cuEventQuery(event.handle)
        if int(status) not in (0, NOT_READY):
            self._failed(status, "cuEventQuery")
        return int(status) == 0

    def wait_for(self, event: Any) -> None:
        """Wait until the work before an event is done."""
        self._ask("cuEventSynchronize", event.handle)

    def idle(self, index: int, stream: int | None = None) -> bool:
        """Whether all work of a GPU's stream is done."""
        (status,) = self.cuda.cuStreamQuery(self._stream(index, stream))
        if int(status) not in (0, NOT_READY):
            self._failed(status, "cuStreamQuery")
        return int(status) == 0

    # memory

    def take(self, index: int, nbytes: int) -> int:
        """The address of new memory; `Full` if there is none."""
        self.use(index)
        return int(self._ask("cuMemAlloc", nbytes))

    def give(self, index: int, address: int) -> None:
        """Give memory back."""
        self.use(index)
        self._ask("cuMemFree", address)

    def room(self, index: int) -> int:
        """Free bytes of a GPU."""
        self.use(index)
        return int(self._ask("cuMemGetInfo")[0])

    def upload(self, index: int, address: int, host: Any) -> None:
        """Copy a contiguous ndarray to a GPU; it may be changed when this returns."""
        if host.nbytes >= LEAST:
            self.staging(index).copy(address, host.ctypes.data, host.nbytes, True)
            return
        stream = self.use(index)
        self._ask("cuMemcpyHtoDAsync", address, host.ctypes.data, host.nbytes, stream)
        self._ask("cuStreamSynchronize", stream)

    def download(self, index: int, address: int, host: Any) -> None:
        """Fill a contiguous ndarray from a GPU."""
        stream = self.use(index)
        place = host.ctypes.data
        if host.nbytes >= LEAST:
            self.staging(index).copy(address, place, host.nbytes, False)
            return
        if host.nbytes > PINNED:
            self._ask("cuMemcpyDtoHAsync", place, address, host.nbytes, stream)
            self._ask("cuStreamSynchronize", stream)
            return
        with self.lock:  # by way of memory that the GPU writes to directly
            if not self._pinned:
                self._pinned = int(self._ask("cuMemHostAlloc", PINNED, PORTABLE))
            self._ask("cuMemcpyDtoHAsync", self._pinned, address, host.nbytes, stream)
            self._ask("cuStreamSynchronize", stream)
            ctypes.memmove(place, self._pinned, host.nbytes)

    def send(self, index: int, address: int, host: int, nbytes: int) -> None:
        """Copy page-locked memory to a GPU, in order with its stream; the host goes on."""
        self._ask("cuMemcpyHtoDAsync", address, host, nbytes, self.use(index))

    def fetch(self, index: int, host: int, address: int, nbytes: int) -> None:
        """Copy to page-locked memory, in order with a GPU's stream; the host goes on."""
        self._ask("cuMemcpyDtoHAsync", host, address, nbytes, self.use(index))

    def lock_pages(self, index: int, nbytes: int) -> int:
        """The address of new page-locked memory, which every GPU can use."""
        self.use(index)
        return int(self._ask("cuMemHostAlloc", nbytes, PORTABLE))

    def unlock_pages(self, address: int) -> None:
        """Give page-locked memory back."""
        self._ask("cuMemFreeHost", address)

    def staging(self, index: int) -> Staging:
        """What does a GPU's large copies."""
        found = self._staging.get(index)
        if found is None:
            found = self._staging[index] = Staging(self, index)
        return found

    def copy(self, index: int, target: int, source: int, nbytes: int) -> None:
        """Copy within a GPU, or between two of one address space, in order with its stream."""
        self._ask("cuMemcpyDtoDAsync", target, source, nbytes, self.use(index))

    def clear(self, index: int, address: int, value: int, nbytes: int) -> None:
        """Set bytes."""
        self._ask("cuMemsetD8Async", address, value, nbytes, self.use(index))

    def word(self, index: int) -> Any:
        """A zero of int32 on the host which kernels write to at its own address; to be read when
        the stream has been waited for."""
        self.use(index)
        address = int(self._ask("cuMemHostAlloc", 4, PORTABLE | MAPPED))
        block: Any = (ctypes.c_int32 * 1).from_address(address)
        word = np.frombuffer(block, np.int32)
        word[0] = 0
        return word

    # graphs

    def begin_capture(self, index: int) -> None:
        """Let what follows in a GPU's stream be written down instead of done."""
        mode = self.cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._ask("cuStreamBeginCapture", self.use(index), mode)

    def end_capture(self, index: int) -> Any:
        """What was written down since, ready to be launched; AcceleratorError if something in it
        cannot be."""
        graph = self._ask("cuStreamEndCapture", self.use(index))
        try:
            return self._ask("cuGraphInstantiate", graph, 0)
        finally:
            self._ask("cuGraphDestroy", graph)

    def launch_graph(self, index: int, graph: Any) -> None:
        """Do what a graph says, in order with the stream."""
        self._ask("cuGraphLaunch", graph, self.use(index))

    def forget_graph(self, graph: Any) -> None:
        """Free a graph."""
        self._ask("cuGraphExecDestroy", graph)

    # kernels

    def launcher(self) -> Any:
        """The driver's own cuLaunchKernel, which costs less to call than through the package."""
        if self._launch is None:
            self._launch = ctypes.CDLL("libcuda.so.1").cuLaunchKernel
        return self._launch

    def compile(self, index: int, source: str) -> KernelFunction:
        """The function `kernel` of a source, compiled for a GPU, or taken from the disk."""
        major, minor = self.capability(index)
        code = compiled(source, f"sm_{major}{minor}")
        self.use(index)
        module = self._ask("cuModuleLoadData", code)
        function = self._ask("cuModuleGetFunction", module, b"kernel")
        return KernelFunction(self, index, module, function)


def _refuse(name: str, *arguments: Any) -> Any:
    refuse_after_fork()


class Event:
    """An event of the driver's; it goes with its last user."""

    def __init__(self, driver: Driver, handle: Any):
        self.driver, self.handle = driver, handle

    def __del__(self) -> None:
        self.driver.cuda.cuEventDestroy(self.handle)


class KernelFunction:
    """A kernel with places for its arguments: a launch stores them and goes."""

    def __init__(self, driver: Driver, index: int, module: Any, function: Any):
        self.driver, self.index, self.module, self.function = driver, index, module, function
        self.kinds: list[str] = []
        self._bound: dict[Any, Callable[[list[Any]], None]] = {}

    def prepare(self, kinds: list[str]) -> KernelFunction:
        """Say the kinds of the arguments: "p" pointers and 64-bit integers, "i" 32-bit ones, "d"
        doubles."""
        self.kinds = kinds
        return self

    def launch(self, grid: tuple[int, int], threads: int, arguments: list[Any]) -> None:
        """Run with arguments in a grid of blocks."""
        key = grid, threads
        run = self._bound.get(key)
        if run is None:
            run = self._bound[key] = self.bound(grid, threads, [])
        run(arguments)

    def bound(
        self, grid: tuple[int, int], threads: int, last: list[Any]
    ) -> Callable[[list[Any]], None]:
        """A function of the other arguments that runs it in a grid, the last ones being known."""
        places = [TYPES[k]() for k in self.kinds]
        table = (ctypes.c_void_p * len(places))(*(ctypes.addressof(p) for p in places))
        varied = places[: len(places) - len(last)]
        for place, value in zip(places[len(varied) :], last, strict=True):
            place.value = value
        driver, index, lock = self.driver, self.index, self.driver.lock
        driver.use(index)
        stream, launch, thread = driver._places[index], driver.launcher(), driver._thread
        given = (
            ctypes.c_void_p(int(self.function)), grid[0], grid[1], 1, threads, 1, 1, 0,
            stream, table, None,
        )  # fmt: skip
        count = len(varied)

        def run(arguments: list[Any]) -> None:
            assert len(arguments) == count
            if thread.index != index:
                driver.use(index)
            with lock:
                for place, value in zip(varied, arguments):
                    place.value = value
                status = launch(*given)
            if status:
                driver._failed(status, "cuLaunchKernel")
            if BLOCKING:
                driver.synchronize(index)

        run.places = places  # type: ignore[attr-defined]  # the table points to them
        return run


BLOCKING = os.environ.get("EMBER_LAUNCH_BLOCKING", "0") == "1"


def compiled(source: str, architecture: str) -> bytes:
    """The cubin of a source for an architecture such as sm_90: from the disk if it is there."""
    from cuda.bindings import nvrtc

    _, major, minor = nvrtc.nvrtcVersion()
    described = f"{architecture} {major}.{minor}\n{source}"
    path = kept.path_of("cuda", described, ".cubin")
    found = kept.read(path)
    if found is None:
        found = _nvrtc(nvrtc, source, architecture)
        kept.write(path, found)
    return found


def _nvrtc(nvrtc: Any, source: str, architecture: str) -> bytes:
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if int(status):
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(f"NVRTC could not compile a kernel:\n{log.decode(errors='replace')}")
    _, length = nvrtc.nvrtcGetCUBINSize(program)
    code: bytes = b" " * length
    nvrtc.nvrtcGetCUBIN(program, code)
    nvrtc.nvrtcDestroyProgram(program)
    return code
