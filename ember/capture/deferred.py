"""The deferred executor: calls wait in a queue, and are done when a value is looked at.

Shapes are known without the data, so a program runs on while its work waits: forward, backward and
the optimizer's step come together, and what nobody holds any more when they are done was only ever
passed on. The queue is done when memory is asked for (`.item()`, `print`, `.numpy()`, a copy to
another device), when an optimizer has made its step, when the queue is long, and before anything
that it cannot hold. A sequence that has been seen before becomes a program of fused kernels in
planned memory (replays.py).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ember.backends.base import copy_observers, has_cpu_kernels, memory_of
from ember.backends.gpus import reserves
from ember.capture.each import abandon
from ember.capture.queue import NUMBER, Queue, Waiting
from ember.capture.recorder import Place
from ember.capture.replays import Memory
from ember.core.executor import Executor, current_executor, set_executor
from ember.core.slot import executor_slot
from ember.device import CPU, META
from ember.dtypes import FLOAT
from ember.kernel import array as arrays
from ember.kernel.array import Array, Exposed, Queued, Storage
from ember.kernel.call import Call, LibraryCall, MapCall, ReduceCall
from ember.scalar.expr import topological

EAGER = os.environ.get("EMBER_EAGER", "0") not in ("", "0")
LONGEST = 20_000  # calls that wait at most
MOST_DIMS = 64  # of NumPy's arrays
SNAPSHOT = 1 << 20  # bytes up to which memory that others know is copied

# library kernels that no values can make fail
SURE = frozenset(
    "adaptive_average_pool adaptive_average_pool_backward adaptive_max_pool argmax argmin "
    "attention attention_backward average_pool average_pool_backward batch_norm "
    "batch_norm_backward concatenate convolution convolution_input convolution_weight "
    "cross_entropy_backward cummax cummin cumprod cumsum flip interpolate interpolate_backward "
    "linear linear_backward logcumsumexp matmul max_pool recurrent recurrent_backward roll sort "
    "topk tril triu write_view".split()
)
# (x, dim, index, ...): kernels that fail for an index out of range, and for nothing else
DIVIDES = frozenset(("floor_divide", "trunc_divide", "remainder", "fmod"))  # integers: by zero
INDEXED = frozenset("gather index_add index_copy index_select scatter".split())
# kernels that check their indices: a real GPU tells later anyway
LATE = frozenset(("cross_entropy", "index", "index_put", "take", "put", "max_pool_backward"))

_executors: weakref.WeakSet[Deferred] = weakref.WeakSet()


class Deferred(Executor):
    """Lets calls wait. With `host`, those on the CPU as well."""

    steps_aside = True

    def __init__(self, host: bool = True) -> None:
        self.host = host
        self.queue = Queue()
        self.memory = Memory()
        self.lock = threading.RLock()
        self.working = False
        _executors.add(self)

    # the executor

    def run(self, call: Call, runner: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
        """Arrays that will hold what the call makes of its operands."""
        specs = call.out_specs
        device = specs[0].device if specs else CPU
        if executor_slot[0] is not self or device is META:
            return runner(*operands)
        if copy_observers or (device is CPU and not self.host):
            return self._now(runner, operands)
        if not (specs and self._can_wait(call, device, operands)):
            return self._now(runner, operands)
        if not _are_private(operands):
            known = _private(operands, call.writes)
            if known is None:
                return self._now(runner, operands)
            operands = known
        with self.lock:
            return self._put(call, runner, operands)

    def _put(self, call: Call, runner: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
        queue = self.queue
        if queue.has_written and queue.begins_again(call, operands):
            self.settle()
            queue = self.queue
        kind = type(call)
        if kind is Call:
            return self._put_draw(call, runner, operands)
        values: list[float] = []
        if kind is LibraryCall:  # what is no array is part of the call
            part: list[Any] = [call]
            given = queue.given(operands, part)
        else:
            found: list[Any] = []
            for operand in operands:
                if type(operand) is Array:
                    found.append(queue.place(operand))
                elif type(operand) is float and _is_plain(operand):
                    values.append(operand)
                    found.append(NUMBER)
                else:
                    found.append(operand)
            given = tuple(found)
            part = [call, given]
        if call.writes:
            outs: Any = tuple([given[p] for p in call.writes])
            queue.has_written = queue.has_written or not all(queue.born[o.storage] for o in outs)
            count = len(queue.values)
            queue.followed.update(range(count, count + len(values)))
            made: Any = operands[call.writes[0]]
            if len(outs) > 1:
                made = tuple([operands[p] for p in call.writes])
        elif len(call.out_specs) == 1:
            place, made = queue.result(call.out_specs[0])
            outs = (place,)
        else:
            outs, made = zip(*map(queue.result, call.out_specs), strict=True)
        work = _new(Waiting, ("call", call, given, outs, runner))
        queue.first = queue.first or work
        queue.add(work, part, values)
        if len(queue.work) >= LONGEST:
            self.settle()
        device = call.out_specs[0].device
        if device is not CPU and not call.writes:
            if not self._has_room(device, sum([s.nbytes for s in call.out_specs])):
                self.settle()
        return made

    def _put_draw(self, call: Call, runner: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
        """Random numbers: a fresh Call each time, whose parts are its structure."""
        target = self.queue.overwritten(operands[0])
        part: list[Any] = [call.name, *call.in_specs, target]
        given = (target, *self.queue.given(operands[1:], part))
        part += [(type(o), o) for o in given[1:] if not isinstance(o, (list, Place))]
        self.queue.add(Waiting("call", call, given, (target,), runner), part)
        return operands[0]

    def will_take(self, nbytes: int, device: Any) -> None:
        """Memory is taken at once, while work waits which will take some, too."""
        if device is not CPU and self.queue.work:
            with self.lock:
                if not self._has_room(device, nbytes):
                    self.settle()

    def fill(self, array: Array, value: Any, now: Callable[..., None]) -> None:
        """A fill that waits."""
        kind = type(value)
        if not (self._holds(array) and kind in (bool, int, float, complex)):
            self._now(now, (array, value))
            return
        with self.lock:
            target = self.queue.overwritten(array)
            values = []
            if kind is float and _is_plain(value):
                values, value = [value], NUMBER
            part = ["fill", kind, repr(value) if kind in (float, complex) else value, target]
            self.queue.add(Waiting("fill", value, (), (target,), now), part, values)

    def copy(self, target: Array, source: Array, now: Callable[..., None]) -> None:
        """A copy within a device that waits."""
        known = _private((source,), ()) if self._holds(target) else None
        if known is None:
            self._now(now, (target, source))
            return
        with self.lock:
            given = self.queue.place(known[0])
            place = self.queue.overwritten(target)
            work = Waiting("copy", None, (given,), (place,), now)
            self.queue.add(work, ("copy", given, place))

    def transfer(self, source: Storage, target: Storage, now: Callable[..., None]) -> None:
        """A copy between devices is made at once."""
        now(source, target)

    def host_call(self, function: Callable[[], Any]) -> Any:
        """An optimizer's step, which ends a piece of work."""
        made = function()
        self.settle()
        return made

    def settle(self) -> None:
        """Do all that waits."""
        if not (self.queue.storages or self.working):
            return
        with self.lock:  # so that another thread waits for work that is being done
            if self.working:
                return
            queue = self.queue
            try:
                self.working, self.queue = True, Queue()
                self.memory.finish(queue)
            except BaseException as error:
                abandon(queue, error)
                raise
            finally:
                self.working = False

    # what can wait

    def _now(self, runner: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
        """Run at once: after all that waits, where that has to do with it."""
        if any(type(a.storage) is Queued for a in _arrays(operands)):
            self.settle()
        return runner(*operands)

    def _holds(self, target: Array) -> bool:
        """Whether writes into an array may wait."""
        device = target.spec.device
        return (
            executor_slot[0] is self
            and not copy_observers
            and type(target) is Array
            and type(target.storage) in (Storage, Queued)
            and device is not META
            and (self.host or device is not CPU)
            and bool(target.spec.numel)
        )

    def _can_wait(self, call: Call, device: Any, operands: tuple[Any, ...]) -> bool:
        if isinstance(call, MapCall):
            return call.compute.category >= FLOAT or not _divides(call)
        if isinstance(call, ReduceCall):
            return call.in_specs[0].ndim <= MOST_DIMS
        if not isinstance(call, LibraryCall):  # a CPU's random numbers are drawn in order, now
            return device is not CPU and self._holds(operands[0])
        if call.kernel in SURE:
            return True
        if not has_cpu_kernels(device):
            return call.kernel in LATE or call.kernel in INDEXED
        return call.kernel in INDEXED and _fits(operands)

    def _has_room(self, device: Any, nbytes: int) -> bool:
        """Whether what is taken now fits in what is free of the device, with the results of all
        that waits."""
        left = self.queue.room.get(device)
        if left is None:
            left = _free(device)
        left = self.queue.room[device] = left - nbytes
        return left >= 0


def _is_plain(value: float) -> bool:
    """Whether a float equals itself, and no other: NaN and -0.0 are part of the structure."""
    return value == value if value else str(value) == "0.0"


def _are_private(operands: tuple[Any, ...]) -> bool:
    """Whether all arrays among operands are in memory that only tensors know."""
    for operand in operands:
        if type(operand) is Array:
            kind = type(operand.storage)
            if kind is not Queued and kind is not Storage:
                return False
        elif isinstance(operand, (tuple, list, Array)):
            return False
    return True


def _private(operands: Any, writes: tuple[int, ...]) -> Any:
    """Operands with copies of memory that others know; None if the call cannot wait."""
    found: list[Any] = []
    for position, operand in enumerate(operands):
        kind = type(operand)
        if kind is Array:
            storage = type(operand.storage)
            if storage is not Queued and storage is not Storage:
                operand = None if position in writes else _snapshot(operand)
                if operand is None:
                    return None
        elif kind is tuple or kind is list:
            operand = _private(operand, ())
            if operand is None:
                return None
            operand = kind(operand)
        elif isinstance(operand, Array):
            return None
        found.append(operand)
    return tuple(found)


def _divides(call: MapCall) -> bool:
    return any(node.op in DIVIDES for node in topological(call.roots))


def _free(device: Any) -> float:
    memory: Any = memory_of(device)
    return float(memory.capacity * memory.limit - memory.allocated)


def _arrays(tree: Any) -> list[Array]:
    if isinstance(tree, Array):
        return [tree]
    if isinstance(tree, (tuple, list)):
        return [a for item in tree for a in _arrays(item)]
    return []


def _snapshot(array: Array) -> Array | None:
    """A copy of memory that others know, as it is now; None for much of it."""
    if not isinstance(array.storage, Exposed) or array.spec.nbytes > SNAPSHOT:
        return None
    if not isinstance(array.storage.buffer, np.ndarray):
        return None
    spec = array.spec
    values = np.array(array.host(), order="K", copy=True)
    strides = tuple(s // spec.dtype.itemsize for s in values.strides)
    if strides == spec.strides:
        return Array(Storage(values.ravel(order="K"), spec.device), spec, 0, values)
    whole = np.array(array.storage.bytes(), copy=True)
    if whole.nbytes > SNAPSHOT:
        return None
    return Array(Storage(whole, spec.device), spec, array.offset)


def _fits(operands: tuple[Any, ...]) -> bool:
    """Whether an index is there, and within its dim."""
    array, dim, index = operands[:3]
    if type(index) is not Array or type(index.storage) is Queued or type(dim) is not int:
        return False
    if not array.spec.ndim:
        return False
    size, values = array.spec.shape[dim], index.host()
    return not values.size or (int(values.min()) >= 0 and int(values.max()) < size)


_new: Any = tuple.__new__

# the executor of the process


def _settle_all() -> None:
    for executor in list(_executors):
        executor.settle()


def _give_back() -> bool:
    """Let go of what waiting work and programs hold, for memory that is needed."""
    found = False
    for executor in list(_executors):
        if executor.queue.work and not executor.working:
            executor.settle()
            found = True
        found = executor.memory.give_back() or found
    return found


arrays.settle.append(_settle_all)
reserves.append(_give_back)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_settle_all)


_everywhere, _on_gpus = Deferred(), Deferred(host=False)


class deferred:
    """A block in which work waits until its results are looked at, so that whole steps of an
    unchanged program are fused and replayed; with False, one in which it is done at once.

    `host=False` leaves the work of the CPU as it is. EMBER_DEFER=1 in the environment is such a
    block around the whole program; with EMBER_EAGER=1 nothing waits anywhere. Also a decorator.

    >>> import ember as torch
    >>> with torch.deferred():
    ...     y = (torch.arange(3) + 1) * 2  # waits
    ...     y.sum().item()  # is done
    12
    """

    def __init__(self, mode: bool = True, *, host: bool = True) -> None:
        self._executor = (_everywhere if host else _on_gpus) if mode and not EAGER else None
        self._before: list[Any] = []

    def __enter__(self) -> None:
        before = current_executor()
        self._before.append(before)
        if before is None or before.steps_aside:
            set_executor(self._executor)

    def __exit__(self, *error: Any) -> None:
        before = self._before.pop()
        if before is None or before.steps_aside:
            set_executor(before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def within(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        within.__name__, within.__doc__ = function.__name__, function.__doc__
        within.__wrapped__ = function  # type: ignore[attr-defined]
        return within


def install() -> None:
    """Let all work of this process wait, unless EMBER_EAGER=1 forbids it."""
    if not EAGER:
        set_executor(_everywhere)
