"""Pipes of samples in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import suppress
from copy import deepcopy
from random import Random
from typing import Any

import ember.ops as ops
from ember.dtypes import int64
from ember.errors import check
from ember.utils.data.dataloader import default_collate, get_worker_info
from ember.utils.data.datapipes.datapipe import DataChunk, IterDataPipe, functional_datapipe

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Demultiplexer",
    "Filter",
    "Forker",
    "Grouper",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "ShardingFilter",
    "Shuffler",
    "UnBatcher",
    "Zipper",
]


def _length(pipe: Any, of: Any) -> int:
    check(
        isinstance(of, Sized),
        TypeError,
        f"{type(pipe).__name__} instance doesn't have valid length",
    )
    return len(of)


class IterableWrapperIterDataPipe(IterDataPipe):
    """The items of an iterable, which is copied first if it can be."""

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        source = self.iterable
        if self.deepcopy:
            with suppress(TypeError):  # generators are read as they are
                source = deepcopy(source)
        yield from source

    def __len__(self) -> int:
        return _length(self, self.iterable)


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe):
    """A function of each sample."""

    def __init__(self, datapipe: Any, fn: Callable[..., Any], input_col: Any = None) -> None:
        check(
            input_col is None,
            NotImplementedError,
            "map: a function is given whole samples here: take its columns inside",
        )
        self.datapipe, self.fn = datapipe, fn

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            yield self.fn(sample)

    def __len__(self) -> int:
        return _length(self, self.datapipe)


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe):
    """The samples for which a function is true."""

    def __init__(self, datapipe: Any, filter_fn: Callable[..., Any]) -> None:
        self.datapipe, self.filter_fn = datapipe, filter_fn

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            if self.filter_fn(sample):
                yield sample


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe):
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

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for sample in self.datapipe:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        count = _length(self, self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe):
    """The samples of batches, through `unbatch_level` levels (all for -1)."""

    def __init__(self, datapipe: Any, unbatch_level: int = 1) -> None:
        check(unbatch_level >= -1, ValueError, "unbatch_level must be -1 or >= 0")
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            yield from self._opened(sample, self.unbatch_level)

    def _opened(self, sample: Any, level: int) -> Iterator[Any]:
        if level == 0 or (level == -1 and not isinstance(sample, list)):
            yield sample
            return
        check(
            isinstance(sample, list), IndexError, f"unbatch_level {self.unbatch_level} is too deep"
        )
        for inner in sample:
            yield from self._opened(inner, level if level == -1 else level - 1)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches as tensors."""

    def __init__(self, datapipe: Any, collate_fn: Callable[..., Any] = default_collate) -> None:
        super().__init__(datapipe, collate_fn)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(IterDataPipe):
    """Samples drawn at random from a buffer; the order follows torch's generator."""

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        check(buffer_size > 0, ValueError, "buffer_size should be larger than 0")
        self.datapipe = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level)
        self.buffer_size, self._enabled = buffer_size, True
        self._seed: int | None = None
        self._random = Random()

    def set_shuffle(self, shuffle: bool = True) -> ShufflerIterDataPipe:
        """Shuffle, or pass samples on as they come; returns the pipe."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> ShufflerIterDataPipe:
        """Choose the seed of the next iteration; returns the pipe."""
        self._seed = seed
        return self

    def reset(self) -> None:
        """Draw the order of an iteration."""
        if self._enabled:
            if self._seed is None:
                self._seed = int(ops.empty((), dtype=int64).random_().item())
            self._random.seed(self._seed)
            self._seed = None

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        buffer: list[Any] = []
        for sample in self.datapipe:
            if len(buffer) == self.buffer_size:
                place = self._random.randint(0, len(buffer) - 1)
                drawn, buffer[place] = buffer[place], sample
                yield drawn
            else:
                buffer.append(sample)
        while buffer:
            yield buffer.pop(self._random.randint(0, len(buffer) - 1))

    def __len__(self) -> int:
        return _length(self, self.datapipe)


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe):
    """Tuples of the samples of several pipes, as long as the shortest."""

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(_length(self, pipe) for pipe in self.datapipes)


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe):
    """The samples of one pipe after those of another."""

    def __init__(self, *datapipes: Any) -> None:
        check(len(datapipes) > 0, ValueError, "Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(_length(self, pipe) for pipe in self.datapipes)


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe):
    """A sample of each pipe in turn, until one of them has ended."""

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for row in zip(*self.datapipes, strict=False):
            yield from row

    def __len__(self) -> int:
        return min(_length(self, pipe) for pipe in self.datapipes) * len(self.datapipes)


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe):
    """Samples in lists by the key that a function gives; a list of `group_size` is passed on at
    once."""

    def __init__(
        self, datapipe: Any, group_key_fn: Callable[..., Any], *, group_size: int | None = None
    ) -> None:
        self.datapipe, self.group_key_fn, self.group_size = datapipe, group_key_fn, group_size

    def __iter__(self) -> Iterator[Any]:
        groups: dict[Any, list[Any]] = {}
        for sample in self.datapipe:
            key = self.group_key_fn(sample)
            groups.setdefault(key, []).append(sample)
            if len(groups[key]) == self.group_size:
                yield DataChunk(groups.pop(key))
        for group in groups.values():
            yield DataChunk(group)


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(IterDataPipe):
    """Each worker's part of the samples: every n-th, from its own number on."""

    def __init__(self, source_datapipe: Any, sharding_group_filter: Any = None) -> None:
        self.source_datapipe, self._shard = source_datapipe, (1, 0)

    def apply_sharding(
        self, num_of_instances: int, instance_id: int, sharding_group: Any = None
    ) -> None:
        """Choose the part: of so many, which."""
        check(
            0 <= instance_id < num_of_instances,
            ValueError,
            f"instance_id({instance_id}) should be smaller than num_of_instances"
            f"({num_of_instances})",
        )
        self._shard = num_of_instances, instance_id

    def _part(self) -> tuple[int, int]:
        worker = get_worker_info()
        count, own = self._shard
        if worker is None:
            return count, own
        return count * worker.num_workers, own * worker.num_workers + worker.id

    def __iter__(self) -> Iterator[Any]:
        count, own = self._part()
        for number, sample in enumerate(self.source_datapipe):
            if number % count == own:
                yield sample

    def __len__(self) -> int:
        count, own = self._part()
        return len(range(own, _length(self, self.source_datapipe), count))


