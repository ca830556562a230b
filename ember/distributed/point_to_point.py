"""Tensors from one process to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ember.core.tensor import Tensor
from ember.distributed.collectives import check_tensor, member, root_of
from ember.distributed.process_group import ProcessGroup
from ember.distributed.work import Work
from ember.errors import check


def _partner(group: ProcessGroup, rank: int | None, inside: int | None, name: str) -> int:
    word = "destination" if name == "dst" else "source"
    check(
        rank is not None or inside is not None,
        ValueError,
        f"Must specify {name} or group_{name}",
    )
    found = root_of(group, rank, inside, name)
    check(
        found != group.rank(),
        ValueError,
        f"Invalid {word} rank: {word} rank should not be the same as the rank of the current "
        "process.",
    )
    check(
        0 <= found < group.size(),
        ValueError,
        f"Invalid {word} rank: {found}, in a group of {group.size()} processes",
    )
    return found


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Send a tensor to the process `dst`; it may be changed once the Work is done."""
    check_tensor(tensor, "tensor")
    found = member(group, "isend")
    if found is None:
        return None
    return found.send([tensor], _partner(found, dst, group_dst, "dst"), tag)


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Receive a tensor from the process `src`, or from any; it is there when the Work is done."""
    check_tensor(tensor, "tensor")
    found = member(group, "irecv")
    if found is None:
        return None
    anyone = src is None and group_src is None
    return found.recv(tensor, None if anyone else _partner(found, src, group_src, "src"), tag)


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to the process `dst`."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive a tensor from the process `src`, or from any; the rank of the sender."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


class P2POp:
    """A send or a receive for `batch_isend_irecv`: `op` is isend or irecv."""

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ):
        check(
            op in (isend, irecv),
            ValueError,
            "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
            "``torch.distributed.irecv``.",
        )
        check_tensor(tensor, "tensor")
        self.op, self.tensor, self.peer, self.group = op, tensor, peer, group
        self.tag, self.group_peer = tag, group_peer

    def __repr__(self) -> str:
        shape, peer = list(self.tensor.shape), self.peer
        return f"P2POp({self.op.__name__} pg={self.group}, peer={peer}, shape={shape})"


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begin several sends and receives; a Work for each."""
    check(
        isinstance(p2p_op_list, list) and all(isinstance(op, P2POp) for op in p2p_op_list),
        ValueError,
        "Invalid ``p2p_op_list``. Each op is expected to be of type ``torch.distributed.P2POp``.",
    )
    check(p2p_op_list, ValueError, "Invalid ``p2p_op_list``. The list is empty")
    works = []
    for each in p2p_op_list:
        work = each.op(each.tensor, each.peer, each.group, each.tag, each.group_peer)
        if work is not None:
            works.append(work)
    return works
