"""Pipes of samples by index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any

import ember.ops as ops
from ember.dtypes import int64
from ember.errors import check
from ember.utils.data.datapipes.datapipe import (
    DataChunk,
    IterDataPipe,
    MapDataPipe,
    functional_datapipe,
)

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]


class SequenceWrapperMapDataPipe(MapDataPipe):
    """The items of a sequence or a dict, which is copied first if it can be."""

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = _copied(sequence) if deepcopy else sequence

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


def _copied(sequence: Any) -> Any:
    try:
        return deepcopy(sequence)
    except TypeError:
        return sequence


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe):
    """A function of each sample."""

    def __init__(self, datapipe: Any, fn: Callable[..., Any] = lambda x: x) -> None:
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe):
    """Samples in lists of a length; the last may be shorter, unless it is dropped."""

    def __init__(
        self,
        datapipe: Any,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: type = DataChunk,
    ) -> None:
        check(batch_size > 0, AssertionError, "Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __getitem__(self, index: int) -> Any:
        check(0 <= index < len(self), IndexError, f"Index {index} is out of bound.")
        start = index * self.batch_size
        stop = min(start + self.batch_size, len(self.datapipe))
        return self.wrapper_class([self.datapipe[i] for i in range(start, stop)])

    def __len__(self) -> int:
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe):
    """The samples of one pipe after those of another."""

    def __init__(self, *datapipes: Any) -> None:
        check(len(datapipes) > 0, ValueError, "Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes

    def __getitem__(self, index: int) -> Any:
        start = 0
        for pipe in self.datapipes:
            if index - start < len(pipe):
                return pipe[index - start]
            start += len(pipe)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(len(pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe):
    """Tuples of the samples of several pipes at one index, as long as the shortest."""

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = datapipes

    def __getitem__(self, index: Any) -> Any:
        return tuple(pipe[index] for pipe in self.datapipes)

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)


class ShufflerIterDataPipe(IterDataPipe):
    """The samples in an order that follows torch's generator; a pipe in order, not by index."""

    def __init__(self, datapipe: Any, *, indices: list[Any] | None = None) -> None:
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices
        self._enabled, self._seed = True, None
        self._random = Random()

    def set_shuffle(self, shuffle: bool = True) -> Any:
        """Shuffle, or pass samples on in order; returns the pipe."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: Any) -> Any:
        """Choose the seed of the next iteration; returns the pipe."""
        self._seed = seed
        return self

    def reset(self) -> None:
        """Draw the seed of an iteration."""
        if self._enabled:
            seed = self._seed
            if seed is None:
                seed = int(ops.empty((), dtype=int64).random_().item())
            self._random.seed(seed)
            self._seed = None

    def __iter__(self) -> Iterator[Any]:
        order = self.indices
        if self._enabled:
            order = self._random.sample(self.indices, len(self.indices))[::-1]
        for index in order:
            yield self.datapipe[index]

    def __len__(self) -> int:
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
SequenceWrapper, Mapper, Batcher = SequenceWrapperMapDataPipe, MapperMapDataPipe, BatcherMapDataPipe
Concater, Zipper, Shuffler = ConcaterMapDataPipe, ZipperMapDataPipe, ShufflerIterDataPipe
