"""How gradients are averaged over processes while backward runs.

Parameters share buckets, in the reverse order of the module's, which is about the order in which
backward reaches them. When all gradients of a bucket are there, its all-reduce starts in the
background, and backward goes on; buckets start in the same order on all processes. When backward is
over, the averages are put back into `.grad`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from ember.core import engine
from ember.core.modes import no_grad
from ember.core.node import AccumulateGrad, edge_of
from ember.core.tensor import Tensor
from ember.distributed.process_group import ProcessGroup
from ember.distributed.work import Work
from ember.dtypes import int64
from ember.errors import check
from ember.futures import Future
from ember.ops import empty, zeros
from ember.pytree import tree_leaves

FIRST_BUCKET_BYTES = 1 << 20  # small, so that the first all-reduce starts early
UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This "
    "error indicates that your module has parameters that were not used in producing loss. You can "
    "enable unused parameter detection by passing the keyword argument "
    "`find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by \nmaking "
    "sure all `forward` function outputs participate in calculating loss. "
)
TWICE = (
    "Expected to mark a variable ready only once. This error is caused by one of the following "
    "reasons: 1) Use of a module parameter outside the `forward` function. Please make sure model "
    "parameters are not shared across multiple concurrent forward-backward passes. or try to use "
    "_set_static_graph() as a workaround if this module graph does not change during training "
    "loop. 2) Reused parameters in multiple reentrant backward passes."
)


class BuiltinCommHookType(enum.IntEnum):
    """The communication hooks that need no function."""

    ALLREDUCE = 0
    FP16_COMPRESS = 1


class Bucket:
    """Parameters whose gradients travel together, in one flat tensor."""

    def __init__(self, index: int, parameters: list[tuple[int, Tensor]]):
        self.index, self.parameters = index, parameters
        first = parameters[0][1]
        total = sum(p.numel() for _, p in parameters)
        self.flat = empty(total, dtype=first.dtype, device=first.device)
        self.views, start = [], 0
        for _, parameter in parameters:
            part = self.flat[start : start + parameter.numel()]
            self.views.append(part.view(parameter.shape))
            start += parameter.numel()
        self.pending = len(parameters)
        self.under_way: Work | Future | None = None


class GradBucket:
    """A bucket as communication hooks see it."""

    def __init__(self, bucket: Bucket, count: int):
        self._bucket, self._count, self._buffer = bucket, count, bucket.flat

    def index(self) -> int:
        """Its number, in the order in which buckets are reduced."""
        return self._bucket.index

    def is_last(self) -> bool:
        """Whether it is the last one of a backward pass."""
        return self._bucket.index == self._count - 1

    def buffer(self) -> Tensor:
        """All gradients, as one flat tensor."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Put another tensor in its place."""
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """The gradients, as views."""
        return list(self._bucket.views)

    def parameters(self) -> list[Tensor]:
        """The parameters that they belong to."""
        return [parameter for _, parameter in self._bucket.parameters]


def bucketed(parameters: Sequence[Tensor], cap: int, first_cap: int) -> list[Bucket]:
    """The buckets of parameters: of one dtype and device each, and of about `cap` bytes."""
    open_groups: dict[Any, list[tuple[int, Tensor]]] = {}
    sizes: dict[Any, int] = {}
    made: list[Bucket] = []
    for index in reversed(range(len(parameters))):
        parameter = parameters[index]
        key = parameter.dtype, parameter.device
        open_groups.setdefault(key, []).append((index, parameter))
        sizes[key] = sizes.get(key, 0) + parameter.numel() * parameter.element_size()
        if sizes[key] >= (cap if made else first_cap):
            made.append(Bucket(len(made), open_groups.pop(key)))
            del sizes[key]
    for group in open_groups.values():
        made.append(Bucket(len(made), group))
    return made


