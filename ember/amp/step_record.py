"""The calls of a training step, noted while a guard is on, so that a step which went wrong can be
run again and searched. Steps that repeat an earlier one follow its template instead."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from operator import is_not
from threading import get_ident
from typing import Any

import numpy as np

from ember.amp.step_following import NAMES, followers, state_of_source
from ember.amp.step_template import END, Noted, Ref, Template, draw_key, is_draw
from ember.backends.cpu.mersenne import Mersenne
from ember.core import engine
from ember.core.array import host_copy
from ember.core.executor import Executor, current_executor, set_executor
from ember.core.node import _sequence
from ember.dtypes import uint8
from ember.kernel.array import Array, Storage, contiguous_spec
from ember.nn.modules.module_hooks import ModuleHooks
from ember.nn.places import running_modules
from ember.source_lines import PACKAGE

_CALL = ModuleHooks._call_impl.__code__
_UNKNOWN = ("?", 0, "")
_FRAMES_BEYOND = 8  # how far outside the user's line a module is looked for
_MOST_TEMPLATES = 16
_MOST_MISSES = 16  # steps that went their own way, beyond which all are noted in full


class StepRecord(Executor):
    """Notes each piece of work and hands it on.

    Storages have numbers. Those that were there before the step are kept, for a replay to start
    from; results are not, so that a step needs no more memory than without.
    """

    def __init__(self, most: int) -> None:
        self.most = most  # calls, beyond which the earlier ones are let go
        self.node: Any = None  # what the backward pass is at
        self.paused = False
        self._thread = get_ident()
        self._user_code: dict[Any, bool] = {}
        self._paths: dict[int, tuple[Any, str]] = {}  # modules, kept alive, and their names
        self._hook: Any = None
        self._templates: list[Template] = []
        self._misses = 0.0  # how often a step went its own way, of late
        self._points: Any = None  # of a template, while a step follows it call by call
        self._quick: Any = None  # the functions that do that, and what they are for
        self._forget()

    # in and out of the slot

    def begin(self) -> None:
        """Step into the executor's slot, and watch the nodes of backward passes."""
        self.inner, self._hook = current_executor(), engine.anomaly[0]
        set_executor(self)
        self._watch_nodes(True)

    def end(self) -> None:
        """Step out again, and let everything go."""
        if current_executor() is self:
            set_executor(self.inner)
        self._watch_nodes(False)
        self.stray()
        self._forget()
        self._templates.clear()
        self._paths.clear()

    def pause(self, paused: bool) -> None:
        """Let what an optimizer does pass unseen, or look again."""
        self.paused = paused
        if paused:
            self.stray()
        else:
            self._follow()
        if paused and current_executor() is self:
            set_executor(self.inner)
        elif not paused and current_executor() is self.inner:
            set_executor(self)

    def _watch_nodes(self, on: bool) -> None:
        if on and engine.anomaly[0] is self._hook:
            engine.anomaly[0] = self._run_node
        elif not on and engine.anomaly[0] == self._run_node:
            engine.anomaly[0] = self._hook

    # steps

    def clear(self, ends: list[Array] | None = None, paused: bool = False) -> None:
        """A step is over: let the calls go. `ends` are the arrays that were looked at. The next
        one is expected to be like this; a pause may come first."""
        self.stray()
        template = self.following
        if template is not None:
            if template.path[self.position] is END:
                if self._misses > 0.0:
                    self._misses -= 0.25
                self.position, self.paused = 0, False
                self._kept.clear()
                self._looked.clear()
                if not paused:
                    self._follow()
                return
            if self.position:
                self._misses += 1
                template = None
        elif self._whole and self.entries and self._misses < _MOST_MISSES:
            found = self._ends or [self.known(a.storage) for a in ends or ()]
            template = Template(self, found)
            self._templates.insert(0, template)
            del self._templates[_MOST_TEMPLATES:]
        self._forget()
        if template is not None and self._misses < _MOST_MISSES:
            self.following = template
            if not paused:
                self._follow()
        self._watch_nodes(self.following is None)

    def _forget(self) -> None:
        self.following: Template | None = None
        self.position = 0
        self._kept: list[Any] = []
        self._looked: list[tuple[int, Any]] = []
        self._whole, self._ends = True, []
        self.since = 0  # the stamps of what this step itself noted
        self._prefix: Template | None = None  # what a step that went its own way had followed
        self.entries: list[Noted] = []
        self.root_at: dict[int, int] = {}
        self._roots: list[Array] = []  # numbers that were made just before a backward pass
        self.outside: dict[int, Storage] = {}  # storages that were there before
        self.empty: dict[int, tuple[int, Any]] = {}  # bytes and device of those made without a call
        self._storages: list[weakref.ref[Storage]] = []
        self._numbers: dict[int, int] = {}
        self._backward = self.paused = False

    def roots(self) -> list[Array]:
        """The losses of the step."""
        return [*self._roots, *(array for _, array in self._looked)]

    def numbers_of(self, ends: list[Array]) -> list[int | None]:
        """The numbers of the arrays that are looked at when a step ends, as far as known."""
        found = [self.known(array.storage) for array in ends]
        if self._prefix is None:
            self._ends = self._ends or found
        elif len(self._prefix.ends) == len(found):
            pairs = zip(found, self._prefix.ends, strict=True)
            found = [b if a is None or a in self.outside else a for a, b in pairs]
        return found

    def followed(self) -> bool:
        """Whether some of the step is known from an earlier one."""
        return self._prefix is not None

    # following a template

    def _follow(self) -> None:
        """Go along the template from its start, by functions that do nothing else."""
        if self.following is not None and not self.position and self._points is None:
            given = self.following, self._kept, self._looked, self.inner
            if self._quick is None or any(map(is_not, self._quick[0], given)):
                self._quick = given, *followers(self, self.following.path)
            self._points = self._quick[2]()
            self.__dict__.update(self._quick[1])

    def stray(self, unexpected: int = 0) -> None:
        """Go on by the methods, from where the step is in its template; the last points taken,
        `unexpected` ones, are still to come."""
        points, self._points = self._points, None
        if points is not None:
            assert self.following is not None
            taken = len(self.following.path) - points.__length_hint__()
            self.position = taken - unexpected
            for name in NAMES:
                del self.__dict__[name]

    def _follows(self, key: Any, arguments: tuple[Any, ...], call: Any = None) -> bool:
        """Whether this is what the template has next; keeps what differs from step to step."""
        assert self.following is not None
        expected, keep, _ = self.following.path[self.position]
        if expected != key:
            if not self._turns(key):
                self.leave_template()
                return False
            keep = self.following.path[self.position].keep
        self.position += 1
        if keep is not None:
            kept = keep(arguments)
            self._kept.append((kept, state_of_source(arguments[1])) if is_draw(call) else kept)
        return True

    def _turns(self, key: Any) -> bool:
        """Go on with another template, that begins as this one does."""
        position, now = self.position, self.following
        assert now is not None
        for other in self._templates:
            if other is not now and position < len(other.path) and other.path[position].key == key:
                if other.agrees(now, position):
                    self.following = other
                    return True
        return False

    def _look_at(self, array: Any) -> None:
        """Keep a loss, which is looked at when the step ends."""
        assert self.following is not None
        root = self.following.path[self.position - 1].root
        if root is not None and type(array) is Array:
            self._looked.append((root, array))

    def leave_template(self, missed: bool = True) -> None:
        """Turn what was followed into entries, as if they had been noted."""
        self.stray()
        template, position = self.following, self.position
        if template is None:
            return
        self.following, self._whole = None, position == 0
        self._misses += missed
        self._watch_nodes(True)
        if not position:
            return
        self._prefix, self.since = template, next(_sequence)
        self.entries, self.outside = template.restored(self._kept, position)
        self.empty = dict(template.empty)
        self._storages = [_gone] * template.count
        for number, storage in self.outside.items():
            self._numbers[id(storage)] = number
            self._storages[number] = weakref.ref(storage)
        for number, array in self._looked:
            self._numbers[id(array.storage)] = number
            self._storages[number] = weakref.ref(array.storage)
        self._backward = self.entries[-1].node is not None

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
        key: Any,
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
        entries.append(
            Noted(name, call, runner, operands, outs, writes, drawn, node, place, stamp, key)
        )
        if len(entries) > self.most:
            self._forget()
            self._whole = False

    def _note_roots(self) -> None:
        """The loss is among the last results, before the ones that backward starts from."""
        first = max(len(self.entries) - 3, 0)
        for position, entry in enumerate(self.entries[first:], first):
            if entry.call is None and not entry.name.startswith("the cast"):
                continue
            for number, spec, offset in entry.outs:
                storage = self._storages[number]()
                if spec.numel == 1 and storage is not None:
                    self._roots.append(Array(storage, spec, offset))
                    self.root_at[position] = number

    def _is_off(self) -> bool:
        return self.paused or get_ident() != self._thread

    # the executor

    def run(self, call: Any, runner: Any, operands: tuple[Any, ...]) -> Any:
        """Run a call, and note it."""
        inner = self.inner
        if self.paused or get_ident() != self._thread:
            return runner(*operands) if inner is None else inner.run(call, runner, operands)
        template = self.following
        if template is not None:
            key, keep, root = template.path[self.position]
            if key is call:
                self.position += 1
                if keep is not None:
                    self._kept.append(keep(operands))
                made = runner(*operands) if inner is None else inner.run(call, runner, operands)
                if root is not None and type(made) is Array:
                    self._looked.append((root, made))
                return made
            if self._follows(draw_key(call) if is_draw(call) else call, operands, call):
                made = super().run(call, runner, operands)
                self._look_at(made)
                return made
        return self._run_noted(call, runner, operands)

    def _run_noted(self, call: Any, runner: Any, operands: tuple[Any, ...]) -> Any:
        refs = tuple([self._ref(o) for o in operands])
        key, drawn = call, None
        if is_draw(call):
            key, drawn = draw_key(call), state_of_source(operands[1])
        made = super().run(call, runner, operands)
        if call.writes:
            outs = tuple([refs[p] for p in call.writes])
        else:
            results = made if isinstance(made, tuple) else (made,)
            outs = tuple(
                [Ref((self._new(r.storage), r.spec, r.offset)) for r in results if type(r) is Array]
            )
        self._note(call.name, call, runner, refs, outs, bool(call.writes), key, drawn)
        return made

    def made(self, storage: Storage) -> None:
        """Memory that no call has made."""
        if self.following is None and not self._is_off():
            self.empty[self._new(storage)] = (storage.nbytes, storage.device)
        if self.inner is not None:
            self.inner.made(storage)

    def fill(self, array: Array, value: Any, now: Callable[..., None]) -> None:
        """Fill, and note it."""
        super().fill(array, value, now)
        if self._is_off():
            return
        key = ("fill", array.spec)
        if self.following is None or not self._follows(key, (value, array)):
            self._note("fill", None, now, (value,), (self._ref(array),), True, key)

    def copy(self, target: Array, source: Array, now: Callable[..., None]) -> None:
        """Copy or cast, and note it."""
        if self._is_off():
            super().copy(target, source, now)
            return
        key = ("copy", target.spec, source.spec)
        template = self.following
        if template is not None and self._follows(key, (source, target)):
            super().copy(target, source, now)
            if template.path[self.position - 1].root is not None:
                self._look_at(target)
            return
        refs = (self._ref(source), self._ref(target))
        super().copy(target, source, now)
        cast = target.spec.dtype is not source.spec.dtype
        name = f"the cast to {target.spec.dtype}" if cast else "copy"
        self._note(name, None, now, refs[:1], refs[1:], True, key)

    def transfer(self, source: Storage, target: Storage, now: Callable[..., None]) -> None:
        """Move between devices, and note it."""
        if self._is_off():
            super().transfer(source, target, now)
            return
        key = ("transfer", source.nbytes, source.device, target.device)
        if self.following is not None and self._follows(key, (source, target)):
            super().transfer(source, target, now)
            return
        refs = tuple([self._ref(_bytes_of(storage)) for storage in (source, target)])
        super().transfer(source, target, now)
        self._note("transfer", None, None, refs[:1], refs[1:], True, key)


def _gone() -> None:
    """Stands for the weak reference to a storage that is not known."""


def put_back(state: tuple[Any, ...]) -> None:
    """Let a stream continue from a state of `state_of_source`."""
    source, *values = state
    if isinstance(source, Mersenne):
        source.words[:], source.spare, source.fresh = values
    else:
        source.set_state(values[0])


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
