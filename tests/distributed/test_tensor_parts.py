"""Which part of a sharded tensor a process has."""

import numpy as np
import pytest

from ember.distributed.tensor import Partial, Replicate, Shard
from ember.distributed.tensor._utils import compute_local_shape_and_global_offset as part
from ember.distributed.tensor.placement_types import _StridedShard


class Grid:
    """A mesh as seen by one process of it."""

    def __init__(self, sizes, rank):
        self.sizes, self.place = sizes, np.unravel_index(rank, sizes)

    def get_coordinate(self):
        return self.place

    def size(self, dim):
        return self.sizes[dim]


@pytest.mark.parametrize(
    ("placements", "shape", "expected"),
    [
        (
            [Shard(0), Shard(0)],
            (3, 5),
            [((1, 5), (0, 0)), ((1, 5), (1, 0)), ((1, 5), (2, 0)), ((0, 5), (3, 0))],
        ),
        (
            [Shard(0), Shard(1)],
            (3, 5),
            [((2, 3), (0, 0)), ((2, 2), (0, 3)), ((1, 3), (2, 0)), ((1, 2), (2, 3))],
        ),
        (
            [Partial(), Shard(0)],
            (10, 4),
            [((5, 4), (0, 0)), ((5, 4), (5, 0)), ((5, 4), (0, 0)), ((5, 4), (5, 0))],
        ),
        (
            [_StridedShard(0, split_factor=2), Shard(0)],
            (10, 4),
            [((3, 4), (0, 0)), ((3, 4), (5, 0)), ((2, 4), (3, 0)), ((2, 4), (8, 0))],
        ),
        ([Replicate(), Replicate()], (2, 2), [((2, 2), (0, 0))] * 4),
    ],
)
def test_parts(placements, shape, expected):
    assert [part(shape, Grid((2, 2), rank), placements) for rank in range(4)] == expected


def test_parts_along_a_dim_that_is_not_there():
    with pytest.raises(AssertionError, match="Sharding dim 2 greater than tensor ndim 2"):
        part((2, 2), Grid((2,), 0), [Shard(2)])
    assert part((4, 2), Grid((2,), 1), [Shard(0)], skip_offset=True) == ((2, 2), ())


def test_chunks():
    assert [Shard.local_shard_size_and_offset(10, 4, i) for i in range(5)] == [
        (3, 0),
        (3, 3),
        (3, 6),
        (1, 9),
        (0, 10),
    ]
    assert repr(_StridedShard(0, split_factor=2)) == "_StridedShard(dim=0, sf=2)"
    assert not _StridedShard(0).is_shard()
