"""Which level an op runs on, and its arguments as values of that level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember.core import modes
from ember.core.array import full
from ember.core.levels import ESCAPED, LevelArray
from ember.core.tensor import Tensor, tensor_of
from ember.kernel.array import contiguous_spec

_new = object.__new__


def frame_of(values: Sequence[Any]) -> Any:
    """The innermost batch that a tensor among the arguments belongs to; None if none does."""
    found = None
    for value in values:
        for tensor in value if type(value) in (tuple, list) else (value,):
            array = tensor._array if isinstance(tensor, Tensor) else None
            if type(array) is LevelArray and (found is None or array.frame.depth > found.depth):
                found = array.frame
    if found is not None and not found.alive:
        raise RuntimeError(ESCAPED)
    return found


def lift(value: Any, frame: Any) -> Any:
    """A tensor (or the tensors of a list) as one of a frame's; what is of a lower level is the
    same for each element, and has no history there."""
    if type(value) in (tuple, list):
        return type(value)(lift(v, frame) for v in value)
    if not isinstance(value, Tensor):
        return value
    array = value._array
    if type(array) is LevelArray and array.frame is frame:
        return value
    return tensor_at(LevelArray(frame, value, False))


def lifted(values: Any) -> tuple[Any, Any]:
    """The frame of some arguments (None outside every batch), and the arguments lifted to it."""
    frame = frame_of(values) if modes.state.levels else None
    return frame, (values if frame is None else [lift(v, frame) for v in values])


def tensor_at(array: LevelArray) -> Tensor:
    """A tensor over an array of a level, without history there."""
    made = _new(Tensor)
    made._array = array
    return made


def zeros_for(grads: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Zeros that any of some gradients can be written into: a batch if one of them is one."""
    given = [g for g in grads if g is not None]
    frame = frame_of(given) if modes.SPECIAL[0] else None
    for grad in given if frame is not None else ():
        array = grad._array
        if type(array) is LevelArray and array.frame is frame and array.batched:
            return grad.new_zeros(shape)
    spec = given[0]._array.spec
    made = tensor_of(full(contiguous_spec(shape, spec.dtype, spec.device), 0))
    return made if frame is None else lift(made, frame)


def is_batched(value: Any) -> bool:
    """Whether a value is a tensor that differs between the elements of a batch."""
    if not modes.SPECIAL[0] or not isinstance(value, Tensor):
        return False
    array = value._array
    while type(array) is LevelArray:
        if array.batched:
            return True
        array = array.value._array
    return False


def whole(value: Any) -> Any:
    """The tensor of all elements of every batch, for checks of values."""
    while isinstance(value, Tensor) and type(value._array) is LevelArray:
        value = value._array.value
    return value


def raise_to(frame: Any, tensor: Tensor) -> None:
    """Make a tensor of a lower level one of a frame's, with the base that it views: something of
    that level, with a history there, is about to be written into it."""
    base = tensor if tensor._base is None else tensor._base
    for member in (base, tensor) if base is not tensor else (tensor,):
        array = member._array
        if type(array) is LevelArray and array.frame is frame:
            continue
        below: Any = _new(Tensor)
        below.__dict__.update(member.__dict__)
        if member is not base and isinstance(base._array, LevelArray):
            below = base._array.value.as_strided(*array.layout)
        for name in ("_grad_fn", "_output_nr", "_requires_grad", "_view_history", "_history"):
            member.__dict__.pop(name, None)
        member._array = LevelArray(frame, below, False)
