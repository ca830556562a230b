"""What a backend is: Memory, Queue and Kernels, and the registry of who serves which device
type."""

from __future__ import annotations

import importlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from ember.device import CPU, META, device
from ember.errors import AcceleratorError, check
from ember.kernel.call import Call


class CopyEvent(NamedTuple):
    """One copy between memories, as observers see it."""

    source: device
    target: device
    nbytes: int
    seconds: float
    blocking: bool
    pinned: bool
    origin: Any = None  # the storages, for observers that follow them
    result: Any = None


copy_observers: list[Callable[[CopyEvent], None]] = []


class Memory(ABC):
    """The memory of one device."""

    device: device

    @abstractmethod
    def allocate(self, nbytes: int) -> Any:
        """A buffer of `nbytes`; OutOfMemoryError if there is no room."""

    @abstractmethod
    def adopt(self, storage: Any) -> None:
        """Account for a storage that lives here until it dies."""

    @abstractmethod
    def read(self, buffer: Any) -> Any:
        """The bytes of a buffer as a host vector."""

    @abstractmethod
    def write(self, buffer: Any, host: Any) -> None:
        """Fill a buffer from host bytes."""


class Queue(ABC):
    """An in-order stream of work on one device."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all work given so far is done."""

    @abstractmethod
    def record(self) -> float:
        """The queue's time now, in seconds, once all work given so far is done."""


class LibraryKernel:
    """The name of a kernel that backends bring, with what it computes."""

    def __init__(self, doc: str):
        self.__doc__ = doc
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Kernels.{self.name}"


class Kernels(ABC):
    """What a device computes: `prepare` for every formula, and the library kernels by name."""

    runs_cpu_kernels = False  # whether library kernels are the CPU's own, as on simulated GPUs
    widens_half = False  # whether products of half precision are computed in float32 anyway
    takes_slots = False  # whether `bind` takes numbers that change between runs
    joins_formulas = False  # whether one kernel may be made of several formulas
    has_class_losses = False  # whether cross-entropy with classes is one op, of half precision too

    @abstractmethod
    def prepare(self, call: Call) -> Callable[..., Any]:
        """A function of the operands (arrays and numbers) that runs the call and returns its array
        or arrays."""

    def bind(
        self,
        call: Call,
        operands: tuple[Any, ...],
        outs: tuple[Any, ...],
        runner: Callable[..., Any],
    ) -> Callable[[], Any]:
        """A function that runs a call on these very operands into these very arrays; `runner` is
        what `prepare` gave for it."""
        if call.writes:
            return lambda: runner(*operands)

        def step() -> None:
            made = runner(*operands)
            for out, array in zip(outs, made if len(outs) > 1 else (made,), strict=True):
                self.copy(out, array)

        return step

    def attends(self, *how: Any) -> bool:
        """Whether attention (of query, key and value, causal or not, with a scale) is one op."""
        return False

    def bind_together(self, calls: Any, operands: Any, outs: Any, runners: Any) -> Any:
        """Formulas that are alike bound to their arrays, as one function; asked for where formulas
        join."""
        raise NotImplementedError

    def joins(self, call: Call) -> bool:
        """Whether a call made of several formulas is one kernel here."""
        return False

    def sequence(self, steps: list[Callable[[], Any]]) -> Callable[[], Any] | None:
        """Bound steps that follow one another as one function, where that is quicker."""
        return None

    def copy(self, target: Any, source: Any) -> None:
        """Write an array, broadcast and cast, into another on this device."""
        raise NotImplementedError


class Backend(ABC):
    """A provider of one device type."""

    type: str

    @abstractmethod
    def device_count(self) -> int:
        """How many devices a program sees."""

    @abstractmethod
    def current(self) -> int:
        """The index that a device without one means."""

    @abstractmethod
    def memory(self, index: int) -> Memory:
        """The memory of a device."""

    @abstractmethod
    def kernels(self, index: int) -> Kernels:
        """The kernels of a device."""

    def check_index(self, index: int) -> None:
        """AcceleratorError for a device that is not there."""
        count = self.device_count()
        check(
            0 <= index < count,
            AcceleratorError,
            f"CUDA error: invalid device ordinal: {self.type}:{index} was asked for, but there "
            f"{'is' if count == 1 else 'are'} {count} (torch.cuda.device_count()), numbered from 0",
        )


_providers: dict[str, Callable[[], Backend]] = {}
_backends: dict[str, Backend] = {}


