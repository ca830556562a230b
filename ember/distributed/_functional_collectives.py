"""Collectives as functions: they return their results, which are there at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember.core.tensor import Tensor
from ember.distributed.device_mesh import DeviceMesh
from ember.distributed.left_out import left_out_class
from ember.distributed.nn import functional
from ember.distributed.process_group import ProcessGroup
from ember.distributed.reduce_op import RedOpType
from ember.distributed.world import resolved
from ember.ops import cat

AsyncCollectiveTensor = left_out_class(
    __name__, "AsyncCollectiveTensor", "results are there at once", Tensor
)


def _group(group: Any) -> ProcessGroup:
    if isinstance(group, DeviceMesh):
        group = group.get_group()
    elif isinstance(group, tuple) and isinstance(group[0], DeviceMesh):
        group = group[0].get_group(group[1])
    return resolved(group)


def _copy(tensor: Any) -> Any:
    return tensor.detach().contiguous().clone()


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor, which is there."""
    return tensor


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """The reduction of all processes' tensors: "sum", "avg", "max" ..."""
    made: Tensor = _copy(self)
    _group(group).allreduce([made], RedOpType[reduceOp.upper()])
    return made


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """The tensor of one process."""
    made: Tensor = _copy(self)
    _group(group).broadcast([made], src)
    return made


def all_gather_tensor(self: Any, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """The tensors of all processes, joined along a dim."""
    found, own = _group(group), _copy(self)
    parts = [own.new_empty(own.shape) for _ in range(found.size())]
    found.allgather(parts, own)
    return cat(parts, gather_dim)  # type: ignore[no-any-return]


def reduce_scatter_tensor(
    self: Any, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> Tensor:
    """This process's part, along a dim, of the reduction of all processes' tensors."""
    found = _group(group)
    parts = [_copy(part) for part in self.chunk(found.size(), scatter_dim)]
    made = parts[found.rank()].new_empty(parts[found.rank()].shape)
    found.reduce_scatter(made, parts, RedOpType[reduceOp.upper()])
    return made  # type: ignore[no-any-return]


def all_to_all_single(
    self: Any,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """This process's part of every process's tensor, cut up along the first dim."""
    rows = sum(output_split_sizes) if output_split_sizes else self.shape[0]
    made = self.detach().new_empty((rows, *self.shape[1:]))
    _group(group).alltoall_base(made, _copy(self), output_split_sizes, input_split_sizes)
    return made  # type: ignore[no-any-return]


def all_to_all_single_autograd(
    self: Any,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """`all_to_all_single` that gradients flow through."""
    rows = sum(output_split_sizes) if output_split_sizes else self.shape[0]
    made = self.detach().new_empty((rows, *self.shape[1:]))
    return functional.all_to_all_single(
        made, self, output_split_sizes, input_split_sizes, _group(group)
    )
