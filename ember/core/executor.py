"""Who runs a call. A slot below autograd: forward, backward and optimizer all pass it as one stream
of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.backends.base import kernels_of
from ember.core.array import empty
from ember.core.slot import executor_slot
from ember.device import META
from ember.device import device as Device
from ember.kernel.array import Array, Storage
from ember.kernel.call import Call

Runner = Callable[..., Any]


def prepare(call: Call, device: Device) -> Runner:
    """The eager runner of a call on a resolved device; on `meta` results have specs and no data."""
    if device is META:
        return _meta(call)
    return kernels_of(device).prepare(call)


def _meta(call: Call) -> Runner:
    specs = call.out_specs

    def run(*operands: Any) -> Any:
        if call.writes:
            return (
                operands[call.writes[0]]
                if len(call.writes) == 1
                else tuple(operands[p] for p in call.writes)
            )
        if not specs:
            raise NotImplementedError(
                f"{call.name}: the shape of its result depends on the data, and a meta tensor has "
                "none"
            )
        made = tuple(empty(s) for s in specs)
        return made[0] if len(made) == 1 else made

    return run


class Executor:
    """The default: hand everything on to the executor that was there before, `inner`, or without
    one do it at once. A recorder, a deferred queue or an observer replaces what it wants to know
    of."""

    inner: Executor | None = None
    steps_aside = False  # whether a recorder takes its place, instead of leaving it the work
    tape: Any = None  # where numbers may be cells, which a replay asks for again (core/cells.py)

    def run(self, call: Call, runner: Runner, operands: tuple[Any, ...]) -> Any:
        """The array, or arrays, that the call makes of its operands."""
        inner = self.inner
        return runner(*operands) if inner is None else inner.run(call, runner, operands)

    def will_take(self, nbytes: int, device: Device) -> None:
        """A storage is about to be allocated outside of any call."""
        if self.inner is not None:
            self.inner.will_take(nbytes, device)

    def made(self, storage: Storage) -> None:
        """A storage has been allocated outside of any call."""
        if self.inner is not None:
            self.inner.made(storage)

    def constant(self, storage: Storage) -> None:
        """A host storage has been made of Python's or NumPy's values."""
        if self.inner is not None:
            self.inner.constant(storage)

    def fill(self, array: Array, value: Any, now: Callable[..., None]) -> None:
        """Set every element; `now(array, value)` does it."""
        now(array, value) if self.inner is None else self.inner.fill(array, value, now)

    def copy(self, target: Array, source: Array, now: Callable[..., None]) -> None:
        """Copy within a device; `now(target, source)` does it."""
        now(target, source) if self.inner is None else self.inner.copy(target, source, now)

    def transfer(self, source: Storage, target: Storage, now: Callable[..., None]) -> None:
        """Copy a storage to another device; `now(source, target)` does it."""
        now(source, target) if self.inner is None else self.inner.transfer(source, target, now)

    def read(self, array: Array) -> None:
        """The program is about to look at the elements."""
        if self.inner is not None:
            self.inner.read(array)

    def used_up(self, nodes: list[Any]) -> None:
        """A backward pass is over, and these nodes cannot be used again."""
        if self.inner is not None:
            self.inner.used_up(nodes)

    def host_call(self, function: Callable[[], Any]) -> Any:
        """Run a function that is the host's business: it reads numbers that change from step to
        step."""
        return function() if self.inner is None else self.inner.host_call(function)

    def settle(self) -> None:
        """Do the work that waits: somebody is about to look at it from outside."""
        if self.inner is not None:
            self.inner.settle()


_slot: list[Executor | None] = executor_slot


def settle() -> None:
    """Do the work that waits, if any does."""
    if _slot[0] is not None:
        _slot[0].settle()


def current_executor() -> Executor | None:
    """The executor in the slot; None for plain eager running."""
    return _slot[0]


def set_executor(new: Executor | None) -> Executor | None:
    """Put an executor in the slot; returns the one that was there, whose waiting work is done."""
    if _slot[0] is not None:
        _slot[0].settle()
    old, _slot[0] = _slot[0], new
    return old
