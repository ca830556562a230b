"""What fills a device when an allocation does not fit, and the cheapest change that would have made
room."""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import Any

from ember.backends.base import memory_of
from ember.backends.gpus import explainers
from ember.core import modes
from ember.core.executor import set_executor
from ember.core.tensor import Tensor
from ember.devices.amounts import size
from ember.devices.fit import Question, on_meta
from ember.devices.memory import KINDS, MemoryTracker
from ember.devices.remedies import Remedy, remedies
from ember.nn.modules.module_hooks import ModuleHooks, register_module_forward_hook
from ember.nn.places import user_frames
from ember.optim.adamw import AdamW
from ember.optim.optimizer import Optimizer
from ember.pytree import tree_leaves
from ember.source_lines import short

_CALL = ModuleHooks._call_impl.__code__
_MOVING = ("activations", "workspace")


class WatchedMemory(MemoryTracker):
    """Memory that is followed, and explains itself when it is full: inside the block out-of-memory
    errors list what is alive, and the cheapest change with which the step would have fitted."""

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[Any, Any, bool] | None = None  # model, its arguments, with gradients

    def __enter__(self) -> WatchedMemory:
        super().__enter__()
        explainers.append(self.explain)
        hook = register_module_forward_hook(self._called, with_kwargs=True)
        self._handles.append(hook)
        return self

    def __exit__(self, *exception: object) -> None:
        explainers.remove(self.explain)
        super().__exit__(*exception)

    def _called(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Remember the last call of a whole model."""
        if is_inner_call(sys._getframe(1)) or next(module.parameters(), None) is None:
            return
        slot = set_executor(None)
        try:
            given = on_meta((args, kwargs))
            self._last = weakref.ref(module), given, modes.is_grad_enabled()
        finally:
            set_executor(slot)

    # the explanation

    def explain(self, device: Any, nbytes: int, most: int = 8) -> str:
        """What is alive on a device, for its out-of-memory error, and the cheapest way out."""
        groups = self.groups(device)
        if not groups:
            return ""
        lines = ["", f"What is alive on {device}:"]
        for total, count, block in groups[:most]:
            where = f" {short(block.file)}:{block.line}" if block.line else ""
            module = f" {block.module}" if block.module else ""
            tensors = "1 tensor" if count == 1 else f"{count} tensors"
            lines.append(f"  {size(total):>10}  {block.kind}{module}{where} ({tensors})")
        if len(groups) > most:
            rest = sum(group[0] for group in groups[most:])
            lines.append(f"  {size(rest):>10}  {len(groups) - most} more places")
        before = memory_of(device).allocated - sum(group[0] for group in groups)
        if before > 0:
            lines.append(f"  {size(before):>10}  older than the block that tracks")
        try:
            lines.append(self._way_out(device, nbytes, groups, sys._getframe(1)))
        except Exception:  # whatever the model does without data, the error itself must be seen
            lines.append(f"Cheapest way out: {_by_kind(groups)}")
        return "\n".join(lines)

    def _way_out(self, device: Any, nbytes: int, groups: list[Any], frame: FrameType) -> str:
        memory = memory_of(device)
        free = int(memory.capacity * getattr(memory, "limit", 1.0)) - memory.allocated
        left = self._left_by_earlier_steps(device)
        if left is not None and left[0] >= nbytes - free:
            total, block = left
            return (
                f"Cheapest fix that would have fitted: let go what earlier steps left, "
                f"{size(total)}, most of it from {short(block.file)}:{block.line}. A list of "
                "losses or outputs keeps their graphs: keep loss.item() or loss.detach()"
            )
        call = self._call_at(frame)
        if call is None:
            return f"Cheapest way out: {_by_kind(groups)}"
        return self._tried(device, memory, *call, frame)

    def _left_by_earlier_steps(self, device: Any) -> tuple[int, Any] | None:
        """(bytes, the largest of them) of results that are older than the last optimizer step."""
        old = [
            block
            for _, block in list(self.live.values())
            if block.device is device and block.kind in _MOVING and block.step < self.steps
        ]
        largest = max(old, key=lambda block: block.bytes, default=None)
        return None if largest is None else (sum(block.bytes for block in old), largest)

    def _call_at(self, frame: FrameType) -> tuple[Any, Any, Any, bool] | None:
        """(model, args, kwargs, with gradients) of the call that runs, or of the last one."""
        running = _calls(frame)
        if running:
            found = running[-1].f_locals
            return found["self"], found["args"], found["kwargs"], modes.is_grad_enabled()
        if self._last is None or self._last[0]() is None:
            return None
        reference, (args, kwargs), graded = self._last
        return reference(), args, kwargs, graded

    def _tried(
        self,
        device: Any,
        memory: Any,
        model: Any,
        args: Any,
        kwargs: Any,
        graded: bool,
        frame: FrameType,
    ) -> str:
        optimizer = _optimizer_of(model, frame) if graded else None
        slot = set_executor(None)
        try:
            with modes.enable_grad():
                question = Question(
                    on_meta(model),
                    {"*": args, "**": kwargs},
                    _maker(optimizer),
                    None,
                    graded and (optimizer is not None or bool(_trained(model))),
                )
                foreign = max(memory.allocated - self._known_bytes(device, model, optimizer), 0)
                capacity = int(memory.capacity * getattr(memory, "limit", 1.0)) - foreign
                return _cheapest(question, capacity)
        finally:
            set_executor(slot)

    def _known_bytes(self, device: Any, model: Any, optimizer: Any) -> int:
        """The bytes of what a run of the step would count too."""
        held: dict[int, int] = {}
        for storage, block in ((ref(), block) for ref, block in list(self.live.values())):
            if storage is not None and block.device is device:
                held[id(storage)] = block.bytes
        tensors = [*model.parameters(), *model.buffers()]
        tensors += [p.grad for p in model.parameters() if p.grad is not None]
        if optimizer is not None:
            tensors += [t for t in tree_leaves(dict(optimizer.state)) if isinstance(t, Tensor)]
        for tensor in tensors:
            if tensor.device is device:
                held.setdefault(id(tensor._array.storage), tensor._array.storage.nbytes)
        return sum(held.values())


def _calls(frame: FrameType | None) -> list[FrameType]:
    """The frames in which modules are called, innermost first."""
    found = []
    while frame is not None:
        if frame.f_code is _CALL:
            found.append(frame)
        frame = frame.f_back
    return found


def is_inner_call(frame: FrameType) -> bool:
    """Whether the module that runs at a frame is part of another that runs."""
    return len(_calls(frame)) > 1


def _trained(model: Any) -> list[Any]:
    return [p for p in model.parameters() if p.requires_grad]


def _optimizer_of(model: Any, frame: FrameType) -> Any:
    """The optimizer that the program has for a model."""
    own = {id(p) for p in model.parameters()}
    for user in user_frames(frame):
        for value in (*user.f_locals.values(), *user.f_globals.values()):
            if isinstance(value, Optimizer):
                if any(id(p) in own for group in value.param_groups for p in group["params"]):
                    return value
    return None


def _maker(optimizer: Any) -> Any:
    """What makes such an optimizer for other parameters."""
    if optimizer is None:
        return AdamW
    return lambda parameters: type(optimizer)(parameters, **_options(optimizer))


def _options(optimizer: Any) -> dict[str, Any]:
    import inspect

    names = inspect.signature(type(optimizer)).parameters
    return {name: value for name, value in optimizer.defaults.items() if name in names}


def _cheapest(question: Question, capacity: int) -> str:
    peak = question.peak()
    nearest: Remedy | None = None
    for remedy in remedies(question, peak, capacity):
        if remedy.fits:
            return (
                f"Cheapest fix that would have fitted: {remedy.name}, {size(remedy.peak)} of "
                f"{size(capacity)} ({remedy.cost}); the step as it is needs {size(peak.bytes)}"
            )
        if nearest is None or remedy.peak < nearest.peak:
            nearest = remedy
    tried = f", the nearest {nearest.name} with {size(nearest.peak)}" if nearest else ""
    return (
        f"No single change would have fitted {size(capacity)}: the step needs "
        f"{size(peak.bytes)}{tried}. Combine some (torch.devices.fits tells), or place the model "
        "on several devices (torch.devices.plan)"
    )


def _by_kind(groups: list[Any]) -> str:
    """What the largest kind allows, where the step cannot be run again without data."""
    sums = dict.fromkeys(KINDS, 0)
    for total, _, block in groups:
        sums[block.kind] += total
    moving = sums["activations"] + sums["workspace"] + sums["inputs"]
    fixed = sums["weights"] + sums["gradients"] + sums["optimizer state"]
    if moving >= fixed:
        return (
            f"the batch, whose activations take {size(moving)}: half of it (two backward passes "
            f"for one step) frees about {size(moving / 2)}; torch.utils.checkpoint frees most of "
            "it for a third more computing"
        )
    if sums["optimizer state"] > sums["weights"]:
        return (
            f"the optimizer, whose state takes {size(sums['optimizer state'])}: SGD keeps none, or "
            "one number a weight with momentum"
        )
    return (
        f"the weights, {size(sums['weights'])} with {size(sums['gradients'])} of gradients: "
        "bfloat16 halves them, or part of the layers goes to another device"
    )


def track() -> WatchedMemory:
    """Follow the memory of GPUs in a `with` block: `peak()`, `groups()`, and out-of-memory errors
    that list what is alive by module and line, with the cheapest change that would have fitted.

    >>> import ember as torch
    >>> with torch.devices.track() as memory:
    ...     x = torch.ones(1024, device="meta") + 1
    >>> memory.peak().bytes
    8192
    """
    return WatchedMemory()
