"""From the indices of a task to a batch: the same code in this process and in workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _DatasetKind:
    """Whether samples are asked for by index, or come in the dataset's own order."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> _BaseDatasetFetcher:
        """The fetcher for a kind of dataset."""
        fetcher = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return fetcher(dataset, auto_collation, collate_fn, drop_last)


class _BaseDatasetFetcher:
    """What every fetcher is told."""

    def __init__(
        self,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ):
        self.dataset, self.auto_collation = dataset, auto_collation
        self.collate_fn, self.drop_last = collate_fn, drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The batch of a list of indices, or the converted sample of one."""
        raise NotImplementedError


class _MapDatasetFetcher(_BaseDatasetFetcher):
    """Samples by index."""

    def fetch(self, possibly_batched_index: Any) -> Any:
        """One `__getitems__`, or a `__getitem__` for each index; then collation."""
        if not self.auto_collation:
            return self.collate_fn(self.dataset[possibly_batched_index])
        batch_of = getattr(self.dataset, "__getitems__", None)
        if batch_of:
            return self.collate_fn(batch_of(possibly_batched_index))
        return self.collate_fn([self.dataset[index] for index in possibly_batched_index])


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """Samples in the dataset's order; the indices only say how many."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.dataset_iter = iter(self.dataset)
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The next samples; StopIteration when there are none, or too few and `drop_last`."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        samples = []
        for _ in possibly_batched_index:
            try:
                samples.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
        if not samples or (self.drop_last and len(samples) < len(possibly_batched_index)):
            raise StopIteration
        return self.collate_fn(samples)
