"""The calls of a training step, noted while a guard is on, so that a step which went wrong can be
run again and searched."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ember.core import engine
from ember.core.array import host_copy
from ember.core.executor import Executor, current_executor, set_executor
from ember.core.node import _sequence
from ember.dtypes import uint8
from ember.kernel.array import Array, Storage, contiguous_spec
from ember.kernel.call import Call
from ember.nn.modules.module_hooks import ModuleHooks
from ember.nn.places import running_modules
from ember.source_lines import PACKAGE

_CALL = ModuleHooks._call_impl.__code__
_UNKNOWN = ("?", 0, "")
_FRAMES_BEYOND = 8  # how far outside the user's line a module is looked for


class Ref(tuple[Any, ...]):
    """(number of a storage, spec, offset): an array of the record, without its memory."""

    __slots__ = ()


class Noted(NamedTuple):
    """One piece of work: a call, a copy or cast, a fill, or a transfer between devices."""

    name: str
    call: Any  # the Call; None for copies, fills and transfers
    runner: Any
    operands: tuple[Any, ...]  # a Ref in place of each array, lists of them in lists
    outs: tuple[Ref, ...]
    writes: bool  # whether the outs were there before
    drawn: Any  # the random numbers that a draw gave
    node: Any  # the node of the backward pass that it belongs to; None in the forward
    place: tuple[str, int, str]  # file, line and module in the forward
    stamp: int  # nodes that were made after it have a higher number


class StepRecord(Executor):
    """Notes each piece of work and hands it on.

    Storages have numbers. Those that were there before the step are kept, for a replay to start
    from; results are not, so that a step needs no more memory than without.
    """

    def __init__(self, most: int) -> None:
        self.most = most  # calls, beyond which the earlier ones are let go
        self.node: Any = None  # what the backward pass is at
        self.paused = False
        self._thread = threading.get_ident()
        self._user_code: dict[Any, bool] = {}
        self._paths: dict[int, tuple[Any, str]] = {}  # modules, kept alive, and their names
        self._hook: Any = None
        self.clear()

    # in and out of the slot

    def begin(self) -> None:
        """Step into the executor's slot, and watch the nodes of backward passes."""
        self.inner, self._hook = current_executor(), engine.anomaly[0]
        set_executor(self)
        engine.anomaly[0] = self._run_node

    def end(self) -> None:
        """Step out again, and let everything go."""
        if current_executor() is self:
            set_executor(self.inner)
        if engine.anomaly[0] == self._run_node:
            engine.anomaly[0] = self._hook
        self.clear()
        self._paths.clear()

    def clear(self) -> None:
        """Let the calls go."""
        self.entries: list[Noted] = []
        self.roots: list[Array] = []  # numbers that were made just before a backward pass
        self.outside: dict[int, Storage] = {}  # storages that were there before
        self.empty: dict[int, tuple[int, Any]] = {}  # bytes and device of those made without a call
        self._storages: list[weakref.ref[Storage]] = []
        self._numbers: dict[int, int] = {}
        self._backward = self.paused = False

    # storages

    def known(self, storage: Storage) -> int | None:
        """The number of a storage; None for one that no entry knows."""
        number = self._numbers.get(id(storage))
        return number if number is not None and self._storages[number]() is storage else None

    def _ref(self, operand: Any) -> Any:
        if type(operand) is Array:
            storage = operand.storage
            number = self._numbers.get(id(storage))
            if number is None or self._storages[number]() is not storage:
                number = self._new(storage)
                self.outside[number] = storage
            return Ref((number, operand.spec, operand.offset))
        if type(operand) in (tuple, list) and any(isinstance(o, Array) for o in operand):
            return [self._ref(o) for o in operand]
        return operand

    def _new(self, storage: Storage) -> int:
        number = self._numbers[id(storage)] = len(self._storages)
        self._storages.append(weakref.ref(storage))
        return number

    def _run_node(self, node: Any, grads: list[Any]) -> list[Any]:
        before, self.node = self.node, node
        try:
            return list(node.apply(grads)) if self._hook is None else self._hook(node, grads)
        finally:
            self.node = before

    def _place(self) -> tuple[str, int, str]:
        """The user's line and the module of a call in the forward."""
        frame: Any = sys._getframe(3)
        known, user, more = self._user_code, None, _FRAMES_BEYOND
        while frame is not None and more:
            code = frame.f_code
            if code is _CALL:
                return (*(user or user_line_from(frame)), self._path(frame))
            if user is None:
                is_user = known.get(code)
                if is_user is None:
                    is_user = known[code] = not code.co_filename.startswith((PACKAGE, "<ember"))
                if is_user:
                    user = (code.co_filename, frame.f_lineno)
            else:
                more -= 1
            frame = frame.f_back
        return (*user, "") if user is not None else _UNKNOWN

    def _path(self, frame: Any) -> str:
        """The path of the module whose call a frame is."""
        module = frame.f_locals["self"]
        path = self._paths.get(id(module))
        if path is None:
            path = self._paths[id(module)] = (module, running_modules(frame)[0][1])
        return path[1]

    def _note(
        self,
        name: str,
        call: Any,
        runner: Any,
        operands: tuple[Any, ...],
        outs: tuple[Any, ...],
        writes: bool,
        drawn: Any = None,
    ) -> None:
        node = self.node
        backward = node is not None
        if backward is not self._backward:
            self._backward = backward
            if backward:
                self._note_roots()
        place = _UNKNOWN if backward else self._place()
        stamp = -1 if backward else next(_sequence)
        entries = self.entries
        entries.append(Noted(name, call, runner, operands, outs, writes, drawn, node, place, stamp))
        if len(entries) > self.most:
            self.clear()

    def _note_roots(self) -> None:
        """The loss is among the last results, before the ones that backward starts from."""
        for entry in self.entries[-3:]:
            if entry.call is None and not entry.name.startswith("the cast"):
                continue
            for number, spec, offset in entry.outs:
                storage = self._storages[number]()
                if spec.numel == 1 and storage is not None:
                    self.roots.append(Array(storage, spec, offset))

    def _is_off(self) -> bool:
        return self.paused or threading.get_ident() != self._thread

    # the executor

    def run(self, call: Any, runner: Any, operands: tuple[Any, ...]) -> Any:
        """Run a call, and note it."""
        if self._is_off():
            return super().run(call, runner, operands)
        refs = tuple([self._ref(o) for o in operands])
        made = super().run(call, runner, operands)
        drawn = None
        if call.writes:
            outs = tuple([refs[p] for p in call.writes])
            if type(call) is Call:  # a draw, which a replay could not repeat
                drawn = host_copy_of(operands[0])
        else:
            results = made if isinstance(made, tuple) else (made,)
            outs = tuple(
                [Ref((self._new(r.storage), r.spec, r.offset)) for r in results if type(r) is Array]
            )
        self._note(call.name, call, runner, refs, outs, bool(call.writes), drawn)
        return made

    def made(self, storage: Storage) -> None:
        """Memory that no call has made."""
        if not self._is_off():
            self.empty[self._new(storage)] = (storage.nbytes, storage.device)
        super().made(storage)

    def fill(self, array: Array, value: Any, now: Callable[..., None]) -> None:
        """Fill, and note it."""
        super().fill(array, value, now)
        if not self._is_off():
            self._note("fill", None, now, (value,), (self._ref(array),), True)

    def copy(self, target: Array, source: Array, now: Callable[..., None]) -> None:
        """Copy or cast, and note it."""
        off = self._is_off()
        refs = () if off else (self._ref(source), self._ref(target))
        super().copy(target, source, now)
        if not off:
            cast = target.spec.dtype is not source.spec.dtype
            name = f"the cast to {target.spec.dtype}" if cast else "copy"
            self._note(name, None, now, refs[:1], refs[1:], True)

    def transfer(self, source: Storage, target: Storage, now: Callable[..., None]) -> None:
        """Move between devices, and note it."""
        off = self._is_off()
        if not off:
            places = [_bytes_of(storage) for storage in (source, target)]
            refs = tuple([self._ref(place) for place in places])
        super().transfer(source, target, now)
        if not off:
            self._note("transfer", None, None, refs[:1], refs[1:], True)


def user_line_from(frame: Any) -> tuple[str, int]:
    """(file, line) of the innermost frame outside Ember, from a frame outwards."""
    while frame is not None:
        if not frame.f_code.co_filename.startswith((PACKAGE, "<ember")):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "?", 0


def _bytes_of(storage: Storage) -> Array:
    """A storage as an array of bytes."""
    return Array(storage, contiguous_spec((storage.nbytes,), uint8, storage.device))


def host_copy_of(array: Array) -> Any:
    """The elements of an array, in an ndarray of their own."""
    if isinstance(array.storage.buffer, np.ndarray):
        return array.host().copy()
    before = set_executor(None)
    try:
        return host_copy(array)
    finally:
        set_executor(before)
