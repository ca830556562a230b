"""Datasets: things with samples by index, or samples in order, and the ways to combine them."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import isclose
from typing import Any, Generic, TypeVar

import ember.ops as ops
from ember.core.tensor import Tensor
from ember.errors import check

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by index: subclasses give `__getitem__`, and `__len__` if samplers are to know.

    A subclass may also give `__getitems__(indices)`, which loads a batch at once.

    >>> import ember as torch
    >>> class Squares(torch.utils.data.Dataset):
    ...     def __getitem__(self, index): return index**2
    ...     def __len__(self): return 4
    >>> list(torch.utils.data.DataLoader(Squares(), batch_size=2))
    [tensor([0, 1]), tensor([4, 9])]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    # No default __len__: len() of a dataset without one is a TypeError, and samplers rely on it.

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Samples in order: subclasses give `__iter__`. Each worker process has its own copy.

    Without a look at `get_worker_info()` in `__iter__`, every worker yields all samples.

    >>> import ember as torch
    >>> class Count(torch.utils.data.IterableDataset):
    ...     def __iter__(self): return iter(range(3))
    >>> list(torch.utils.data.DataLoader(Count(), batch_size=2))
    [tensor([0, 1]), tensor([2])]
    """

    def __add__(self, other: Dataset[T_co]) -> ChainDataset:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Sample `i` is the tuple of slices `tensor[i]`; all tensors have the same first size.

    >>> import ember as torch
    >>> torch.utils.data.TensorDataset(torch.arange(3), torch.arange(3) * 2)[1]
    (tensor(1), tensor(2))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor):
        same = all(tensors[0].size(0) == tensor.size(0) for tensor in tensors)
        check(
            same,
            AssertionError,
            lambda: f"Size mismatch between tensors: first dims {[t.size(0) for t in tensors]}",
        )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))


class StackDataset(Dataset[Any]):
    """Sample `i` is the tuple (or, from keywords, the dict) of the samples `i` of several datasets.

    >>> import ember as torch
    >>> torch.utils.data.StackDataset(x=[1, 2], y=["a", "b"])[1]
    {'x': 2, 'y': 'b'}
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any):
        check(
            not (args and kwargs),
            ValueError,
            "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like "
            "input/output, "
            "but both types are given.",
        )
        check(args or kwargs, ValueError, "At least one dataset should be passed")
        members = args or tuple(kwargs.values())
        self._length = len(members[0])
        check(
            all(len(member) == self._length for member in members),
            ValueError,
            lambda: f"Size mismatch between datasets: lengths {[len(m) for m in members]}",
        )
        self.datasets = args or kwargs

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        if isinstance(self.datasets, dict):
            columns = [_samples(dataset, indices) for dataset in self.datasets.values()]
            return [
                dict(zip(self.datasets, row, strict=True)) for row in zip(*columns, strict=True)
            ]
        columns = [_samples(dataset, indices) for dataset in self.datasets]
        return list(zip(*columns, strict=True))

    def __len__(self) -> int:
        return self._length


def _samples(dataset: Any, indices: Sequence[int]) -> Any:
    batch_of = getattr(dataset, "__getitems__", None)
    if not callable(batch_of):
        return [dataset[index] for index in indices]
    samples = batch_of(indices)
    check(
        len(samples) == len(indices),
        ValueError,
        f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(samples)}",
    )
    return samples


class ConcatDataset(Dataset[T_co]):
    """The samples of several datasets one after another.

    >>> import ember as torch
    >>> torch.utils.data.ConcatDataset([[1, 2], [3]])[-1]
    3
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """The running sums of the lengths."""
        return list(accumulate(len(dataset) for dataset in sequence))

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = list(datasets)
        check(self.datasets, AssertionError, "datasets should not be an empty iterable")
        for dataset in self.datasets:
            check(
                not isinstance(dataset, IterableDataset),
                AssertionError,
                "ConcatDataset does not support IterableDataset; use ChainDataset",
            )
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> T_co:
        if idx < 0:
            check(
                -idx <= len(self),
                ValueError,
                "absolute value of index should not exceed dataset length",
            )
            idx += len(self)
        which = bisect_right(self.cumulative_sizes, idx)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][idx - before]

    @property
    def cummulative_sizes(self) -> list[int]:
        """An old misspelling of `cumulative_sizes`."""
        warnings.warn(
            "`cummulative_sizes` attribute is renamed to `cumulative_sizes`",
            FutureWarning,
            stacklevel=2,
        )
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """The samples of several iterable datasets one after another, read lazily."""

    def __init__(self, datasets: Iterable[Any]):
        super().__init__()
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._checked():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._checked())

    def _checked(self) -> Iterator[Any]:
        for dataset in self.datasets:
            check(
                isinstance(dataset, IterableDataset),
                AssertionError,
                "ChainDataset only supports IterableDataset; use ConcatDataset",
            )
            yield dataset


class Subset(Dataset[T_co]):
    """Some samples of a dataset, named by their indices.

    >>> import ember as torch
    >>> torch.utils.data.Subset("abcd", [2, 0])[0]
    'c'
    """

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        chosen = [self.indices[index] for index in indices]
        batch_of = getattr(self.dataset, "__getitems__", None)
        if callable(batch_of):
            return batch_of(chosen)
        return [self.dataset[index] for index in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Any = None
) -> list[Subset[Any]]:
    """Cut a dataset at random into subsets of the given lengths, or of the given fractions.

    Fractions that sum to 1 are rounded down, and what is left goes to the first subsets, one each.
    One permutation is drawn from `generator` (or the default one). ValueError if lengths do not sum
    to the dataset's.

    >>> import ember as torch
    >>> g = torch.Generator().manual_seed(0)
    >>> parts = torch.utils.data.random_split(range(10), [0.7, 0.3], g)
    >>> [len(part) for part in parts]
    [7, 3]
    """
    total = len(dataset)
    if isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _from_fractions(lengths, total)
    check(
        sum(lengths) == total,
        ValueError,
        f"Sum of input lengths does not equal the length of the input dataset! ({list(lengths)} "
        "sum to "
        f"{sum(lengths)}; the dataset has {total})",
    )
    order = ops.randperm(int(sum(lengths)), generator=generator).tolist()
    ends = list(accumulate(int(length) for length in lengths))
    return [Subset(dataset, order[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def _from_fractions(fractions: Sequence[float], total: int) -> list[int]:
    for position, fraction in enumerate(fractions):
        check(
            0 <= fraction <= 1,
            ValueError,
            f"Fraction at index {position} is not between 0 and 1",
        )
    lengths = [int(total * fraction) for fraction in fractions]
    for position in range(total - sum(lengths)):
        lengths[position % len(lengths)] += 1
    for position, length in enumerate(lengths):
        if length == 0:
            warnings.warn(
                f"Length of split at index {position} is 0. This might result in an empty dataset.",
                UserWarning,
                stacklevel=3,
            )
    return lengths
