"""What would make a step smaller, each tried by running the step without data: from the cheapest
to the dearest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ember import dtypes
from ember.autograd.graph import saved_tensors_hooks
from ember.core.autocast_lists import LISTS
from ember.core.modes import pop_autocast, push_autocast
from ember.nn.modules.container import ModuleList, Sequential
from ember.ops import empty
from ember.optim.sgd import SGD

_MOST_PASSES = 1 << 12


class Remedy(NamedTuple):
    """What a change would make of the peak."""

    name: str
    peak: int
    saving: int
    fits: bool
    cost: str = ""


class _Change(NamedTuple):
    name: str
    cost: str
    arguments: dict[str, Any]


class in_bfloat16:
    """A block in which products of `meta` tensors are in bfloat16, as autocast has them on GPUs."""

    def __enter__(self) -> None:
        LISTS.setdefault("meta", LISTS["cuda"])
        push_autocast("meta", True, dtypes.bfloat16, True)

    def __exit__(self, *exception: object) -> None:
        pop_autocast()


class saved_elsewhere(saved_tensors_hooks):
    """A block in which what is kept for backward is on the host: here only its size is kept."""

    def __init__(self) -> None:
        def pack(tensor: Any) -> Any:
            return tuple(tensor.shape), tensor.dtype

        def unpack(packed: Any) -> Any:
            shape, dtype = packed
            return empty(shape, dtype=dtype, device="meta")

        super().__init__(pack, unpack)


def changes(question: Any) -> Iterator[_Change]:
    """What can be tried, the cheapest first."""
    training = question.training
    if question.batch > 1:
        half = (question.batch + 1) // 2
        if training:
            name = f"two passes of batch {half} for one step"
            yield _Change(name, "no more computing, smaller launches", {"batch": half})
        else:
            yield _Change(f"batch {half}", "smaller launches", {"batch": half})
    yield _Change("autocast to bfloat16", "products keep three digits", {"autocast": True})
    if training and has_layers(question.target):
        name = "checkpointing of the layers"
        yield _Change(name, "a third more computing", {"checkpointing": True})
    yield _Change(
        "everything in bfloat16", "all numbers keep three digits", {"dtype": dtypes.bfloat16}
    )
    if training:
        name = "activations kept on the host"
        yield _Change(name, "each goes over the bus twice", {"offload": True})
    if training and question.optimizer is not SGD:
        name = "SGD without momentum"
        yield _Change(
            name, "another optimizer, which may need more steps", {"optimizer": plain_sgd}
        )


def plain_sgd(parameters: Any) -> SGD:
    """The optimizer without state."""
    return SGD(parameters, lr=0.1)


def has_layers(model: Any) -> bool:
    """Whether there is a list of layers that can be recomputed."""
    return any(isinstance(m, (ModuleList, Sequential)) and len(m) > 1 for m in model.modules())


def remedies(question: Any, peak: Any, capacity: int) -> Iterator[Remedy]:
    """What each change makes of a peak, the cheapest change first; only those that save."""

    def tried(name: str, cost: str, found: int) -> Remedy:
        return Remedy(name, found, peak.bytes - found, found <= capacity, cost)

    for change in changes(question):
        try:
            found = tried(change.name, change.cost, question.peak(**change.arguments).bytes)
        except (RuntimeError, TypeError, NotImplementedError):  # the model does not allow it, as
            continue  # one with float32 tensors that a change of dtype leaves behind
        if found.saving > 0:
            yield found
        if "batch" in change.arguments and question.training and not found.fits:
            passes = _fewest_passes(question, capacity)
            if passes is not None:
                count, batch, small = passes
                name = f"{count} passes of batch {batch} for one step"
                yield tried(name, change.cost, small)
    state = peak.by_kind["optimizer state"]
    if state:
        cost = "it goes over the bus in each step"
        yield tried("optimizer state kept on the host", cost, peak.bytes - state)


def _fewest_passes(question: Any, capacity: int) -> tuple[int, int, int] | None:
    """(passes, batch of each, peak): as few as make a step fit."""
    count = 4
    while count <= min(question.batch, _MOST_PASSES):
        batch = -(-question.batch // count)
        peak = question.peak(batch=batch).bytes
        if peak <= capacity:
            return count, batch, peak
        count *= 2
    return None
