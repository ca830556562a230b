"""`ProcessGroup`: some of the processes of a run, and the collectives among them on tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from ember.core.array import host_copy
from ember.core.tensor import Tensor, from_ndarray
from ember.device import CPU, META
from ember.distributed import exchange
from ember.distributed.errors import DistBackendError
from ember.distributed.exchange import Exchange
from ember.distributed.reduce_op import RedOpType, check_reducible
from ember.distributed.transport import DIRECT, Label, Peers
from ember.distributed.work import Background, ReceiveWork, Work
from ember.errors import check

DEFAULT_TIMEOUT = timedelta(minutes=30)


class HostBuffer:
    """A tensor as a flat array on the host: its own memory where that is possible, else a copy.

    `read` is False for a tensor that is only written to.
    """

    def __init__(self, tensor: Tensor, read: bool = True):
        array = tensor._array
        check(
            array.spec.device is not META,
            RuntimeError,
            "No backend type associated with device type meta: a meta tensor has no elements",
        )
        self.tensor = tensor
        self.own = array.spec.device is CPU and array.spec.contiguous
        if self.own:
            self.values = array.host().reshape(-1)
        elif read:
            self.values = host_copy(array).reshape(-1)
        else:
            self.values = np.empty(array.spec.numel, array.spec.dtype.numpy)

    def write_back(self) -> None:
        """Let the tensor have what is in the array now."""
        if self.own:
            self.tensor._array.storage.version += 1
        else:
            found = from_ndarray(self.values.reshape(self.tensor.shape), self.tensor.dtype)
            self.tensor.detach().copy_(found)  # type: ignore[attr-defined]


def _write_all(buffers: Sequence[HostBuffer]) -> Callable[[], None]:
    def write() -> None:
        for buffer in buffers:
            buffer.write_back()

    return write


class ProcessGroup:
    """Processes that exchange tensors; all of them make the same calls in the same order.

    `ember.distributed.init_process_group` makes the group of all processes, `new_group` others.
    """

    def __init__(
        self,
        peers: Peers,
        number: int,
        ranks: list[int],
        backend: str,
        timeout: timedelta,
        name: str,
        description: str = "undefined",
    ):
        self._peers, self._number, self.ranks = peers, number, ranks
        self._backend, self._timeout = backend, timeout
        self.group_name, self.group_desc = name, description
        self.bound_device_id: Any = None
        self._calls, self._background = 0, Background()

    def rank(self) -> int:
        """This process's place in the group."""
        return self.ranks.index(self._peers.rank)

    def size(self) -> int:
        """The number of processes."""
        return len(self.ranks)

    def name(self) -> str:
        """The name of the backend."""
        return self._backend

    @property
    def timeout(self) -> timedelta:
        """How long a collective waits for the other processes."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Change how long a collective waits."""
        self._timeout = timeout

    def shutdown(self) -> None:
        """End the group's thread, when what it has to do is done."""
        self._background.stop()

    abort = shutdown

    def check_device(self, tensor: Tensor) -> None:
        """RuntimeError for a tensor that the backend does not take."""
        kind = tensor.device.type
        check(
            self._backend != "nccl" or kind == "cuda",
            RuntimeError,
            f"No backend type associated with device type {kind}: an nccl group takes tensors on "
            "GPUs; move it with .cuda(), or make the group with backend='gloo'",
        )

    def _buffers(self, tensors: Sequence[Tensor], read: bool = True) -> list[HostBuffer]:
        for tensor in tensors:
            self.check_device(tensor)
        return [HostBuffer(tensor, read) for tensor in tensors]

    def start(
        self,
        op: str,
        run: Callable[[Exchange], Any],
        outputs: Sequence[HostBuffer],
        in_background: bool,
        timeout: timedelta | None = None,
    ) -> Work:
        """Begin a collective: here and now, or in the group's thread."""
        seconds = (timeout or self._timeout).total_seconds()
        self._calls += 1
        x = Exchange(self._peers, self._number, self.ranks, self._calls, op, seconds)

        def execute() -> None:
            try:
                run(x)
            except BaseException as error:
                x.report(error)
                raise

        work = Work(execute, _write_all(outputs), [buffer.tensor for buffer in outputs])
        if in_background:
            self._background.submit(work)
        else:
            work.execute()
            work.wait()
        return work

    # the collectives

    def allreduce(
        self, tensors: Any, op: Any = RedOpType.SUM, *, in_background: bool = False
    ) -> Work:
        """Reduce each tensor over all processes, in place."""
        given = [tensors] if isinstance(tensors, Tensor) else tensors
        op = getattr(op, "reduceOp", op)
        for tensor in given:
            check_reducible(op, tensor.dtype)
        buffers = self._buffers(given)

        def run(x: Exchange) -> None:
            for buffer in buffers:
                exchange.all_reduce(x, buffer.values, op)

        return self.start("all_reduce", run, buffers, in_background)

    def broadcast(self, tensors: Any, root: Any = 0, *, in_background: bool = False) -> Work:
        """Give all processes the tensors of the root."""
        given = [tensors] if isinstance(tensors, Tensor) else tensors
        root = getattr(root, "rootRank", root)
        self._check_root(root, "broadcast")
        buffers = self._buffers(given, read=self.rank() == root)

        def run(x: Exchange) -> None:
            for buffer in buffers:
                exchange.broadcast(x, buffer.values, root)

        return self.start("broadcast", run, buffers, in_background)

    def reduce(
        self, tensor: Tensor, root: int, op: Any = RedOpType.SUM, *, in_background: bool = False
    ) -> Work:
        """Reduce a tensor over all processes, in place on the root."""
        self._check_root(root, "reduce")
        check_reducible(op, tensor.dtype)
        (buffer,) = self._buffers([tensor])
        outputs = [buffer] if self.rank() == root else []
        return self.start(
            "reduce", lambda x: exchange.reduce(x, buffer.values, root, op), outputs, in_background
        )

    def allgather(
        self, outputs: Sequence[Tensor], tensor: Tensor, *, in_background: bool = False
    ) -> Work:
        """Put the tensor of each process into `outputs`."""
        self._check_list(outputs, tensor, "allgather", "output")
        targets, (source,) = self._buffers(outputs, read=False), self._buffers([tensor])
        arrays = [target.values for target in targets]
        return self.start(
            "all_gather",
            lambda x: exchange.all_gather(x, arrays, source.values),
            targets,
            in_background,
        )

    def allgather_into(
        self, output: Tensor, tensor: Tensor, *, in_background: bool = False
    ) -> Work:
        """Put the tensors of all processes into one, one after the other."""
        check(
            output.numel() == tensor.numel() * self.size() and output.dtype is tensor.dtype,
            ValueError,
            "output tensor size must be equal to world_size times input tensor size, and of its "
            f"dtype: got {list(output.shape)} of {output.dtype} for {self.size()} times "
            f"{list(tensor.shape)} of {tensor.dtype}",
        )
        (target,), (source,) = self._buffers([output], read=False), self._buffers([tensor])
        arrays = np.split(target.values, self.size())
        return self.start(
            "all_gather",
            lambda x: exchange.all_gather(x, arrays, source.values),
            [target],
            in_background,
        )

    def gather(
        self, outputs: Sequence[Tensor], tensor: Tensor, root: int, *, in_background: bool = False
    ) -> Work:
        """Put the tensor of each process into `outputs` on the root."""
        self._check_root(root, "gather")
        if self.rank() == root:
            self._check_list(outputs, tensor, "gather", "output")
        targets, (source,) = self._buffers(outputs, read=False), self._buffers([tensor])
        arrays = [target.values for target in targets]
        return self.start(
            "gather",
            lambda x: exchange.gather(x, arrays, source.values, root),
            targets,
            in_background,
        )

    def scatter(
        self, output: Tensor, tensors: Sequence[Tensor], root: int, *, in_background: bool = False
    ) -> Work:
        """Give each process its tensor of the root's list."""
        self._check_root(root, "scatter")
        if self.rank() == root:
            self._check_list(tensors, output, "scatter", "input")
        (target,), sources = self._buffers([output], read=False), self._buffers(tensors)
        arrays = [source.values for source in sources]
        return self.start(
            "scatter",
            lambda x: exchange.scatter(x, target.values, arrays, root),
            [target],
            in_background,
        )

    def reduce_scatter(
        self,
        output: Tensor,
        tensors: Sequence[Tensor],
        op: Any = RedOpType.SUM,
        *,
        in_background: bool = False,
    ) -> Work:
        """Give each process the reduction of all processes' tensors for it."""
        self._check_list(tensors, output, "reduce_scatter", "input")
        check_reducible(op, output.dtype)
        (target,), sources = self._buffers([output], read=False), self._buffers(tensors)
        arrays = [source.values for source in sources]
        return self.start(
            "reduce_scatter",
            lambda x: exchange.reduce_scatter(x, target.values, arrays, op),
            [target],
            in_background,
        )

    def alltoall(
        self, outputs: Sequence[Tensor], tensors: Sequence[Tensor], *, in_background: bool = False
    ) -> Work:
        """Give each process its tensor of every process's list."""
        for found, role in ((outputs, "output"), (tensors, "input")):
            check(
                len(found) == self.size(),
                RuntimeError,
                f"alltoall: {role} tensor list needs {self.size()} tensors, one for each process, "
                f"got {len(found)}",
            )
        targets, sources = self._buffers(outputs, read=False), self._buffers(tensors)
        there, here = [t.values for t in targets], [s.values for s in sources]
        return self.start(
            "all_to_all", lambda x: exchange.all_to_all(x, there, here), targets, in_background
        )

    def alltoall_base(
        self,
        output: Tensor,
        tensor: Tensor,
        output_splits: Sequence[int] | None,
        input_splits: Sequence[int] | None,
        *,
        in_background: bool = False,
    ) -> Work:
        """The same with one tensor, cut up along its first dim."""
        (target,), (source,) = self._buffers([output], read=False), self._buffers([tensor])
        there = self._cut(target, output_splits, "output")
        here = self._cut(source, input_splits, "input")
        return self.start(
            "all_to_all", lambda x: exchange.all_to_all(x, there, here), [target], in_background
        )

    def _cut(self, buffer: HostBuffer, splits: Sequence[int] | None, role: str) -> list[Any]:
        rows = buffer.tensor.shape[0] if buffer.tensor.ndim else 0
        if not splits:
            check(
                rows % self.size() == 0,
                RuntimeError,
                f"Tensor's dim 0 does not divide equally across group size: {role} has {rows} "
                f"rows for {self.size()} processes; give {role}_split_sizes",
            )
            splits = [rows // self.size()] * self.size()
        check(
            len(splits) == self.size() and sum(splits) == rows,
            RuntimeError,
            f"Split sizes doesn't match total dim 0 size: {role}_split_sizes={list(splits)} for "
            f"{rows} rows and {self.size()} processes",
        )
        width = buffer.values.size // rows if rows else 0
        ends = np.cumsum([count * width for count in splits])[:-1]
        return np.split(buffer.values, ends)

    def barrier(self, timeout: timedelta | None = None, *, in_background: bool = False) -> Work:
        """Wait until all processes are here."""
        return self.start("barrier", exchange.barrier, [], in_background, timeout)

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """Wait until all processes are here; the error on rank 0 names those that are not."""
        self.start(
            "monitored_barrier",
            lambda x: exchange.monitored_barrier(x, wait_all_ranks),
            [],
            False,
            timeout,
        )

    # between two processes

    def send(self, tensors: Any, rank: int, tag: int = 0) -> Work:
        """Send tensors to a process."""
        given = [tensors] if isinstance(tensors, Tensor) else tensors
        for buffer in self._buffers(given):
            code = exchange.dtype_code(buffer.values.dtype)
            label = Label(self._peers.rank, self._number, DIRECT, tag)
            content = buffer.values.view(np.uint8)
            self._peers.send(self.ranks[rank], label, exchange.OPS.index("send"), code, content)
        work = Work(lambda: None, lambda: None, list(given))
        work.execute()
        return work

    def recv(self, tensor: Tensor, rank: int | None, tag: int = 0) -> ReceiveWork:
        """Receive a tensor from a process, or from any (None)."""
        (buffer,) = self._buffers([tensor], read=False)
        sources = [r for r in self.ranks if r != self._peers.rank]
        sources = sources if rank is None else [self.ranks[rank]]
        labels = [Label(source, self._number, DIRECT, tag) for source in sources]
        mailbox, what = self._peers.mailbox, f"recv with tag {tag} on rank {self._peers.rank}"

        def take(wait: bool) -> int | None:
            seconds = self._timeout.total_seconds()
            found = mailbox.take(labels, seconds, what) if wait else mailbox.take_now(labels)
            if found is None:
                return None
            label, message = found
            self._check_message(message, buffer, label.source)
            buffer.values[:] = message.content.view(buffer.values.dtype)
            return label.source

        return ReceiveWork(take, buffer.write_back, [tensor])

    def _check_message(self, message: Any, buffer: HostBuffer, source: int) -> None:
        values = buffer.values
        if message.content.nbytes != values.nbytes or message.dtype != exchange.dtype_code(
            values.dtype
        ):
            raise DistBackendError(
                f"rank {source} sent {message.content.nbytes} bytes of "
                f"{exchange.DTYPE_NAMES[message.dtype]}, where rank {self._peers.rank} receives "
                f"{values.nbytes} bytes of {values.dtype}: the tensors must have the same size "
                "and dtype"
            )

    # checks

    def _check_root(self, root: int, op: str) -> None:
        check(
            0 <= root < self.size(),
            RuntimeError,
            f"ProcessGroup{self._backend.title()}::{op}: invalid root rank: {root}",
        )

    def _check_list(self, tensors: Sequence[Tensor], like: Tensor, op: str, role: str) -> None:
        start = f"ProcessGroup{self._backend.title()}::{op}: invalid"
        check(
            len(tensors) == self.size(),
            RuntimeError,
            f"{start} {role} tensor list at index 0 (expected length {self.size()}, got "
            f"{len(tensors)})",
        )
        for index, tensor in enumerate(tensors):
            check(
                tensor.dtype is like.dtype,
                RuntimeError,
                f"{start} tensor type at index {index} (expected {like.dtype}, got {tensor.dtype})",
            )
            check(
                tensor.numel() == like.numel(),
                RuntimeError,
                f"{start} tensor size at index {index} (expected ({like.numel()}), got "
                f"({tensor.numel()}))",
            )


ProcessGroup.__module__ = "torch.distributed"
