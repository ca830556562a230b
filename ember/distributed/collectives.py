"""The collectives on tensors: what programs call."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ember.core.tensor import Tensor
from ember.distributed.process_group import ProcessGroup
from ember.distributed.reduce_op import ReduceOp
from ember.distributed.work import Work
from ember.distributed.world import GroupMember, get_group_rank, resolved
from ember.errors import check


def member(group: Any, op: str) -> ProcessGroup | None:
    """The group; None, with a warning, in a process that is not in it."""
    if group is GroupMember.NON_GROUP_MEMBER:
        warnings.warn(
            f"Running {op} on global rank outside the group: this process is no member of it and "
            "does nothing",
            UserWarning,
            stacklevel=3,
        )
        return None
    return resolved(group)


def check_tensor(value: Any, name: str) -> None:
    """TypeError for what is no tensor."""
    check(
        isinstance(value, Tensor),
        TypeError,
        f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
        f"             but got {type(value)} instead.",
    )


def check_tensors(value: Any, name: str) -> None:
    """TypeError for what is no list of tensors."""
    check(
        isinstance(value, list | tuple) and all(isinstance(each, Tensor) for each in value),
        TypeError,
        f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
        f"             but got {type(value)} instead.",
    )


def root_of(group: ProcessGroup, everywhere: int | None, inside: int | None, name: str) -> int:
    """A process's rank in the group, given among all (src, dst) or in the group."""
    check(
        everywhere is None or inside is None,
        ValueError,
        f"Can't specify both {name} and group_{name}",
    )
    if inside is not None:
        return inside
    if everywhere is None:
        return 0
    if len(group.ranks) == group._peers.size:
        return everywhere
    return get_group_rank(group, everywhere)


def outcome(work: Work, async_op: bool) -> Work | None:
    """What a collective returns: its Work if it goes on in the background."""
    return work if async_op else None


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce a tensor over all processes, in place, with the same result on all of them.

    >>> import ember as torch, ember.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> x = torch.ones(2)
    >>> dist.all_reduce(x)
    >>> dist.destroy_process_group()
    """
    check_tensor(tensor, "tensor")
    found = member(group, "all_reduce")
    if found is None:
        return None
    return outcome(found.allreduce([tensor], op, in_background=async_op), async_op)


def all_reduce_coalesced(
    tensors: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """`all_reduce` of several tensors in one call."""
    given = [tensors] if isinstance(tensors, Tensor) else tensors
    check_tensors(given, "tensor")
    found = member(group, "all_reduce_coalesced")
    if found is None:
        return None
    return outcome(found.allreduce(given, op, in_background=async_op), async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give all processes the tensor of the process `src`."""
    check_tensor(tensor, "tensor")
    found = member(group, "broadcast")
    if found is None:
        return None
    root = root_of(found, src, group_src, "src")
    return outcome(found.broadcast([tensor], root, in_background=async_op), async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduce a tensor over all processes, in place on the process `dst`."""
    check_tensor(tensor, "tensor")
    found = member(group, "reduce")
    if found is None:
        return None
    root = root_of(found, dst, group_dst, "dst")
    return outcome(found.reduce(tensor, root, op, in_background=async_op), async_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Put the tensor of each process into `tensor_list`, on all of them."""
    check_tensors(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    found = member(group, "all_gather")
    if found is None:
        return None
    return outcome(found.allgather(tensor_list, tensor, in_background=async_op), async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Put the tensors of all processes into one, one after the other or stacked."""
    check_tensor(output_tensor, "output_tensor")
    check_tensor(input_tensor, "input_tensor")
    found = member(group, "all_gather_into_tensor")
    if found is None:
        return None
    work = found.allgather_into(output_tensor, input_tensor, in_background=async_op)
    return outcome(work, async_op)


all_gather_single = _all_gather_base = all_gather_into_tensor


def all_gather_coalesced(
    output_tensor_lists: Sequence[list[Tensor]],
    input_tensor_list: Sequence[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """`all_gather` of several tensors; the lists are those of each process."""
    check_tensors(input_tensor_list, "tensor_list")
    work = None
    for index, tensor in enumerate(input_tensor_list):
        targets = [tensors[index] for tensors in output_tensor_lists]
        work = all_gather(targets, tensor, group, async_op)
    return work


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Put the tensor of each process into the `gather_list` of the process `dst`."""
    check_tensor(tensor, "tensor")
    check_tensors(gather_list or [], "gather_list")
    found = member(group, "gather")
    if found is None:
        return None
    root = root_of(found, dst, group_dst, "dst")
    _check_list_place(gather_list, found.rank() == root, "gather_list", "destination")
    work = found.gather(gather_list or [], tensor, root, in_background=async_op)
    return outcome(work, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give each process its tensor of the `scatter_list` of the process `src`."""
    check_tensor(tensor, "tensor")
    check_tensors(scatter_list or [], "scatter_list")
    found = member(group, "scatter")
    if found is None:
        return None
    root = root_of(found, src, group_src, "src")
    _check_list_place(scatter_list, found.rank() == root, "scatter_list", "source")
    work = found.scatter(tensor, scatter_list or [], root, in_background=async_op)
    return outcome(work, async_op)


def _check_list_place(tensors: Any, here: bool, name: str, which: str) -> None:
    if here:
        check(
            tensors,
            ValueError,
            f"Argument ``{name}`` must be specified on {which} rank.",
        )
    else:
        check(
            not tensors,
            ValueError,
            f"Argument ``{name}`` must NOT be specified on non-{which} ranks.",
        )


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Give each process the reduction of all processes' tensors for it."""
    check_tensor(output, "output")
    check_tensors(input_list, "input_list")
    found = member(group, "reduce_scatter")
    if found is None:
        return None
    work = found.reduce_scatter(output, input_list, op, in_background=async_op)
    return outcome(work, async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """The same with one tensor, cut up along its first dim."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    found = member(group, "reduce_scatter_tensor")
    if found is None:
        return None
    check(
        input.numel() == output.numel() * found.size(),
        ValueError,
        "input tensor must be the same size as output size times world size: got "
        f"{list(input.shape)} for {found.size()} times {list(output.shape)}",
    )
    parts = list(input.contiguous().reshape(found.size(), -1).unbind(0))  # type: ignore[attr-defined]
    return outcome(found.reduce_scatter(output, parts, op, in_background=async_op), async_op)


reduce_scatter_single = _reduce_scatter_base = reduce_scatter_tensor


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Give each process its tensor of every process's list."""
    check_tensors(output_tensor_list, "output_tensor_list")
    check_tensors(input_tensor_list, "input_tensor_list")
    found = member(group, "all_to_all")
    if found is None:
        return None
    work = found.alltoall(output_tensor_list, input_tensor_list, in_background=async_op)
    return outcome(work, async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """The same with one tensor, cut up along its first dim into equal parts or into parts of given
    sizes.
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    found = member(group, "all_to_all_single")
    if found is None:
        return None
    work = found.alltoall_base(
        output, input, output_split_sizes, input_split_sizes, in_background=async_op
    )
    return outcome(work, async_op)


def barrier(
    group: Any = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Wait until all processes are here."""
    found = member(group, "barrier")
    if found is None:
        return None
    return outcome(found.barrier(timeout, in_background=async_op), async_op)


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait until all processes are here; the error on rank 0 names those that are not.

    With `wait_all_ranks` it names all of them, else the first.
    """
    found = member(group, "monitored_barrier")
    if found is not None:
        check(
            found.name() != "nccl",
            ValueError,
            "monitored_barrier is only implemented for GLOO backend.",
        )
        found.monitored_barrier(timeout, wait_all_ranks)
