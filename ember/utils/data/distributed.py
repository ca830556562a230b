"""The sampler that deals a dataset out to the processes of a distributed run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import ember.ops as ops
from ember.core.generator import Generator
from ember.errors import check
from ember.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """The share of process `rank` among `num_replicas`: every `num_replicas`-th index, from `rank`
    on.

    All shares have the same length: the list is filled up by its own beginning, or cut if
    `drop_last`. With `shuffle` the order is a permutation seeded by `seed + epoch`; call
    `set_epoch` before each pass. Replicas and rank default to those of the process group.

    >>> import ember as torch
    >>> list(torch.utils.data.DistributedSampler("abcde", num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ):
        if num_replicas is None:
            num_replicas = _of_process_group("get_world_size")
        if rank is None:
            rank = _of_process_group("get_rank")
        check(
            0 <= rank < num_replicas,
            ValueError,
            f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]",
        )
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        count = len(dataset)
        if drop_last and count % num_replicas:
            self.num_samples = max(0, -(-(count - num_replicas) // num_replicas))
        else:
            self.num_samples = -(-count // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = ops.randperm(count, generator=generator).tolist()
        else:
            order = list(range(count))
        if len(order) < self.total_size:
            order = (order * -(-self.total_size // len(order)))[: self.total_size]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the permutation of the next pass: the same `epoch` in all processes."""
        self.epoch = epoch


def _of_process_group(name: str) -> int:
    distributed = sys.modules.get("ember.distributed")  # a level above: there if a group was made
    check(
        distributed is not None and distributed.is_initialized(),
        ValueError,
        "Default process group has not been initialized, please make sure to call "
        "init_process_group. "
        "(Or give num_replicas and rank.)",
    )
    return int(getattr(distributed, name)())
