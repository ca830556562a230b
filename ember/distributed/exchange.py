"""The collectives, on arrays of the host: who sends what to whom.

Each is written with `send` and `receive` between the ranks of a group. Since a send never waits,
processes send to all others at once: as many bytes as around a ring, in two steps instead of n.
Sums are taken in the order of the ranks, on one process for each part, so that all processes get
the same bits.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np

from ember.distributed.errors import DistBackendError
from ember.distributed.reduce_op import reduced
from ember.distributed.transport import COLLECTIVE, FAILURE, Label, Peers

OPS = (
    "all_reduce broadcast reduce all_gather gather scatter reduce_scatter all_to_all barrier "
    "monitored_barrier send"
).split()
SMALL_BYTES = 1 << 14  # arrays up to this are sent whole: one step instead of two
SMALL_GROUP = 8


class Exchange:
    """One collective call of one process: its number in the group, and the way to the others."""

    def __init__(
        self, peers: Peers, group: int, ranks: list[int], number: int, op: str, seconds: float
    ):
        self.peers, self.group, self.ranks = peers, group, ranks
        self.number, self.op, self.seconds = number, op, seconds
        self.me, self.size = ranks.index(peers.rank), len(ranks)
        self._deadline: float | None = None

    def __str__(self) -> str:
        return f"{self.op} (collective {self.number} of its group) on rank {self.peers.rank}"

    def others(self) -> list[int]:
        """The other ranks, beginning with the next: so not all send to rank 0 first."""
        return [(self.me + step) % self.size for step in range(1, self.size)]

    def _label(self, source: int, channel: int = COLLECTIVE) -> Label:
        return Label(source, self.group, channel, self.number)

    def send(self, rank: int, values: Any) -> None:
        """Send an array."""
        code = dtype_code(values.dtype)
        label = self._label(self.peers.rank)
        content = values.reshape(-1).view(np.uint8)
        self.peers.send(self.ranks[rank], label, OPS.index(self.op), code, content)

    def receive(self, rank: int, like: Any) -> Any:
        """The array that a rank sent, of the dtype and number of elements of `like`.

        DistBackendError if it called something else, or with other sizes.
        """
        if self._deadline is None:
            self._deadline = time.monotonic() + self.seconds
        left = max(0.0, self._deadline - time.monotonic())
        label = self._label(self.ranks[rank])
        try:
            _, message = self.peers.mailbox.take([label], left, str(self))
        except DistBackendError as error:
            if "Timed out" in str(error):
                text = str(error).replace(
                    f"{round(left * 1000)}ms", f"{round(self.seconds * 1000)}ms", 1
                )
                raise DistBackendError(text) from None
            raise
        if message.op != OPS.index(self.op):
            raise DistBackendError(
                f"the processes do not make the same calls: {self}, but rank {self.ranks[rank]} "
                f"called {OPS[message.op]} there"
            )
        if message.content.nbytes != like.nbytes or message.dtype != dtype_code(like.dtype):
            raise DistBackendError(
                f"{self}: rank {self.ranks[rank]} sent {message.content.nbytes} bytes of "
                f"{DTYPE_NAMES[message.dtype]}, where {like.nbytes} bytes of {like.dtype} were "
                "expected: the tensors must have the same size and dtype on all ranks"
            )
        return message.content.view(like.dtype)

    def receive_into(self, rank: int, target: Any) -> None:
        """Put what a rank sent into a flat array."""
        np.copyto(target, self.receive(rank, target))

    def report(self, error: BaseException) -> None:
        """Tell the others that this process cannot go on with the collective."""
        content = np.frombuffer(f"{type(error).__name__}: {error}".encode(), np.uint8)
        label = self._label(self.peers.rank, FAILURE)
        for rank in self.others():
            try:
                self.peers.send(self.ranks[rank], label, OPS.index(self.op), 0, content)
            except DistBackendError:
                continue  # that one is gone itself


DTYPE_NAMES = [
    "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
    "bool", "complex64", "complex128", "uint16", "uint32", "uint64", "float8_e4m3fn",
    "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
]  # fmt: skip
_CODES = {name: code for code, name in enumerate(DTYPE_NAMES)}


def dtype_code(dtype: np.dtype[Any]) -> int:
    """The number of a dtype in messages."""
    return _CODES.get(dtype.name, 255)


def bounds(count: int, parts: int) -> list[tuple[int, int]]:
    """The ends of nearly equal parts."""
    edges = [count * part // parts for part in range(parts + 1)]
    return list(pairwise(edges))


def all_reduce(x: Exchange, values: Any, op: Any) -> None:
    """Reduce a flat array over all ranks, in place.

    Large arrays: each rank reduces one part of them for all, then all gather the parts.
    """
    if values.nbytes <= SMALL_BYTES and x.size <= SMALL_GROUP:
        for rank in x.others():
            x.send(rank, values)
        parts = [values if r == x.me else x.receive(r, values) for r in range(x.size)]
        values[:] = reduced([parts[0].copy() if x.me == 0 else parts[0], *parts[1:]], op)
        return
    ends = bounds(values.size, x.size)
    for rank in x.others():
        x.send(rank, values[slice(*ends[rank])])
    own = values[slice(*ends[x.me])]
    parts = [own if r == x.me else x.receive(r, own) for r in range(x.size)]
    own[:] = reduced([parts[0].copy() if x.me == 0 else parts[0], *parts[1:]], op)
    for rank in x.others():
        x.send(rank, own)
    for rank in x.others():
        x.receive_into(rank, values[slice(*ends[rank])])


def broadcast(x: Exchange, values: Any, root: int) -> None:
    """Give all ranks the root's array: each that has it passes it on, a doubling in each step."""
    place = (x.me - root) % x.size
    step = 1
    while step < x.size:
        if place < step and place + step < x.size:
            x.send((root + place + step) % x.size, values)
        elif step <= place < 2 * step:
            x.receive_into((root + place - step) % x.size, values)
        step *= 2


