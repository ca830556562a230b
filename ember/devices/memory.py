"""Memory as it fills: every storage on a device with its bytes, what made it, and where."""

from __future__ import annotations

import bisect
import importlib
import time
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

from ember.backends.base import _backends
from ember.backends.sim.backend import rounded as rounded_as_simulated
from ember.core import engine
from ember.core.executor import Executor, current_executor, set_executor
from ember.core.node import _sequence
from ember.core.tensor import Tensor
from ember.kernel.array import Array, Storage
from ember.nn.places import here
from ember.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from ember.pytree import tree_leaves

KINDS = ("weights", "gradients", "optimizer state", "inputs", "activations", "workspace")
CONVOLUTIONS = ("convolution", "convolution_input", "convolution_weight")
ALIGNED_CHANNELS = 8  # fewer are convolved without tensor cores, as they lie


def rounded(nbytes: int) -> int:
    """The bytes that an allocation takes: as the GPUs here count, else as simulated ones do."""
    if not _has_real_gpus():
        return rounded_as_simulated(nbytes)
    return int(importlib.import_module("ember.backends.cuda.memory").rounded(nbytes))


def _has_real_gpus() -> bool:
    backend = _backends.get("cuda")
    return backend is not None and not getattr(backend, "simulated", False)


def convolution_room(call: Any) -> int:
    """The bytes that cuDNN takes while it convolves images whose channels lie apart: tensor cores
    want them side by side, so it turns both operands and the result. (Measured on an H200 with 64
    channels of 64 x 64: 144 MiB, where the three have 128.1.)"""
    if getattr(call, "kernel", "") not in CONVOLUTIONS:
        return 0
    arrays = (*call.in_specs[:2], call.out_specs[0])
    if any(s.dtype.itemsize > 4 or s.shape[1] < ALIGNED_CHANNELS for s in arrays):
        return 0
    if not all(s.contiguous for s in arrays):
        return 0
    return sum(s.nbytes for s in arrays)


class Block:
    """Memory of one storage: how much, where, made by what."""

    __slots__ = ("bytes", "device", "file", "kind", "line", "made_by", "module", "phase", "step")

    def __init__(self, nbytes: int, device: Any, kind: str, phase: str, made_by: str, place: Any):
        self.bytes, self.device, self.kind, self.phase = rounded(nbytes), device, kind, phase
        self.made_by, self.step = made_by, 0
        self.file, self.line, self.module = place


class Peak(NamedTuple):
    """The moment at which a device held most."""

    bytes: int
    by_kind: dict[str, int]
    phase: str
    module: str
    file: str
    line: int
    blocks: tuple[Block, ...]