class _Branch(IterDataPipe):
    """One of the pipes that a source is divided into."""

    def __init__(self, source: _Divided, number: int) -> None:
        self.source, self.number = source, number

    def reset(self) -> None:
        """Begin the source anew once every branch does."""
        self.source.begin(self.number)

    def __iter__(self) -> Iterator[Any]:
        yield from self.source.samples_for(self.number)


class _Divided:
    """Reads a source once for several branches; what one is ahead waits for the others."""

    def __init__(self, datapipe: Any, count: int, limit: int, branches_of: Callable[..., Any]):
        self.datapipe, self.limit, self.branches_of = datapipe, limit, branches_of
        self.waiting: list[deque[Any]] = [deque() for _ in range(count)]
        self.begun: set[int] = set()
        self.reading: Iterator[Any] | None = None

    def begin(self, number: int) -> None:
        """Begin a branch; a second time, all of them."""
        if number in self.begun or self.reading is None:
            self.begun = set()
            self.reading = iter(self.datapipe)
            for queue in self.waiting:
                queue.clear()
        self.begun.add(number)

    def samples_for(self, number: int) -> Iterator[Any]:
        """What the source has for a branch. BufferError if the others are too far behind."""
        own = self.waiting[number]
        assert self.reading is not None
        while True:
            while not own:
                try:
                    sample = next(self.reading)
                except StopIteration:
                    return
                for branch in self.branches_of(sample):
                    self.waiting[branch].append(sample)
                ahead = sum(len(queue) for queue in self.waiting)
                check(
                    self.limit < 0 or ahead <= self.limit,
                    BufferError,
                    "ForkerIterDataPipe buffer overflow, buffer size "
                    f"{self.limit} is insufficient.",
                )
            yield own.popleft()


def _fork(
    datapipe: Any, num_instances: int, buffer_size: int = 1000, copy: Any = None
) -> list[IterDataPipe]:
    """Pipes that each have all samples."""
    check(
        num_instances > 0,
        ValueError,
        f"Expected `num_instances` larger than 0, got {num_instances}",
    )
    every = range(num_instances)
    divided = _Divided(datapipe, num_instances, buffer_size * num_instances, lambda _: every)
    return [_Branch(divided, number) for number in every]


def _demux(
    datapipe: Any,
    num_instances: int,
    classifier_fn: Callable[[Any], int | None],
    drop_none: bool = False,
    buffer_size: int = 1000,
) -> list[IterDataPipe]:
    """Pipes of the samples that a function gives their number for."""

    def branches_of(sample: Any) -> list[int]:
        number = classifier_fn(sample)
        if number is None and drop_none:
            return []
        check(
            number is not None and 0 <= number < num_instances,
            ValueError,
            f"Output of the classification fn should be between 0 and {num_instances - 1}. "
            f"{number} is returned.",
        )
        return [number]  # type: ignore[list-item]

    divided = _Divided(datapipe, num_instances, buffer_size, branches_of)
    return [_Branch(divided, number) for number in range(num_instances)]


IterDataPipe.register_function("fork", _fork)
IterDataPipe.register_function("demux", _demux)
Forker, Demultiplexer = _fork, _demux
IterableWrapper = IterableWrapperIterDataPipe
Mapper, Filter, Batcher = MapperIterDataPipe, FilterIterDataPipe, BatcherIterDataPipe
UnBatcher, Collator, Shuffler = UnBatcherIterDataPipe, CollatorIterDataPipe, ShufflerIterDataPipe
Zipper, Concater, Grouper = ZipperIterDataPipe, ConcaterIterDataPipe, GrouperIterDataPipe
Multiplexer, ShardingFilter = MultiplexerIterDataPipe, ShardingFilterIterDataPipe
