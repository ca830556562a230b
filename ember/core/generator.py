"""`Generator`: a stream of random numbers on a device, and the default ones that ops draw from.

The CPU's stream is PyTorch's mt19937, a GPU's the counter-based Philox (keyed by seed and offset,
so that every GPU, real or simulated, gives the same numbers). All state of a stream is one small
ndarray that lives as long as the stream (`Mersenne.words`, 625 numbers; `Philox.numbers`, seed and
offset) plus, on the CPU, the spare normal: so a captured program can hold it like a storage, and
each replay draws the numbers that come next.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ember.backends.base import backend_of, resolve
from ember.backends.cpu.mersenne import Mersenne
from ember.backends.cpu.philox import Philox
from ember.core.executor import settle
from ember.core.tensor import Tensor, from_ndarray
from ember.device import CPU
from ember.device import device as Device
from ember.dtypes import uint8
from ember.errors import check

DEFAULT_SEED = 67280421310721  # of a new generator that nobody has seeded, as in PyTorch
_SMALLEST, _BEYOND = -(1 << 63), 1 << 64


class Generator:
    """A stream of random numbers on a device (the CPU by default), for `generator=`.

    RuntimeError for a device without random numbers.

    >>> import ember as torch
    >>> g = torch.Generator().manual_seed(0)
    >>> torch.rand(2, generator=g)
    tensor([0.4963, 0.7682])
    """

    def __init__(self, device: Any = None) -> None:
        place = CPU if device is None else resolve(Device(device))
        check(
            place.type != "meta",
            RuntimeError,
            "META device type not an accelerator: a generator draws numbers, and meta tensors "
            "hold none",
        )
        self._device = place
        self._seed = DEFAULT_SEED
        self._made: Any = None

    @property
    def device(self) -> Device:
        """Where the numbers are drawn."""
        return self._device

    @property
    def source(self) -> Any:
        """The stream itself, made at first use; a backend may bring its `random_source(seed)`."""
        if self._made is None:
            kind = self._device.type
            usual = Mersenne if kind == "cpu" else Philox
            self._made = getattr(backend_of(kind), "random_source", usual)(self._seed)
        return self._made

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream again from a seed, and return the generator.

        Seeds are from −2⁶³ to 2⁶⁴ − 1, negative ones counting down from 2⁶⁴; RuntimeError for what
        is no int, ValueError for what does not fit.
        """
        whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
        kind = type(seed).__name__
        check(whole, RuntimeError, f"manual_seed expected a long, but got {kind}")
        self._start(checked_seed(seed))
        return self

    def _start(self, seed: int) -> None:
        settle()
        self._seed = seed
        if self._made is not None:
            self._made.seed(seed)

    def seed(self) -> int:
        """Start the stream from a seed that the operating system makes up, and return it."""
        self._start(fresh_seed())
        return self._seed

    def initial_seed(self) -> int:
        """The seed that the stream last started from."""
        return self._seed if self._made is None else int(self._made.initial)

    def get_state(self) -> Tensor:
        """The state as a uint8 tensor: PyTorch's 5056 bytes, or a GPU's 16 (seed and offset)."""
        settle()
        return from_ndarray(self.source.state(), uint8)

    def set_state(self, new_state: Tensor) -> None:
        """Continue from a state of `get_state`. TypeError and RuntimeError for what is none."""
        kind = type(new_state).__name__
        check(
            isinstance(new_state, Tensor), TypeError, f"expected a torch.ByteTensor, but got {kind}"
        )
        fits = new_state.dtype is uint8 and new_state.device is CPU
        check(
            fits,
            TypeError,
            f"RNG state must be a torch.ByteTensor: it is {new_state.dtype} on {new_state.device}",
        )
        settle()
        self.source.set_state(np.ascontiguousarray(new_state._array.host()).reshape(-1))

    def get_offset(self) -> int:
        """How far a GPU's stream is. RuntimeError on the CPU."""
        check(self._device is not CPU, RuntimeError, "CPU Generator does not use offset")
        settle()
        return int(self.source.offset)

    def set_offset(self, offset: int) -> None:
        """Put a GPU's stream at an offset, a multiple of 4. RuntimeError on the CPU."""
        check(self._device is not CPU, RuntimeError, "CPU Generator does not use offset")
        settle()
        self.source.offset = offset

    def clone_state(self) -> Generator:
        """A new generator that continues as this one would."""
        settle()
        made = Generator(self._device)
        made._seed = self._seed
        if self._made is not None:
            made.source.set_state(self._made.state())
        return made

    def __copy__(self) -> Generator:
        return self.clone_state()

    def __deepcopy__(self, memo: Any) -> Generator:
        return self.clone_state()

    def __setstate__(self, state: Any) -> None:
        """Take over what PyTorch's pickles say: seed, offset (a GPU's) and state."""
        seed, _, numbers = state
        self.manual_seed(seed)
        self.set_state(numbers)

    def __reduce__(self) -> Any:
        settle()
        return _restored, (str(self._device), self._seed, self.source.state())

    def __repr__(self) -> str:
        return f"<torch.Generator on {self._device}, seed {self.initial_seed()}>"


