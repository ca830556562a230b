"""`DataLoader`: batches of a dataset, loaded here or by worker processes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Generic, TypeVar

from ember.errors import check
from ember.utils.data._utils import collate
from ember.utils.data._utils.collate import default_collate, default_convert
from ember.utils.data._utils.fetch import _DatasetKind
from ember.utils.data._utils.iterators import (
    _BaseDataLoaderIter,
    _InfiniteConstantSampler,
    _SingleProcessDataLoaderIter,
)
from ember.utils.data._utils.worker import get_worker_info
from ember.utils.data.dataset import IterableDataset
from ember.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

T_co = TypeVar("T_co", covariant=True)
_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


def _worker_iterator() -> Any:
    module = import_module("ember.utils.data._utils.worker_iterator")
    return module._MultiProcessingDataLoaderIter


def __getattr__(name: str) -> Any:
    if name == "_MultiProcessingDataLoaderIter":  # it imports multiprocessing, which costs time
        return _worker_iterator()
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


class DataLoader(Generic[T_co]):
    """Iterates over the batches of a dataset.

    Indices come from `sampler` (in order, or random with `shuffle`) in lists of `batch_size`, or
    from `batch_sampler`; `batch_size=None` gives single samples. `collate_fn` makes the batch. With
    `num_workers` processes, each loads `prefetch_factor` batches ahead, the order stays, and random
    numbers follow from `generator` (or the default one): worker `i` is seeded with a number drawn
    from it, plus `i`. An error in a worker is raised here with the same type and the worker's
    traceback. ValueError for options that exclude each other.

    >>> import ember as torch
    >>> loader = torch.utils.data.DataLoader(range(5), batch_size=2)
    >>> len(loader), list(loader)
    (3, [tensor([0, 1]), tensor([2, 3]), tensor([4])])
    """

    dataset: Any
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Any
    pin_memory_device: str
    prefetch_factor: int | None
    _iterator: Any = None
    __initialized = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: _collate_fn_t | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: _worker_init_fn_t | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ):
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        self.dataset, self.num_workers, self.prefetch_factor = dataset, num_workers, prefetch_factor
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.timeout, self.worker_init_fn = timeout, worker_init_fn
        self.multiprocessing_context, self.in_order = multiprocessing_context, in_order
        iterable = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if iterable else _DatasetKind.Map
        if iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        _check_batching(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None:
            sampler = _default_sampler(dataset, iterable, shuffle, generator)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler, self.generator = sampler, batch_sampler, generator
        if collate_fn is None:
            collate_fn = (
                collate.default_collate if self._auto_collation else collate.default_convert
            )
        self.collate_fn, self.persistent_workers = collate_fn, persistent_workers
        self.__initialized = True
        self._IterableDataset_len_called: int | None = None
        self._iterator = None
        self.check_worker_number_rationality()

    @property
    def multiprocessing_context(self) -> Any:
        """The context that makes the workers' processes; None for the default one."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            context = _context(context, self.num_workers)
        self.__multiprocessing_context = context

    def __setattr__(self, name: str, value: Any) -> None:
        check(
            not self.__initialized or name not in _FIXED,
            ValueError,
            f"{name} attribute should not be set after {type(self).__name__} is initialized",
        )
        super().__setattr__(name, value)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _worker_iterator()(self)

    def __iter__(self) -> Iterator[Any]:
        if not (self.persistent_workers and self.num_workers > 0):
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def __len__(self) -> int:
        if self._dataset_kind != _DatasetKind.Iterable:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than processors that this process may use."""
        if not self.num_workers:
            return
        if hasattr(os, "sched_getaffinity"):
            most: int | None = len(os.sched_getaffinity(0))
        else:
            most = os.cpu_count()
        if most is not None and self.num_workers > most:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our "
                "suggested max "
                f"number of worker in current system is {most}, which is smaller than what this "
                "DataLoader is "
                "going to create. Please be aware that excessive worker creation might get "
                "DataLoader running "
                "slow or even freeze, lower the worker number to avoid potential slowness/freeze "
                "if necessary.",
                UserWarning,
                stacklevel=3,
            )


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    check(
        num_workers >= 0,
        ValueError,
        "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.",
    )
    check(timeout >= 0, ValueError, "timeout option should be non-negative")
    check(
        num_workers > 0 or prefetch_factor is None,
        ValueError,
        "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to "
        "enable "
        "multiprocessing, otherwise set prefetch_factor to None.",
    )
    check(
        prefetch_factor is None or prefetch_factor >= 0,
        ValueError,
        "prefetch_factor option should be non-negative",
    )
    check(
        not persistent_workers or num_workers > 0,
        ValueError,
        "persistent_workers option needs num_workers > 0",
    )


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    for name, value, unset in (
        ("shuffle", shuffle, not shuffle),
        ("sampler", sampler, sampler is None),
        ("batch_sampler", batch_sampler, batch_sampler is None),
    ):
        check(
            unset,
            ValueError,
            f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
            f"{name}={value}",
        )


def _check_batching(
    batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: Any
) -> None:
    check(
        sampler is None or not shuffle,
        ValueError,
        "sampler option is mutually exclusive with shuffle",
    )
    check(
        batch_sampler is None
        or (batch_size == 1 and not shuffle and sampler is None and not drop_last),
        ValueError,
        "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
        "drop_last",
    )
    check(
        batch_size is not None or not drop_last,
        ValueError,
        "batch_size=None option disables auto-batching and is mutually exclusive with drop_last",
    )


def _default_sampler(dataset: Any, iterable: bool, shuffle: Any, generator: Any) -> Any:
    if iterable:
        return _InfiniteConstantSampler()
    if shuffle:
        return RandomSampler(dataset, generator=generator)
    return SequentialSampler(dataset)


def _context(context: Any, num_workers: int) -> Any:
    """The context object of an option value. ValueError for an unknown start method."""
    check(
        num_workers > 0,
        ValueError,
        "multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
        "but got "
        f"num_workers={num_workers}",
    )
    import multiprocessing
    from multiprocessing.context import BaseContext

    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        check(
            context in methods,
            ValueError,
            f"multiprocessing_context option should specify a valid start method in {methods}, but "
            "got "
            f"multiprocessing_context='{context}'",
        )
        context = multiprocessing.get_context(context)
    check(
        isinstance(context, BaseContext),
        TypeError,
        "multiprocessing_context option should be a valid context object or a string specifying "
        "the start "
        f"method, but got multiprocessing_context={context}",
    )
    return context
