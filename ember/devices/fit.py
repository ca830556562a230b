"""Whether a training step fits on a device, found by running it without data."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from ember.backends.sim.specification import parse
from ember.core.modes import no_grad
from ember.core.tensor import Tensor
from ember.devices.amounts import size
from ember.devices.memory import MemoryTracker, Peak
from ember.devices.remedies import Remedy, in_bfloat16, remedies, saved_elsewhere
from ember.errors import check
from ember.nn.modules.container import ModuleList, Sequential
from ember.nn.modules.module import Module
from ember.nn.parameter import Parameter
from ember.nn.places import call_it, written
from ember.optim.adamw import AdamW
from ember.pytree import tree_leaves, tree_map
from ember.source_lines import short
from ember.utils.checkpoint import checkpoint


class Fit:
    """The answer of `fits`: true if the step fits; `str` of it is a table."""

    def __init__(self, count: int, name: str, capacity: int, batch: int, peak: Peak):
        self.count, self.name, self.capacity, self.batch = count, name, capacity, batch
        self.peak = peak
        self.largest_batch: int | None = None
        self.split_peak: int | None = None  # with the batch split over the devices
        self.remedies: list[Remedy] = []

    def __bool__(self) -> bool:
        return self.peak.bytes <= self.capacity

    def __str__(self) -> str:
        peak = self.peak
        verdict = "fits" if self else "does not fit"
        amounts = f"{size(peak.bytes)} of {size(self.capacity)}"
        lines = [f"A step with batch {self.batch} {verdict} on {self.name}: {amounts}"]
        lines += [f"  {size(n):>10}  {kind}" for kind, n in peak.by_kind.items() if n]
        where = f"{peak.phase}" + (f" of {peak.module}" if peak.module else "")
        place = f" ({short(peak.file)}:{peak.line})" if peak.line else ""
        lines.append(f"The peak is in the {where}{place}")
        if self.split_peak is not None:
            lines.append(
                f"Split over {self.count} devices (a copy of the model on each): "
                f"{size(self.split_peak)} on each"
            )
        if self.largest_batch is not None:
            lines.append(f"Largest batch that fits on one: {self.largest_batch}")
        for remedy in self.remedies:
            kept = "fits" if remedy.fits else "does not fit"
            lines.append(
                f"  {remedy.name}: {size(remedy.peak)}, saves {size(remedy.saving)}, {kept} "
                f"({remedy.cost})"
            )
        return "\n".join(lines)


class Question:
    """One model or function with its sample, to be run with changes."""

    def __init__(self, target: Any, sample: Any, optimizer: Any, loss: Any, training: bool):
        self.target, self.optimizer, self.loss = target, optimizer, loss
        self.training = training
        self.sample = sample if isinstance(sample, (tuple, list, dict)) else (sample,)
        tensors = [t for t in tree_leaves(self.sample) if isinstance(t, Tensor) and t.ndim]
        check(tensors, ValueError, "fits: the sample has no tensor with a batch dim")
        self.batch = int(tensors[0].shape[0])

    def peak(self, **changes: Any) -> Peak:
        """The peak of a step with some changes. The collector rests meanwhile: when it would free
        what is in cycles depends on all that the process does, and the answer must not."""
        collects = gc.isenabled()
        gc.disable()
        try:
            return self._peak(**changes)
        finally:
            if collects:
                gc.enable()

    def _peak(
        self,
        batch: int | None = None,
        optimizer: Any = None,
        dtype: Any = None,
        checkpointing: bool = False,
        autocast: bool = False,
        offload: bool = False,
    ) -> Peak:
        sample = on_meta(self.sample, self.batch, batch, dtype)
        if not isinstance(self.target, Module):
            with MemoryTracker() as memory:
                memory.adopt([t for t in tree_leaves(sample) if isinstance(t, Tensor)], "inputs")
                for model in tree_leaves(sample):
                    if isinstance(model, Module):
                        _adopt(memory, model)
                self._call(self.target, sample)
                return memory.peak()
        model = meta_copy(self.target)
        call_it(model, "model")
        if dtype is not None:
            model.to(dtype)
        if checkpointing:
            _checkpoint_blocks(model)
        with MemoryTracker() as memory:
            _adopt(memory, model)
            memory.adopt([t for t in tree_leaves(sample) if isinstance(t, Tensor)], "inputs")
            with in_bfloat16() if autocast else nullcontext():
                if self.training:
                    self._train(model, sample, optimizer or self.optimizer, offload)
                else:
                    with no_grad():
                        self._call(model.eval(), sample)
            return memory.peak()

    @staticmethod
    def _call(function: Any, sample: Any) -> Any:
        if isinstance(sample, dict) and set(sample) == {"*", "**"}:  # as they were given
            return function(*sample["*"], **sample["**"])
        return function(**sample) if isinstance(sample, dict) else function(*sample)

    def _train(self, model: Any, sample: Any, optimizer: Any, offload: bool) -> None:
        stepper = optimizer(model.parameters())
        for _ in range(2):  # the second step has the state that the first one made
            with saved_elsewhere() if offload else nullcontext():
                output = self._call(model, sample)
                loss = (self.loss or _sum_of)(output)
            loss.backward()
            del loss
            del output
            stepper.step()
            stepper.zero_grad()


def _sum_of(output: Any) -> Tensor:
    floats = [t for t in tree_leaves(output) if isinstance(t, Tensor) and t.dtype.is_floating_point]
    check(floats, ValueError, "fits: the output has no floating-point tensor; give loss=")
    total = floats[0].sum()
    for tensor in floats[1:]:
        total = total + tensor.sum()
    return total


def _adopt(memory: MemoryTracker, model: Any) -> None:
    named = [*model.named_parameters(), *model.named_buffers()]
    names = [f"model{written(path)}" for path, _ in named]
    memory.adopt([tensor for _, tensor in named], "weights", names)


def meta_copy(model: Any) -> Any:
    """A copy of a module whose tensors have no data; the module is left as it is."""
    known: dict[int, Any] = {}
    with no_grad():
        for module in model.modules():
            for value in tree_leaves([vars(module), module._parameters, module._buffers]):
                if isinstance(value, Parameter):
                    made = value.detach().to("meta")
                    known[id(value)] = Parameter(made, value.requires_grad)
                elif isinstance(value, Tensor):
                    known[id(value)] = value.detach().to("meta")
    return copy.deepcopy(model, known)


def on_meta(sample: Any, old: int = -1, new: int | None = None, dtype: Any = None) -> Any:
    """The sample without data, with another batch or dtype; modules without data too."""

    def changed(value: Any) -> Any:
        if isinstance(value, Module):
            return meta_copy(value)
        if not isinstance(value, Tensor):
            return value
        shape = list(value.shape)
        if new is not None and shape and shape[0] == old:
            shape[0] = new
        kind = dtype if dtype is not None and value.dtype.is_floating_point else value.dtype
        order = range(len(shape))
        if not value.is_contiguous():  # channels that lie last stay there
            order = sorted(order, key=lambda dim: -value.stride(dim))
        made = value.detach().to("meta").new_empty([shape[d] for d in order], dtype=kind)
        made = made.permute([order.index(d) for d in range(len(shape))])
        return made.requires_grad_(value.requires_grad)

    return tree_map(changed, sample)


def _checkpoint_blocks(model: Any) -> bool:
    """Recompute each block of the model's longest list of layers; whether there is one."""
    lists = [m for m in model.modules() if isinstance(m, (ModuleList, Sequential)) and len(m) > 1]
    if not lists:
        return False
    for block in max(lists, key=lambda m: sum(p.numel() for p in m.parameters())):
        block.forward = _recomputed(block.forward)
    return True


