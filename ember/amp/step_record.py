"""The calls of a training step with what they were given and what they made, kept while a guard is
on: an executor that only notes, so that a step which went wrong can be searched afterwards."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from ember.core import engine
from ember.core.executor import Executor, current_executor, set_executor
from ember.core.node import _sequence
from ember.kernel.array import Array, Storage
from ember.nn.modules.module_hooks import ModuleHooks
from ember.nn.places import running_modules
from ember.source_lines import PACKAGE

_CALL = ModuleHooks._call_impl.__code__
_UNKNOWN = ("?", 0, "")


class Noted(NamedTuple):
    """One piece of work: a call, a copy or cast, a fill, or a transfer between devices."""

    name: str
    call: Any  # the Call; None for copies, fills and transfers
    runner: Any
    operands: tuple[Any, ...]
    outs: tuple[Any, ...]  # arrays; storages for transfers
    versions: tuple[int, ...]  # of the storages that were written, before
    node: Any  # the node of the backward pass that it belongs to; None in the forward
    place: tuple[str, int, str]  # file, line and module in the forward
    stamp: int  # nodes that were made after it have a higher number


class StepRecord(Executor):
    """Notes each piece of work and hands it on. What it holds is let go by `clear`."""

    def __init__(self, hold: int, full: Callable[[], None]) -> None:
        self.hold, self.full, self.held = hold, full, 0
        self.entries: list[Noted] = []
        self.roots: list[Any] = []  # numbers that the program made just before a backward pass
        self._backward = False
        self.inner: Executor | None = None
        self.node: Any = None  # what the backward pass is at
        self._thread = threading.get_ident()
        self._user_code: dict[Any, bool] = {}
        self._paths: dict[int, tuple[Any, str]] = {}  # modules, kept alive, and their names
        self._hook: Any = None

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
        self.entries, self.roots = [], []
        self.held, self._backward = 0, False

    def _run_node(self, node: Any, grads: list[Any]) -> list[Any]:
        before, self.node = self.node, node
        try:
            return list(node.apply(grads)) if self._hook is None else self._hook(node, grads)
        finally:
            self.node = before

    def _place(self) -> tuple[str, int, str]:
        """The user's line and the module of a call in the forward."""
        frame: Any = sys._getframe(2)
        known, user = self._user_code, None
        while frame is not None:
            code = frame.f_code
            if user is None:
                is_user = known.get(code)
                if is_user is None:
                    is_user = known[code] = not code.co_filename.startswith((PACKAGE, "<ember"))
                if is_user:
                    user = (code.co_filename, frame.f_lineno)
            if code is _CALL:
                module = frame.f_locals["self"]
                path = self._paths.get(id(module))
                if path is None:
                    name = running_modules(frame)[0][1]
                    path = self._paths[id(module)] = (module, name)
                while user is None:
                    frame = frame.f_back
                    if frame is None:
                        return ("?", 0, path[1])
                    if not frame.f_code.co_filename.startswith((PACKAGE, "<ember")):
                        user = (frame.f_code.co_filename, frame.f_lineno)
                return (*user, path[1])
            frame = frame.f_back
        return (*user, "") if user is not None else _UNKNOWN

    def _note(
        self,
        name: str,
        call: Any,
        runner: Any,
        operands: tuple[Any, ...],
        outs: tuple[Any, ...],
        versions: tuple[int, ...],
    ) -> None:
        node = self.node
        place = self._place() if node is None else _UNKNOWN
        stamp = next(_sequence) if node is None else -1
        if (node is not None) is not self._backward:
            self._backward = node is not None
            if self._backward:
                self._note_roots()
        self.entries.append(Noted(name, call, runner, operands, outs, versions, node, place, stamp))
        if self.held > self.hold:
            self.full()

    def _note_roots(self) -> None:
        """The loss is among the last results, before the ones that backward starts from."""
        for entry in self.entries[-3:]:
            if entry.call is not None or entry.name.startswith("the cast"):
                self.roots += [out for out in entry.outs if out.spec.numel == 1]

    # the executor

    def run(self, call: Any, runner: Any, operands: tuple[Any, ...]) -> Any:
        """Run a call, and note it."""
        inner = self.inner
        writes = call.writes
        versions = tuple([operands[p].storage.version for p in writes]) if writes else ()
        made = runner(*operands) if inner is None else inner.run(call, runner, operands)
        if threading.get_ident() != self._thread:
            return made
        if writes:
            outs = tuple([operands[p] for p in writes])
        else:
            outs = made if isinstance(made, tuple) else (made,)
            for spec in call.out_specs:
                self.held += spec.numel * spec.dtype.itemsize
        self._note(call.name, call, runner, operands, outs, versions)
        return made

    def made(self, storage: Storage) -> None:
        """Memory that no call has made."""
        if self.inner is not None:
            self.inner.made(storage)

    def fill(self, array: Array, value: Any, now: Callable[..., None]) -> None:
        """Fill, and note it."""
        version = array.storage.version
        now(array, value) if self.inner is None else self.inner.fill(array, value, now)
        if threading.get_ident() == self._thread:
            self._note("fill", None, None, (value,), (array,), (version,))

    def copy(self, target: Array, source: Array, now: Callable[..., None]) -> None:
        """Copy or cast, and note it."""
        version = target.storage.version
        now(target, source) if self.inner is None else self.inner.copy(target, source, now)
        if threading.get_ident() == self._thread:
            self.held += target.spec.nbytes
            cast = target.spec.dtype is not source.spec.dtype
            name = f"the cast to {target.spec.dtype}" if cast else "copy"
            self._note(name, None, None, (source,), (target,), (version,))

    def transfer(self, source: Storage, target: Storage, now: Callable[..., None]) -> None:
        """Move between devices, and note it."""
        now(source, target) if self.inner is None else self.inner.transfer(source, target, now)
        if threading.get_ident() == self._thread:
            self._note("transfer", None, None, (source,), (target,), (target.version,))

    def read(self, array: Array) -> None:
        """The program looks at elements."""
        if self.inner is not None:
            self.inner.read(array)

    def used_up(self, nodes: list[Any]) -> None:
        """A backward pass is over."""
        if self.inner is not None:
            self.inner.used_up(nodes)

    def host_call(self, function: Callable[[], Any]) -> Any:
        """The host's business."""
        return function() if self.inner is None else self.inner.host_call(function)