def reduce(x: Exchange, values: Any, root: int, op: Any) -> None:
    """Reduce a flat array on the root, in place; the others keep theirs.

    Each rank reduces one part and sends it to the root.
    """
    ends = bounds(values.size, x.size)
    if values.nbytes <= SMALL_BYTES:
        ends = [(0, values.size) if r == root else (0, 0) for r in range(x.size)]
    for rank in x.others():
        x.send(rank, values[slice(*ends[rank])])
    own = values[slice(*ends[x.me])]
    parts = [own if r == x.me else x.receive(r, own) for r in range(x.size)]
    made = reduced([parts[0].copy(), *parts[1:]], op)
    if x.me != root:
        x.send(root, made)
        return
    own[:] = made
    for rank in x.others():
        x.receive_into(rank, values[slice(*ends[rank])])


def all_gather(x: Exchange, targets: list[Any], values: Any) -> None:
    """Put the array of each rank into `targets`, on every rank."""
    for rank in x.others():
        x.send(rank, values)
    targets[x.me][:] = values
    for rank in x.others():
        x.receive_into(rank, targets[rank])


def gather(x: Exchange, targets: list[Any], values: Any, root: int) -> None:
    """Put the array of each rank into `targets`, on the root."""
    if x.me != root:
        x.send(root, values)
        return
    targets[root][:] = values
    for rank in x.others():
        x.receive_into(rank, targets[rank])


def scatter(x: Exchange, target: Any, values: list[Any], root: int) -> None:
    """Give each rank its array of the root's list."""
    if x.me != root:
        x.receive_into(root, target)
        return
    for rank in x.others():
        x.send(rank, values[rank])
    target[:] = values[root]


def reduce_scatter(x: Exchange, target: Any, values: list[Any], op: Any) -> None:
    """Give each rank the reduction of all ranks' arrays for it."""
    for rank in x.others():
        x.send(rank, values[rank])
    parts = [values[x.me] if r == x.me else x.receive(r, target) for r in range(x.size)]
    target[:] = reduced([parts[0].copy(), *parts[1:]], op)


def all_to_all(x: Exchange, targets: list[Any], values: list[Any]) -> None:
    """Give each rank its array of every rank's list."""
    for rank in x.others():
        x.send(rank, values[rank])
    targets[x.me][:] = values[x.me]
    for rank in x.others():
        x.receive_into(rank, targets[rank])


def barrier(x: Exchange) -> None:
    """Wait until all ranks are here."""
    nothing = np.empty(0, np.uint8)
    for rank in x.others():
        x.send(rank, nothing)
    for rank in x.others():
        x.receive(rank, nothing)


def monitored_barrier(x: Exchange, wait_all_ranks: bool) -> None:
    """Wait on rank 0 until all ranks are here; the error names those that are not."""
    nothing, missing = np.empty(0, np.uint8), []
    if x.me != 0:
        x.send(0, nothing)
        x.receive(0, nothing)
        return
    for rank in range(1, x.size):
        try:
            x.receive(rank, nothing)
        except DistBackendError:
            missing.append(x.ranks[rank])
            if not wait_all_ranks:
                break
    if missing:
        names = ", ".join(map(str, missing))
        raise DistBackendError(
            f"[Rank 0]: Ranks {names} failed to pass monitoredBarrier in "
            f"{round(x.seconds * 1000)} ms"
        )
    for rank in range(1, x.size):
        x.send(rank, nothing)