def _recomputed(forward: Callable[..., Any]) -> Callable[..., Any]:
    def inside(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    return inside


def fits(
    target: Any,
    sample: Any,
    device: str = "1x16GiB",
    *,
    optimizer: Any = AdamW,
    loss: Callable[[Any], Tensor] | None = None,
    training: bool = True,
    search: bool = True,
) -> Fit:
    """Whether a step fits on a device, and what fills it; nothing is computed and nothing moves.

    `target` is a module, or a function that does a whole step; `sample` is its tensor, or a tuple
    or dict of its arguments (modules among a function's arguments are copied without data).
    `device` is as for `ember run --gpus`: "2x24GiB", "1x80GiB:H100". A module is trained for two
    steps with `optimizer(parameters)` and `loss(output)`, by default the sum; with
    `training=False` it only runs. `search=False` leaves out the largest batch and the remedies.

    Each step is run on `meta` with the sizes that a simulated GPU would count. ValueError for a
    device or a sample that is not understood.

    >>> import ember as torch
    >>> found = torch.devices.fits(torch.nn.Linear(100, 100), torch.ones(8, 100), "1x1GiB")
    >>> bool(found), found.peak.by_kind["weights"]
    (True, 40960)
    """
    count, model = parse(device)
    check(count > 0, ValueError, f"fits: {device!r} has no device")
    question = Question(target, sample, optimizer, loss, training)
    found = Fit(count, f"one of {device}", model.memory, question.batch, question.peak())
    if count > 1 and question.batch > 1:
        found.split_peak = question.peak(batch=-(-question.batch // count)).bytes
    if search:
        found.largest_batch = _largest_batch(question, found)
        if isinstance(target, Module):
            made = remedies(question, found.peak, found.capacity)
            found.remedies = sorted(made, key=lambda remedy: -remedy.saving)
    return found


def _largest_batch(question: Question, found: Fit) -> int:
    """By the slope of the peak, then by trying: 0 if not even one fits."""

    def fitting(batch: int) -> bool:
        return question.peak(batch=batch).bytes <= found.capacity

    batch, base = question.batch, found.peak.bytes
    slope = max(question.peak(batch=16 * batch).bytes - base, 1) / (15 * batch)
    low, high = (batch, None) if found else (0, batch)
    guess, step = int(batch + (found.capacity - base) / slope), 1
    while high is None or high - low > 1:
        if guess <= low or (high is not None and guess >= high):
            guess = 2 * low if high is None else (low + high) // 2
        if fitting(guess):
            low, guess = guess, guess + step
        else:
            high, guess = guess, guess - step
        step *= 2
    return low
