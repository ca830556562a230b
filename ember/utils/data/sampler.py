"""Samplers: the order in which a loader asks a dataset for its samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

import ember.ops as ops
from ember import dtypes
from ember.core.generator import Generator
from ember.core.tensor import Tensor
from ember.errors import check

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """An order of indices (or lists of them): subclasses give `__iter__`, and `__len__` if they
    know it.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("a Sampler gives the indices by its __iter__ method")


class SequentialSampler(Sampler[int]):
    """0, 1, 2 ... in order.

    >>> import ember as torch
    >>> list(torch.utils.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    data_source: Sized

    def __init__(self, data_source: Sized):
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """The indices in a random order, or `num_samples` of them drawn with replacement.

    Without a `generator` each pass seeds one of its own from the default generator. The numbers
    drawn are PyTorch's for the same seed.

    >>> import ember as torch
    >>> sorted(torch.utils.data.RandomSampler("abc"))
    [0, 1, 2]
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ):
        self.data_source, self.replacement = data_source, replacement
        self._num_samples, self.generator = num_samples, generator
        check(
            isinstance(replacement, bool),
            TypeError,
            f"replacement should be a boolean value, but got replacement={replacement}",
        )
        check(
            isinstance(self.num_samples, int) and self.num_samples > 0,
            ValueError,
            lambda: (
                "num_samples should be a positive integer value, but got "
                f"num_samples={self.num_samples}"
            ),
        )

    @property
    def num_samples(self) -> int:
        """How many indices one pass gives; the dataset's length now, unless it was chosen."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = Generator()
            generator.manual_seed(drawn_seed())
        if self.replacement:
            for size in _pieces(self.num_samples, 32):
                drawn = ops.randint(0, count, (size,), dtype=dtypes.int64, generator=generator)
                yield from drawn.tolist()
            return
        for size in _pieces(self.num_samples, count, last_may_be_empty=True):
            yield from islice(ops.randperm(count, generator=generator).tolist(), size)

    def __len__(self) -> int:
        return self.num_samples


def drawn_seed(generator: Any = None) -> int:
    """A seed from the generator (or the default one): one non-negative int64."""
    return int(ops.empty((), dtype=dtypes.int64).random_(generator=generator).item())


def _pieces(total: int, size: int, *, last_may_be_empty: bool = False) -> Iterator[int]:
    """`size`, as often as it fits in `total`, then what is left."""
    yield from [size] * (total // size)
    if last_may_be_empty or total % size:  # PyTorch draws for the remainder even when there is none
        yield total % size


class SubsetRandomSampler(Sampler[int]):
    """The given indices in a random order.

    >>> import ember as torch
    >>> sorted(torch.utils.data.SubsetRandomSampler([4, 2]))
    [2, 4]
    """

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Any = None):
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for position in ops.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[position]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """`num_samples` indices, each drawn with probability proportional to its weight.

    >>> import ember as torch
    >>> list(torch.utils.data.WeightedRandomSampler([0., 1.], 3))
    [1, 1, 1]
    """

    weights: Tensor
    num_samples: int
    replacement: bool

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Any = None,
    ):
        check(
            isinstance(num_samples, int) and not isinstance(num_samples, bool) and num_samples > 0,
            ValueError,
            f"num_samples should be a positive integer value, but got num_samples={num_samples}",
        )
        check(
            isinstance(replacement, bool),
            ValueError,
            f"replacement should be a boolean value, but got replacement={replacement}",
        )
        self.weights = ops.as_tensor(weights, dtype=dtypes.float64)
        check(
            self.weights.ndim == 1,
            ValueError,
            "weights should be a 1d sequence but given weights have shape "
            f"{tuple(self.weights.shape)}",
        )
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        drawn = ops.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler; a shorter last one is given or dropped.

    >>> import ember as torch
    >>> list(torch.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool):
        check(
            isinstance(batch_size, int) and not isinstance(batch_size, bool) and batch_size > 0,
            ValueError,
            f"batch_size should be a positive integer value, but got batch_size={batch_size}",
        )
        check(
            isinstance(drop_last, bool),
            ValueError,
            f"drop_last should be a boolean value, but got drop_last={drop_last}",
        )
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