class Reducer:
    """Averages the gradients of some parameters over a group of processes, backward by backward."""

    def __init__(
        self,
        parameters: Sequence[Tensor],
        names: Sequence[str],
        group: ProcessGroup,
        cap: int,
        *,
        find_unused: bool,
        as_views: bool,
        static_graph: bool,
    ):
        self.parameters, self.names, self.group = list(parameters), list(names), group
        self.find_unused, self.as_views, self.static_graph = find_unused, as_views, static_graph
        self.hook: Callable[[Any, GradBucket], Future] | None = None
        self.hook_state: Any = None
        self.buckets = bucketed(self.parameters, cap, min(cap, FIRST_BUCKET_BYTES))
        self._home = {i: b for b in self.buckets for i, _ in b.parameters}
        self._active = self._queued = False
        self._ready: set[int] = set()
        self._used: set[int] = set()
        self._uses: dict[int, int] = {}  # static graph: how often each became ready the first time
        self._left: dict[int, int] = {}
        self._launched = 0
        self._handles = [
            parameter.register_post_accumulate_grad_hook(self._hook_of(index))
            for index, parameter in enumerate(self.parameters)
        ]

    def _hook_of(self, index: int) -> Callable[[Tensor], None]:
        return lambda _: self._arrived(index)

    def remove(self) -> None:
        """Leave the parameters alone from now on."""
        for handle in self._handles:
            handle.remove()

    # an iteration

    def check_finished(self, rank: int) -> None:
        """RuntimeError if gradients of the last backward are still missing."""
        missing = sorted(set(range(len(self.parameters))) - self._ready)
        if self._active and self._used and missing:
            names = ", ".join(self.names[i] for i in missing)
            raise RuntimeError(
                f"{UNFINISHED}\nParameter indices which did not receive grad for rank {rank}: "
                f"{' '.join(map(str, missing))}\nThose are: {names}"
            )

    def prepare(self, outputs: Any) -> None:
        """Get ready for the backward pass from a forward's outputs."""
        self._active, self._queued, self._launched = True, False, 0
        self._ready, self._used = set(), set()
        self._left = dict(self._uses)
        for bucket in self.buckets:
            bucket.pending, bucket.under_way = len(bucket.parameters), None
        if self.static_graph and self._uses:
            self._skip(set(range(len(self.parameters))) - set(self._uses))
        elif self.find_unused and not self.static_graph:
            self._skip(self._unreached(outputs))

    def _unreached(self, outputs: Any) -> set[int]:
        """The parameters that no output depends on."""
        stack = [edge_of(t)[0] for t in tree_leaves(outputs) if isinstance(t, Tensor)]
        seen, reached = set(stack), set()
        while stack:
            node = stack.pop()
            if isinstance(node, AccumulateGrad):
                reached.add(id(node.variable))
            for target, _ in node.edges if node is not None else ():
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
        return {i for i, p in enumerate(self.parameters) if id(p) not in reached}

    def _skip(self, indices: set[int]) -> None:
        """Count parameters as ready that will get no gradient."""
        for index in indices:
            self._ready.add(index)
            self._home[index].pending -= 1

    def _arrived(self, index: int) -> None:
        """Backward has added to the gradient of a parameter."""
        if not self._active:
            return
        if not self._queued:
            engine.queue_callback(self._finish)
            self._queued = True
        self._used.add(index)
        if self.static_graph and not self._uses:  # the first pass: see what happens
            self._left[index] = self._left.get(index, 0) + 1
            return
        if self.static_graph:
            self._left[index] -= 1
            if self._left[index] > 0:
                return
        check(
            index not in self._ready,
            RuntimeError,
            f"{TWICE}\nParameter at index {index} with name {self.names[index]} has been marked as "
            "ready twice.",
        )
        self._ready.add(index)
        self._home[index].pending -= 1
        self._launch_ready()

    def _launch_ready(self) -> None:
        while self._launched < len(self.buckets) and not self.buckets[self._launched].pending:
            self._launch(self.buckets[self._launched])
            self._launched += 1

    def _launch(self, bucket: Bucket) -> None:
        """Start the all-reduce of a bucket whose gradients are there."""
        with no_grad():
            for view, (_, parameter) in zip(bucket.views, bucket.parameters, strict=True):
                grad = parameter._grad
                if grad is not None and grad._array.kind != "strided":
                    grad = parameter._grad = grad.to_dense()  # type: ignore[attr-defined]
                if grad is None:
                    view.zero_()
                elif grad._array.storage is not view._array.storage:
                    view.copy_(grad.detach())
            if self.hook is not None:
                bucket.under_way = self.hook(self.hook_state, GradBucket(bucket, len(self.buckets)))
                return
            if self.group.size() > 1:
                bucket.flat.div_(self.group.size())
                bucket.under_way = self.group.allreduce([bucket.flat], in_background=True)

    def _finish(self) -> None:
        """Backward is over: wait for the averages, and put them into the gradients."""
        if self.static_graph and not self._uses:
            self._uses = dict(self._left)
            self._ready = set(range(len(self.parameters)))
            for bucket in self.buckets:
                bucket.pending = 0
        elif self.find_unused:  # what an output leads to need not be in the loss
            self._skip(set(range(len(self.parameters))) - self._ready)
        self._queued = False
        self._launch_ready()
        if self._launched < len(self.buckets):
            return  # another backward pass may bring the rest; else the next forward complains
        self._active = False
        used = self._used_anywhere()
        with no_grad():
            for bucket in self.buckets:
                self._take_average(bucket, used)

    def _used_anywhere(self) -> set[int]:
        """The parameters that got a gradient on any process."""
        if self.group.size() == 1 or not (self.find_unused or self.static_graph):
            return self._used
        device = self.parameters[0].device
        marks = zeros(len(self.parameters), dtype=int64, device=device)
        if self._used:
            marks[sorted(self._used)] = 1
        self.group.allreduce([marks])
        return {index for index, count in enumerate(marks.tolist()) if count}

    def _take_average(self, bucket: Bucket, used: set[int]) -> None:
        if isinstance(bucket.under_way, Future):
            found = bucket.under_way.wait()
            found = found[0] if isinstance(found, list | tuple) else found
            check(
                isinstance(found, Tensor),
                RuntimeError,
                f"a communication hook returns a future of a tensor, not of {type(found).__name__}",
            )
            if found._array.storage is not bucket.flat._array.storage:
                bucket.flat.copy_(found.reshape(-1))
        elif bucket.under_way is not None:
            bucket.under_way.wait()
        bucket.under_way = None
        for view, (index, parameter) in zip(bucket.views, bucket.parameters, strict=True):
            if index not in used:
                continue
            if self.as_views:
                parameter._grad = view
            elif parameter._grad is None:
                parameter._grad = view.clone()
            elif parameter._grad._array.storage is not view._array.storage:
                parameter._grad = _overwritten(parameter._grad, view)


def _overwritten(grad: Tensor, average: Tensor) -> Tensor:
    grad.detach().copy_(average)
    return grad
