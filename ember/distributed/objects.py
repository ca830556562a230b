"""Collectives on any objects: they travel as pickles, whose lengths go first.

Only processes of the same run can send them: connections are made with a secret that is in the
run's store.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from ember.core.tensor import Tensor, from_ndarray
from ember.device import CPU
from ember.distributed.collectives import member, root_of
from ember.distributed.point_to_point import recv, send
from ember.distributed.process_group import ProcessGroup
from ember.dtypes import int64, uint8
from ember.errors import check
from ember.ops import empty, tensor, zeros


def _packed(value: Any, group: ProcessGroup) -> Tensor:
    content = np.frombuffer(bytearray(pickle.dumps(value)), np.uint8)
    return _placed(from_ndarray(content), group)


def _placed(made: Tensor, group: ProcessGroup) -> Tensor:
    """On the device that the group's backend takes."""
    return made.to("cuda") if group.name() == "nccl" else made  # type: ignore[attr-defined]


def _unpacked(content: Tensor, length: int) -> Any:
    return pickle.loads(content.to(CPU).numpy()[:length].tobytes())  # type: ignore[attr-defined]


def _lengths(group: ProcessGroup, own: int) -> list[int]:
    sizes = _placed(zeros(group.size(), dtype=int64), group)
    group.allgather_into(sizes, _placed(tensor([own]), group))
    return [int(size) for size in sizes.tolist()]


def _blank(group: ProcessGroup, count: int) -> Tensor:
    return _placed(empty(count, dtype=uint8), group)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put the object of each process into `object_list`, on all of them."""
    found = member(group, "all_gather_object")
    if found is None:
        return
    own = _packed(obj, found)
    lengths = _lengths(found, own.numel())
    padded = _blank(found, max(lengths))
    padded[: own.numel()] = own
    parts = [_blank(found, max(lengths)) for _ in lengths]
    found.allgather(parts, padded)
    for index, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        object_list[index] = _unpacked(part, length)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Put the object of each process into the list of the process `dst`."""
    found = member(group, "gather_object")
    if found is None:
        return
    root = root_of(found, dst, group_dst, "dst")
    here = found.rank() == root
    check(
        bool(object_gather_list) == here,
        ValueError,
        "Argument ``object_gather_list`` must be specified on destination rank, and only there.",
    )
    own = _packed(obj, found)
    lengths = _lengths(found, own.numel())
    padded = _blank(found, max(lengths))
    padded[: own.numel()] = own
    parts = [_blank(found, max(lengths)) for _ in lengths] if here else []
    found.gather(parts, padded, root)
    for index, part in enumerate(parts):
        assert object_gather_list is not None
        object_gather_list[index] = _unpacked(part, lengths[index])


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Give all processes the objects of the process `src`, in place of their own."""
    found = member(group, "broadcast_object_list")
    if found is None:
        return
    root = root_of(found, src, group_src, "src")
    here = found.rank() == root
    packed = [_packed(value, found) for value in object_list] if here else []
    sizes = [p.numel() for p in packed] if here else [0] * len(object_list)
    lengths = _placed(tensor(sizes), found)
    found.broadcast([lengths], root)
    for index, length in enumerate(lengths.tolist()):
        content = packed[index] if here else _blank(found, length)
        found.broadcast([content], root)
        if not here:
            object_list[index] = _unpacked(content, length)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: Sequence[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Give each process, as the first of its list, its object of the list of the process `src`."""
    found = member(group, "scatter_object_list")
    if found is None:
        return
    check(
        isinstance(scatter_object_output_list, list) and scatter_object_output_list,
        ValueError,
        "Expected argument scatter_object_output_list to be a list of size at least 1.",
    )
    root = root_of(found, src, group_src, "src")
    here = found.rank() == root
    given = scatter_object_input_list or []
    check(
        not here or len(given) == found.size(),
        ValueError,
        f"scatter_object_input_list needs {found.size()} objects on the source rank, has "
        f"{len(given)}",
    )
    packed = [_packed(value, found) for value in given] if here else []
    lengths = _placed(tensor([p.numel() for p in packed] or [0] * found.size()), found)
    found.broadcast([lengths], root)
    longest, padded = int(lengths.max()), []
    for content in packed:
        padded.append(_blank(found, longest))
        padded[-1][: content.numel()] = content
    own = _blank(found, longest)
    found.scatter(own, padded, root)
    scatter_object_output_list[0] = _unpacked(own, int(lengths[found.rank()]))


def send_object_list(
    object_list: Sequence[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to the process `dst`."""
    found = member(group, "send_object_list")
    if found is None:
        return
    packed = [_packed(value, found) for value in object_list]
    send(_placed(tensor([p.numel() for p in packed]), found), dst, group, 0, group_dst)
    for content in packed:
        send(content, dst, group, 0, group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects from the process `src`, in place of those in the list; the sender's rank."""
    found = member(group, "recv_object_list")
    if found is None:
        return -1
    lengths = _placed(tensor([0] * len(object_list)), found)
    sender = recv(lengths, src, group, 0, group_src)
    for index, length in enumerate(lengths.tolist()):
        content = _blank(found, length)
        recv(content, sender, group)
        object_list[index] = _unpacked(content, length)
    return sender
