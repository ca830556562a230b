"""Collectives as functions with gradients: they return tensors, and leave their arguments alone.

The gradient of a sum over processes is the sum of the processes' gradients, that of a copy to
another process comes back from there; so backward makes the mirrored collectives, on all processes
in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember.autograd.function import Function
from ember.core.tensor import Tensor
from ember.distributed.process_group import ProcessGroup
from ember.distributed.reduce_op import RedOpType, ReduceOp, kind_of
from ember.distributed.world import get_group_rank, resolved
from ember.errors import check
from ember.ops import cat, empty_like, zeros_like

_SUMS = (RedOpType.SUM, RedOpType.AVG)


def _inside(group: ProcessGroup, rank: int) -> int:
    return rank if len(group.ranks) == group._peers.size else get_group_rank(group, rank)


def _check_sum(op: Any, name: str) -> None:
    check(
        kind_of(op) in _SUMS,
        NotImplementedError,
        f"{name}: gradients go through ReduceOp.SUM and AVG only",
    )


def _copy(tensor: Tensor) -> Tensor:
    made: Tensor = tensor.detach().contiguous().clone()  # type: ignore[attr-defined]
    return made


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, op: Any, group: ProcessGroup) -> Tensor:
        ctx.op, ctx.group = op, group
        made = _copy(tensor)
        group.allreduce([made], op)
        return made

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        _check_sum(ctx.op, "all_reduce")
        return _AllReduce.apply(grads[0], ctx.op, ctx.group), None, None


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, root: int, group: ProcessGroup) -> Tensor:
        ctx.root, ctx.group = root, group
        made = _copy(tensor)
        group.broadcast([made], root)
        return made

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return _Reduce.apply(grads[0], ctx.root, ReduceOp.SUM, ctx.group), None, None


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, root: int, op: Any, group: ProcessGroup) -> Tensor:
        ctx.root, ctx.op, ctx.group = root, op, group
        made = _copy(tensor)
        group.reduce(made, root, op)
        return made if group.rank() == root else zeros_like(made)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        _check_sum(ctx.op, "reduce")
        found = _Broadcast.apply(grads[0], ctx.root, ctx.group)
        if kind_of(ctx.op) is RedOpType.AVG:
            found = found / ctx.group.size()
        return found, None, None, None


class _AllToAll(Function):
    """`tensors` to the processes, and what they send, in tensors like `likes`."""

    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, likes: Sequence[Tensor], *tensors: Tensor) -> Any:
        ctx.group, ctx.likes = group, [empty_like(t) for t in tensors]
        made = [empty_like(like, requires_grad=False).contiguous() for like in likes]
        group.alltoall(made, [_copy(t) for t in tensors])
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, *_AllToAll.apply(ctx.group, ctx.likes, *grads)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The reduction of all processes' tensors."""
    found: Tensor = _AllReduce.apply(tensor, op, resolved(group))
    return found


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of the process `src`."""
    found = resolved(group)
    made: Tensor = _Broadcast.apply(tensor, _inside(found, src), found)
    return made


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The reduction of all processes' tensors on the process `dst`; zeros on the others."""
    found = resolved(group)
    made: Tensor = _Reduce.apply(tensor, _inside(found, dst), op, found)
    return made


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """This process's tensor of every process's list, of the shapes of `output_tensor_list`."""
    made: tuple[Tensor, ...] = _AllToAll.apply(
        resolved(group), list(output_tensor_list), *input_tensor_list
    )
    return made


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes."""
    size = resolved(group).size()
    return all_to_all([tensor] * size, [tensor] * size, group)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:
    """The same with one tensor, cut up along its first dim."""
    found = resolved(group)
    made = all_to_all(
        _parts(output, output_split_sizes, found.size()),
        _parts(input, input_split_sizes, found.size()),
        found,
    )
    joined: Tensor = cat(made)
    return joined


def _parts(tensor: Any, sizes: Sequence[int] | None, count: int) -> list[Tensor]:
    rows = tensor.shape[0]
    check(
        bool(sizes) or rows % count == 0,
        RuntimeError,
        "Tensor's dim 0 does not divide equally across group size",
    )
    return list(tensor.split(list(sizes) if sizes else [rows // count] * count))


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes on the process `dst`; zeros on the others."""
    found = resolved(group)
    root, size, nothing = _inside(found, dst), found.size(), _nothing_of(tensor)
    outgoing = [tensor if rank == root else nothing for rank in range(size)]
    if found.rank() == root:
        return all_to_all([tensor] * size, outgoing, found)
    made = all_to_all([nothing] * size, outgoing, found)
    return tuple(zeros_like(tensor) + part.sum() for part in made)  # type: ignore[attr-defined]


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """This process's tensor of the list of the process `src`; all give tensors of the shapes."""
    found = resolved(group)
    root, me = _inside(found, src), found.rank()
    outgoing = list(tensors) if me == root else [_nothing_of(t) for t in tensors]
    nothing = _nothing_of(tensors[me])
    incoming = [tensors[me] if rank == root else nothing for rank in range(found.size())]
    return all_to_all(incoming, outgoing, found)[root]


def _nothing_of(tensor: Any) -> Tensor:
    """No elements of a tensor, but in its graph: so that backward makes the same calls."""
    return tensor.reshape(-1)[:0]  # type: ignore[no-any-return]


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """The reduction of all processes' tensors for this one."""
    _check_sum(op, "reduce_scatter")
    found = resolved(group)
    made: Any = sum(all_to_all([output] * found.size(), input_list, found))
    return made / found.size() if kind_of(op) is RedOpType.AVG else made  # type: ignore[no-any-return]
