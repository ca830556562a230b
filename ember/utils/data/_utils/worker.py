"""What a worker process knows of itself, and how its errors come back."""

from __future__ import annotations

import sys
from typing import Any


class WorkerInfo:
    """What a worker knows of itself: `id`, `num_workers`, `seed`, and its copy of the `dataset`."""

    __slots__ = ("dataset", "id", "num_workers", "seed")
    id: int
    num_workers: int
    seed: int
    dataset: Any

    def __init__(self, id: int, num_workers: int, seed: int, dataset: Any):
        for name, value in zip(
            ("id", "num_workers", "seed", "dataset"), (id, num_workers, seed, dataset), strict=True
        ):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot assign to field '{name}' of WorkerInfo")

    def __repr__(self) -> str:
        fields = (
            f"{name}={getattr(self, name)!r}" for name in ("id", "num_workers", "seed", "dataset")
        )
        return f"WorkerInfo({', '.join(fields)})"


_worker_info: WorkerInfo | None = None  # set by worker_loop.py


def get_worker_info() -> WorkerInfo | None:
    """In a worker process, its id, the number of workers, its seed and its dataset; None elsewhere.

    >>> import ember as torch
    >>> print(torch.utils.data.get_worker_info())
    None
    """
    return _worker_info


class _Message(str):
    """A message that `KeyError` shows as it is, newlines included."""

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception as its type and its traceback's text, which travel between processes.

    Of a type that the other side cannot know (a local class), the nearest base it can know stands
    in.
    """

    def __init__(self, where: str = "in background"):
        import traceback

        kind, error, _ = sys.exc_info()
        assert kind is not None
        self.exc_type = _known_elsewhere(kind)
        self.name = kind.__name__
        self.exc_msg = "".join(traceback.format_exception(error))
        self.where = where

    def reraise(self) -> None:
        """Raise an exception of the same type whose message holds the original traceback.

        A type that wants more than a message is replaced by RuntimeError.
        """
        message = f"Caught {self.name} {self.where}.\nOriginal {self.exc_msg}"
        if issubclass(self.exc_type, KeyError):
            message = _Message(message)
        try:
            error: BaseException = self.exc_type(message)
        except Exception:
            error = RuntimeError(message)
        try:
            raise error
        finally:
            del error  # else it and its traceback would keep each other, and the workers, alive


def _known_elsewhere(kind: type[BaseException]) -> type[BaseException]:
    import pickle

    for candidate in kind.__mro__:
        try:
            pickle.dumps(candidate)
        except Exception:
            continue
        return candidate
    return RuntimeError


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Four numbers of 32 bits to seed NumPy in a worker with, by NumPy's SeedSequence."""
    import numpy as np

    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return [int(n) for n in np.random.SeedSequence(entropy).generate_state(4)]
