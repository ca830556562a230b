"""Which GPUs there are, which is current, and what each is."""

from __future__ import annotations

from typing import Any

from ember.backends import sim  # provides simulated GPUs where the environment asks for them
from ember.backends.base import backend_of, has_backend
from ember.core.tensor import Tensor
from ember.device import device as Device
from ember.errors import AcceleratorError, check


def backend() -> Any:
    """The provider of GPUs; AssertionError that says how to get some if there is none."""
    return backend_of("cuda")


def simulate(gpus: Any, memory: str | None = None, name: str | None = None) -> None:
    """Provide simulated GPUs to this program: `simulate(2, "16GiB")` or `simulate("2x16GiB:A100")`.

    Before the first use of a GPU; RuntimeError after it, ValueError for a bad specification.
    """
    text = str(gpus) + (f"x{memory}" if memory else "") + (f":{name}" if name else "")
    sim.parse(text)
    sim.configure(text)


def device_count() -> int:
    """How many GPUs the program sees; 0 without any, real or simulated."""
    return int(backend().device_count()) if has_backend("cuda") else 0


def is_available() -> bool:
    """Whether there is a GPU, real or simulated."""
    return device_count() > 0


def current_device() -> int:
    """The index that `cuda` without one means."""
    return int(backend().current())


def index_of(device: Any = None) -> int:
    """The index of a device given as None (the current one), int, str or device. ValueError for
    another type."""
    if device is None:
        return current_device()
    if isinstance(device, int) and not isinstance(device, bool):
        index = device
    else:
        place = Device(device)
        check(place.type == "cuda", ValueError, f"Expected a cuda device, but got: {place}")
        index = current_device() if place.index is None else place.index
    backend().check_index(index)
    return index


def set_device(device: Any) -> None:
    """Make a GPU the current one. AcceleratorError (a RuntimeError) if it is not there."""
    if isinstance(device, int) and device < 0:
        return
    backend().set_current(index_of(device))


class device:
    """A block in which a GPU is the current one; a negative index or None changes nothing.

    >>> import ember as torch
    >>> torch.cuda.device  # doctest: +ELLIPSIS
    <class 'ember.cuda.devices.device'>
    """

    def __init__(self, device: Any):
        negative = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if negative else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = current_device()
            backend().set_current(self.idx)

    def __exit__(self, *exc: object) -> None:
        if self.prev_idx >= 0:
            backend().set_current(self.prev_idx)


class device_of(device):
    """A block in which the GPU of a tensor is the current one; a CPU tensor changes nothing."""

    def __init__(self, obj: Tensor):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class DeviceProperties:
    """What a GPU is: name, major and minor of its capability, total_memory in bytes,
    multi_processor_count, uuid."""

    def __init__(self, index: int):
        model = backend().model
        self.name: str = model.name
        self.major, self.minor = model.capability
        self.total_memory: int = model.memory
        self.multi_processor_count: int = model.processors
        self.uuid: str = backend().uuid(index)
        self.warp_size, self.max_threads_per_multi_processor = 32, 2048
        self.is_integrated = self.is_multi_gpu_board = 0
        self.gcnArchName = model.name
        self.regs_per_multiprocessor, self.L2_cache_size = 65536, 40 << 20

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // (1 << 20)}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid})"
        )


def get_device_properties(device: Any = None) -> DeviceProperties:
    """What a GPU is. AssertionError, as in PyTorch, for one that is not there."""
    try:
        return DeviceProperties(index_of(device))
    except AcceleratorError as error:
        raise AssertionError(f"Invalid device id: {error}") from None


def get_device_name(device: Any = None) -> str:
    """The name of a GPU."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU, (major, minor)."""
    found = get_device_properties(device)
    return found.major, found.minor


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether one GPU can read the memory of another."""
    return index_of(device) != index_of(peer_device)


def init() -> None:
    """Start using GPUs; done by itself at first use."""
    backend()


def is_initialized() -> bool:
    """Whether GPUs have been used in this process."""
    return sim.backend.has_started()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current GPU computes in bfloat16."""
    return including_emulation or get_device_capability()[0] >= 8


def get_arch_list() -> list[str]:
    """The architectures that kernels are compiled for: the current GPU's own."""
    if not is_available():
        return []
    major, minor = get_device_capability()
    return [f"sm_{major}{minor}"]


def ipc_collect() -> None:
    """Free memory shared with other processes; nothing is shared that way here."""
    backend()