def register(kind: str, provider: Callable[[], Backend]) -> None:
    """Let `provider()` make the backend of a device type at its first use."""
    _providers[kind] = provider
    _backends.pop(kind, None)


def backend_of(kind: str) -> Backend:
    """The backend of a device type; an error that says how to get one if there is none."""
    found = _backends.get(kind)
    if found is None:
        _look_around(kind)
        provider = _providers.get(kind)
        if provider is None:
            raise _absent(kind)
        found = _backends[kind] = provider()
    return found


def _absent(kind: str) -> Exception:
    """The error for a tensor on a device that nothing here provides."""
    if kind == "cuda":
        return AssertionError(
            "Torch not compiled with CUDA enabled: no GPU was found, real or simulated. Simulated "
            "GPUs: `ember run --gpus 2 script.py`, or EMBER_SIMULATE_GPUS=2 in the environment, "
            "or ember.cuda.simulate(2) before the first use of a GPU."
        )
    runs = f"Ember runs on cpu, cuda (real or simulated GPUs) and meta, and has no {kind} devices"
    if kind in ("xpu", "mtia"):
        return AssertionError(f"Torch not compiled with {kind.upper()} enabled: {runs}")
    return NotImplementedError(
        f"Could not run this with arguments from the '{kind.upper()}' backend: {runs} "
        f"(PyTorch is not linked with support for {kind} devices)"
    )


_looked: list[bool] = []  # whether real GPUs have been looked for


def _look_around(kind: str) -> None:
    """Load the simulated GPUs where the environment asks for them, else look for real ones; once.

    cuda-bindings is what real ones need, so without it nothing is looked for.
    """
    if kind != "cuda" or kind in _providers:
        return
    if os.environ.get("EMBER_SIMULATE_GPUS"):
        importlib.import_module("ember.backends.sim")
    elif not _looked:
        _looked.append(True)
        importlib.import_module("ember.backends.cuda.backend").provide()


def has_backend(kind: str) -> bool:
    """Whether a device type has a backend."""
    _look_around(kind)
    return kind in _backends or kind in _providers


def resolve(place: device) -> device:
    """The device with its index: "cuda" becomes the current GPU. AcceleratorError if it is not
    there."""
    if place.type == "cpu":
        return CPU
    if place.type == "meta":
        return device("meta")
    backend = backend_of(place.type)
    index = backend.current() if place.index is None else place.index
    backend.check_index(index)
    return device(place.type, index)


def memory_of(place: device) -> Memory:
    """The memory of a resolved device."""
    return backend_of(place.type).memory(place.index or 0)


def has_cpu_kernels(place: device) -> bool:
    """Whether a device's library kernels are the CPU's: it is the CPU, a simulated GPU, or `meta`,
    which stands for either."""
    return place is CPU or place is META or kernels_of(place).runs_cpu_kernels


def kernels_of(place: device) -> Kernels:
    """The kernels of a resolved device."""
    return backend_of(place.type).kernels(place.index or 0)


def copy_bytes(source: Any, target: Any, *, blocking: bool = True) -> None:
    """Copy one whole storage into another of the same size: the one function that every copy
    between devices passes.

    Observers (the ledger, budgets) are told afterwards.
    """
    start = time.perf_counter()
    far = source.device if target.device is CPU else target.device
    carry = getattr(memory_of(far), "carry", None)
    if carry is not None and CPU in (source.device, target.device):
        nbytes = carry(source, target, blocking)
    else:
        host = memory_of(source.device).read(source.buffer)
        memory_of(target.device).write(target.buffer, host)
        nbytes = int(host.nbytes)
    if copy_observers:
        pinned = getattr(source, "pinned", False) or getattr(target, "pinned", False)
        event = CopyEvent(
            source.device,
            target.device,
            nbytes,
            time.perf_counter() - start,
            blocking,
            pinned,
            source,
            target,
        )
        for observer in copy_observers:
            observer(event)


def send_bytes(source: Any, target: Any) -> None:
    """`copy_bytes` that need not be done when this returns."""
    copy_bytes(source, target, blocking=False)


def page_locked(nbytes: int) -> Any:
    """A vector of bytes in memory that a GPU reads and writes by itself; None where there is no
    real GPU."""
    if not has_backend("cuda"):
        return None
    make = getattr(backend_of("cuda"), "page_locked", None)
    return None if make is None else make(nbytes)
