"""One pass over a loader: in this process, or by worker processes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from ember.backends import base
from ember.utils.data._utils.fetch import _DatasetKind
from ember.utils.data._utils.pin_memory import pin_memory
from ember.utils.data.sampler import drawn_seed


class _BaseDataLoaderIter:
    """What both kinds of pass share: the indices, the seed of the workers, counting, pinning."""

    def __init__(self, loader: Any):
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._pin_memory = loader.pin_memory and _has_gpu(loader.pin_memory)
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = drawn_seed(loader.generator)
        self._persistent_workers = loader.persistent_workers
        self._num_yielded = 0

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        expected = self._IterableDataset_len_called
        if (
            self._dataset_kind == _DatasetKind.Iterable
            and expected is not None
            and self._num_yielded > expected
        ):
            self._warn_of_length(expected)
        return data

    def _warn_of_length(self, expected: int) -> None:
        message = (
            f"Length of IterableDataset {self._dataset} was reported to be {expected}(when "
            "accessing "
            f"len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers > 0:
            message += (
                "For multiprocessing data-loading, this could be caused by not properly "
                "configuring the "
                "IterableDataset replica at each worker: each yields all samples unless its "
                "__iter__ looks at "
                "get_worker_info()."
            )
        warnings.warn(message, UserWarning, stacklevel=3)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


def _has_gpu(wanted: bool) -> bool:
    found = base.has_backend("cuda") and base.backend_of("cuda").device_count() > 0
    if wanted and not found:
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned "
            "memory won't "
            "be used.",
            UserWarning,
            stacklevel=4,
        )
    return found


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """A pass in this process: each batch is loaded when it is asked for."""

    def __init__(self, loader: Any):
        super().__init__(loader)
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind,
            self._dataset,
            self._auto_collation,
            self._collate_fn,
            self._drop_last,
        )

    def _next_data(self) -> Any:
        data = self._dataset_fetcher.fetch(self._next_index())
        return pin_memory(data) if self._pin_memory else data


class _InfiniteConstantSampler:
    """The sampler of an iterable dataset, which decides itself: None for ever."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None
