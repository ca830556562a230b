"""`torch.cuda.random`: seeds and states of the GPUs' default generators.

Seeding works before, and without, any GPU: a generator made later starts from the seed that was
asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ember.backends.base import backend_of, has_backend, resolve
from ember.core.generator import Generator, default_of, fresh_seed, manual_seed_gpus
from ember.core.tensor import Tensor
from ember.device import device as Device

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _generator(device: Any = "cuda") -> Generator:
    return default_of(resolve(Device("cuda", device) if type(device) is int else Device(device)))


def _all() -> list[Generator]:
    count = backend_of("cuda").device_count() if has_backend("cuda") else 0
    return [default_of(Device("cuda", index)) for index in range(count)]


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of a GPU's default generator: 16 bytes, seed and offset, on the CPU."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[Tensor]:
    """The states of all GPUs' default generators."""
    return [g.get_state() for g in _all()]


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Let a GPU's default generator continue from a state of `get_rng_state`."""
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Let each GPU's default generator continue from its state."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: Any) -> None:
    """Seed the current GPU's default generator; nothing happens where there is no GPU."""
    if has_backend("cuda"):
        _generator().manual_seed(int(seed))


def manual_seed_all(seed: Any) -> None:
    """Seed the default generators of all GPUs, also of those not used yet."""
    manual_seed_gpus(seed)


def seed() -> None:
    """Seed the current GPU's default generator with a fresh random number."""
    if has_backend("cuda"):
        _generator().seed()


def seed_all() -> None:
    """Seed the default generators of all GPUs with one fresh random number."""
    manual_seed_gpus(fresh_seed())


def initial_seed() -> int:
    """The seed that the current GPU's default generator last started from."""
    return _generator().initial_seed()