class MemoryTracker(Executor):
    """Follows the storages of GPUs, real, simulated or `meta`, while its `with` block runs.

    Memory that was there before is known only if `adopt` was told of it.
    """

    sees_meta = True

    def __init__(self) -> None:
        self.live: dict[int, tuple[Any, Block]] = {}
        self.events: list[tuple[int, Block]] = []  # (+bytes or -bytes, block) in order
        self.times: list[float] = []  # when each of them was
        self._node: Any = None
        self._stepping = False
        self.steps = 0  # how often an optimizer has stepped
        self._stamps: list[int] = []  # of forward calls, with where they were
        self._places: list[tuple[str, int, str]] = []
        self._handles: list[Any] = []
        self._hook: Any = None

    def __enter__(self) -> MemoryTracker:
        self.inner, self._hook = current_executor(), engine.anomaly[0]
        set_executor(self)
        engine.anomaly[0] = self._run_node
        self._handles = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        if current_executor() is self:
            set_executor(self.inner)
        engine.anomaly[0] = self._hook
        for handle in self._handles:
            handle.remove()

    # what is alive

    def adopt(self, tensors: Iterable[Tensor], kind: str, names: Iterable[str] = ()) -> None:
        """Take note of memory that was there before, or say what kind some memory is."""
        names = list(names)
        for position, tensor in enumerate(tensors):
            storage = tensor._array.storage
            known = self.live.get(id(storage))
            if known is not None and known[0]() is storage:
                known[1].kind = kind
                continue
            name = names[position] if position < len(names) else ""
            self._add(storage, kind, kind, ("", 0, name))

    def _add(self, storage: Storage, kind: str, made_by: str, place: Any) -> None:
        if storage.device.type == "cpu":
            return
        key = id(storage)
        phase = self.phase
        block = Block(storage.nbytes, storage.device, kind, phase, made_by, place)
        block.step = self.steps
        live, events, times = self.live, self.events, self.times

        def gone(reference: Any) -> None:
            known = live.get(key)
            if known is not None and known[0] is reference:
                del live[key]
                events.append((-block.bytes, block))
                times.append(time.perf_counter())

        live[key] = (weakref.ref(storage, gone), block)
        events.append((block.bytes, block))
        times.append(time.perf_counter())

    @property
    def phase(self) -> str:
        """forward, backward or optimizer step."""
        if self._stepping:
            return "optimizer step"
        return "backward" if engine.pass_number() else "forward"

    def _new(self, storage: Storage, made_by: str) -> None:
        if storage.device.type == "cpu":
            return
        known = self.live.get(id(storage))
        if known is not None and known[0]() is storage:
            known[1].made_by = made_by
            return
        place = here()
        kind = "activations" if self.phase == "forward" else "workspace"
        if place.call.startswith("Module."):
            kind = "weights"
        where = (place.file, place.line, place.module)
        if self._node is not None:
            where = self._place_of(self._node) or where
        self._add(storage, kind, made_by, where)

    def _place_of(self, node: Any) -> tuple[str, int, str] | None:
        position = bisect.bisect_left(self._stamps, node.sequence) - 1
        return self._places[position] if position >= 0 else None

    def _run_node(self, node: Any, grads: list[Any]) -> list[Any]:
        before, self._node = self._node, node
        try:
            return list(node.apply(grads)) if self._hook is None else self._hook(node, grads)
        finally:
            self._node = before

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._stepping = True
        self.adopt(_gradients(optimizer), "gradients")

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._stepping = False
        self.steps += 1
        state = [t for t in tree_leaves(dict(optimizer.state)) if isinstance(t, Tensor)]
        self.adopt(state, "optimizer state")

    # the executor

    def run(self, call: Any, runner: Any, operands: tuple[Any, ...]) -> Any:
        """Run a call, and note the memory that it made."""
        if self.phase == "forward":
            place = here()
            self._stamps.append(next(_sequence))
            self._places.append((place.file, place.line, place.module))
        made = super().run(call, runner, operands)
        if not call.writes:
            for out in made if isinstance(made, tuple) else (made,):
                if isinstance(out, Array):
                    self._new(out.storage, call.name)
        room = convolution_room(call) if _has_real_gpus() else 0
        if room and call.out_specs[0].device.type == "meta":
            self._use(room, call)
        return made

    def _use(self, nbytes: int, call: Any) -> None:
        """Memory that a call needs while it runs."""
        place = here()
        where = (place.file, place.line, place.module)
        device = call.out_specs[0].device
        block = Block(nbytes, device, "workspace", self.phase, call.name, where)
        self.events += [(nbytes, block), (-nbytes, block)]
        self.times += [time.perf_counter()] * 2

    def made(self, storage: Storage) -> None:
        """Memory that no call has made."""
        self._new(storage, "a tensor")
        if storage.device.type != "meta":
            super().made(storage)

    # what was found

    def peak(self, device: Any = None) -> Peak:
        """The moment at which a device (by default all together) held most."""
        events = [e for e in self.events if device is None or e[1].device is device]
        total = most = at = 0
        for position, (change, _) in enumerate(events):
            total += change
            if total > most:
                most, at = total, position
        alive: dict[int, Block] = {}
        for change, block in events[: at + 1]:
            if change > 0:
                alive[id(block)] = block
            else:
                alive.pop(id(block), None)
        sums = dict.fromkeys(KINDS, 0)
        for block in alive.values():
            sums[block.kind] += block.bytes
        if not events:
            return Peak(0, sums, "", "", "?", 0, ())
        last = events[at][1]
        where = (last.phase, last.module, last.file, last.line)
        return Peak(most, sums, *where, tuple(alive.values()))

    def groups(self, device: Any = None) -> list[tuple[int, int, Block]]:
        """(bytes, number of tensors, one of them) of what is alive, by kind, module and line, the
        largest first."""
        found: dict[Any, list[Any]] = {}
        for _, block in list(self.live.values()):
            if device is None or block.device is device:
                key = (block.kind, block.module, block.file, block.line)
                sums = found.setdefault(key, [0, 0, block])
                sums[0] += block.bytes
                sums[1] += 1
        return sorted((tuple(s) for s in found.values()), key=lambda s: -s[0])


def _gradients(optimizer: Any) -> list[Tensor]:
    params = [p for group in optimizer.param_groups for p in group["params"]]
    return [p.grad for p in params if p.grad is not None]
