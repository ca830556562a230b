"""Who runs a call. A slot below autograd: forward, backward and optimizer all pass it as one stream
of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.backends.base import kernels_of
from ember.core.array import empty
from ember.device import META
from ember.device import device as Device
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
    """The default: run each call at once. A recorder or a deferred queue replaces `run`."""

    def run(self, call: Call, runner: Runner, operands: tuple[Any, ...]) -> Any:
        """The array, or arrays, that the call makes of its operands."""
        return runner(*operands)


_slot: list[Executor | None] = [None]  # None is eager, and costs an op nothing


def current_executor() -> Executor | None:
    """The executor in the slot; None for plain eager running."""
    return _slot[0]


def set_executor(new: Executor | None) -> Executor | None:
    """Put an executor in the slot; returns the one that was there."""
    old, _slot[0] = _slot[0], new
    return old
