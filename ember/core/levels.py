"""Levels: what one element of a batch looks like to ops.

Under `vmap` a tensor's array is a `LevelArray`: the spec is that of one element, so that code
reads the shapes it was written for; `value` is the tensor of the whole batch, with the batch as
its first dim. The frames in force stand in `modes.state.levels`, outermost first; func/ makes them.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ember.core import modes
from ember.dtypes import dtype as DType
from ember.kernel.array import Array, spec_of
from ember.layout import Shape

INTO_ONE = (
    "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor "
    "`other` in extra_args that has more elements than `self`. This happened due to `other` being "
    "vmapped over but `self` not being vmapped over in a vmap. Please try to use out-of-place "
    "operators instead of inplace arithmetic. If said operator is being called inside the PyTorch "
    "framework, please file a bug report instead."
)


class Frame:
    """A transform in force. `depth` is its place in the stack."""

    alive = True
    batches = False  # whether it is a vmap
    depth = 0
    before = True  # whether ops outside record, for frames that switch recording on inside

    def enter(self) -> None:
        """Put the frame on the stack."""
        state = modes.state
        self.depth = len(state.levels)
        state.levels = (*state.levels, self)
        modes.SPECIAL[0] += 1

    def leave(self) -> None:
        """Take the frame off the stack."""
        self.alive = False
        modes.state.levels = modes.state.levels[: self.depth]
        modes.SPECIAL[0] -= 1


class Below:
    """A block that runs below a frame: with the stack under it, and recording as it is there."""

    __slots__ = ("before", "frame")

    def __init__(self, frame: Frame):
        self.frame = frame

    def __enter__(self) -> None:
        state, depth = modes.state, self.frame.depth
        levels = state.levels
        self.before = levels, state.grad
        for above in levels[depth + 1 :]:
            if not above.batches:
                state.grad = above.before
                break
        state.levels = levels[:depth]

    def __exit__(self, *exc: object) -> None:
        modes.state.levels, modes.state.grad = self.before


class LevelArray(Array):
    """One element of the batch `value`, or (not batched) the same `value` for each."""

    __slots__ = ("batched", "frame", "value")

    def __init__(self, frame: Any, value: Any, batched: bool):
        array = value._array
        spec = array.spec
        if batched:
            spec = spec_of(spec.shape[1:], spec.strides[1:], spec.dtype, spec.device)
        super().__init__(array.storage, spec, array.offset)
        self.frame, self.value, self.batched = frame, value, batched

    def host(self) -> Any:
        """The elements, where all of the batch have the same."""
        return self.value._array.host() if not self.batched else no_data(self.frame)

    def detached(self) -> LevelArray:
        """The same without history on any level."""
        return LevelArray(self.frame, self.value.detach(), self.batched)

    def copied(self, strides: Shape, dtype: DType | None) -> LevelArray:
        """A copy whose elements are dense with `strides`."""
        order = sorted(range(len(strides)), key=lambda d: (-strides[d], d))
        lead = int(self.batched)
        dims = (*range(lead), *(d + lead for d in order))
        with Below(self.frame):
            value = self.value
            made = (value if dtype is None else value.to(dtype)).permute(dims).contiguous()
            if made._array.storage is value._array.storage:
                made = made.clone()
            back = sorted(range(len(dims)), key=dims.__getitem__)
            return LevelArray(self.frame, made.permute(back), self.batched)

    def moved(self, device: Any) -> LevelArray:
        """A copy on another device."""
        with Below(self.frame):
            return LevelArray(self.frame, self.value.to(device), self.batched)

    def fill(self, number: Any) -> None:
        """Set every element."""
        with Below(self.frame):
            self.value.fill_(number)

    def through(self, function: Any) -> LevelArray:
        """What a function of the whole batch, that keeps its first dim, makes of it."""
        with Below(self.frame):
            return LevelArray(self.frame, function(self.value), self.batched)

    def take(self, source: Array) -> None:
        """Write `source`, an array of this level or a lower one, broadcast, into this one."""
        with Below(self.frame):
            if not isinstance(source, LevelArray) or source.frame is not self.frame:
                value = self.value.detach()
                value._array = source
            elif source.batched:
                if not self.batched:
                    raise RuntimeError(INTO_ONE)
                value = aligned(source.value, self.spec.ndim)
            else:
                value = source.value
            self.value.copy_(value)


def copy_between(target: Array, source: Array) -> None:
    """Write one array into another, of which one at least is of a level."""
    depths = [a.frame.depth if isinstance(a, LevelArray) else -1 for a in (target, source)]
    if depths[0] >= depths[1]:
        target.take(source)  # type: ignore[attr-defined]
        return
    assert isinstance(source, LevelArray)
    if source.batched:
        raise RuntimeError(INTO_ONE)
    copy_into[0](target, source.value._array)


copy_into: list[Any] = []  # array.py


def aligned(value: Any, ndim: int) -> Any:
    """A batch whose elements have as many dims as `ndim`, by dims of size 1 in front of theirs."""
    shape = value._array.spec.shape
    lacking = ndim + 1 - len(shape)
    return value.view((shape[0], *(1,) * lacking, *shape[1:])) if lacking > 0 else value


ESCAPED = (
    "vmap: a tensor was used outside of the vmap it belongs to. Return it from the mapped function "
    "instead of storing it elsewhere."
)


def no_data(frame: Frame) -> NoReturn:
    """The error for code that looks at the elements of a batch."""
    raise RuntimeError(
        "Cannot access data pointer of Tensor that doesn't have storage: inside vmap a tensor "
        "stands for a whole batch, so its elements cannot be read as numbers. Use tensor ops "
        "(torch.where in place of if), or compute this outside vmap."
        if frame.alive
        else ESCAPED
    )


__all__ = ["ESCAPED", "Below", "Frame", "LevelArray", "aligned", "copy_between", "no_data"]
