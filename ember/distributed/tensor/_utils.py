"""Which part of a sharded tensor a process has, from the mesh and the placements alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ember.distributed.device_mesh import DeviceMesh
from ember.distributed.tensor.placement_types import Placement, Shard, _StridedShard
from ember.errors import check

__all__ = ["compute_local_shape_and_global_offset"]


def _kept(rows: np.ndarray, placement: Placement, count: int, place: int) -> np.ndarray:
    """The rows that remain along one dim of the mesh, of which this process is at `place`."""
    pieces = [rows]
    if isinstance(placement, _StridedShard):
        pieces = [
            rows[first : first + length]
            for length, first in (
                Shard.local_shard_size_and_offset(len(rows), placement.split_factor, part)
                for part in range(placement.split_factor)
            )
        ]
    parts = []
    for piece in pieces:
        length, first = Shard.local_shard_size_and_offset(len(piece), count, place)
        parts.append(piece[first : first + length])
    return np.concatenate(parts)


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int],
    mesh: DeviceMesh,
    placements: Sequence[Placement],
    skip_offset: bool = False,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of this process's part, and where it begins in the whole.

    The placements cut one after the other, the outermost dim of the mesh first. A part with
    nothing in it begins at the end.

    >>> import ember as torch, ember.distributed as dist
    >>> from ember.distributed.tensor import Shard
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> compute_local_shape_and_global_offset((4, 6), mesh, [Shard(1)])
    ((4, 6), (0, 0))
    >>> dist.destroy_process_group()
    """
    place = mesh.get_coordinate()
    if place is None:
        return (0,), ()
    shape, offset = list(global_shape), [0] * len(global_shape)
    rows: dict[int, np.ndarray] = {}
    for i, placement in enumerate(placements):
        if not isinstance(placement, Shard | _StridedShard):
            continue
        dim = placement.dim
        check(
            0 <= dim < len(shape),
            AssertionError,
            f"Sharding dim {dim} greater than tensor ndim {len(shape)}",
        )
        left = rows.get(dim)
        left = np.arange(shape[dim]) if left is None else left
        rows[dim] = _kept(left, placement, mesh.size(i), place[i])
    for dim, left in rows.items():
        offset[dim] = int(left[0]) if len(left) else shape[dim]
        shape[dim] = len(left)
    return tuple(shape), () if skip_offset else tuple(offset)