def _restored(device: str, seed: int, state: Any) -> Generator:
    made = Generator(device)
    made._seed = seed
    made.source.set_state(state)
    return made


def checked_seed(seed: Any) -> int:
    """A seed as the 64 bits that streams take; ValueError for one that does not fit."""
    number = int(seed)
    check(
        _SMALLEST <= number < _BEYOND,
        ValueError,
        f"Overflow when unpacking long long: a seed has 64 bits, {number} does not fit",
    )
    return number % _BEYOND


def fresh_seed() -> int:
    """64 bits from the operating system."""
    return int.from_bytes(os.urandom(8), "little")


# the generators that ops use when they are given none

_defaults: dict[Device, Generator] = {}
_seed_to_come: list[int | None] = [None]  # what manual_seed said before a GPU's generator existed


def default_of(device: Device) -> Generator:
    """The default generator of a resolved device, made at its first use."""
    found = _defaults.get(device)
    if found is None:
        made = Generator(device)
        coming = _seed_to_come[0] if device is not CPU else None
        made._seed = fresh_seed() if coming is None else coming
        found = _defaults.setdefault(device, made)
    return found


default_generator = default_of(CPU)


def manual_seed(seed: Any) -> Generator:
    """Seed the default generators of all devices, and return the CPU's.

    >>> import ember as torch
    >>> _ = torch.manual_seed(1)
    >>> torch.initial_seed()
    1
    """
    manual_seed_gpus(seed)
    return default_generator.manual_seed(checked_seed(seed))


def manual_seed_gpus(seed: Any) -> None:
    """Seed the default generators of all GPUs, also of those not used yet."""
    number = _seed_to_come[0] = checked_seed(seed)
    for device, generator in list(_defaults.items()):
        if device is not CPU:
            generator.manual_seed(number)


def seed() -> int:
    """Seed all default generators with one fresh random number, and return it."""
    number = fresh_seed()
    manual_seed(number)
    return number


def initial_seed() -> int:
    """The seed of the CPU's default generator."""
    return default_generator.initial_seed()


def generator_for(generator: Generator | None, device: Device) -> Generator:
    """The generator of an op on a device: the default one, or the given one if it fits.

    TypeError for what is no generator, RuntimeError for one of another type of device.
    """
    if generator is None:
        return default_of(device)
    check(
        isinstance(generator, Generator),
        TypeError,
        f"argument 'generator' must be torch.Generator, not {type(generator).__name__}",
    )
    own = generator.device.type
    check(
        own == device.type,
        RuntimeError,
        f"Expected a '{device.type}' device type for generator but found '{own}': make it with "
        f"torch.Generator(device='{device.type}')",
    )
    return generator
