"""Formulas over other shapes of the same elements, so that they join what is written to or read
from a reshaped view."""

from __future__ import annotations

from typing import Any

from ember.capture.recorder import Instruction, Place
from ember.kernel.array import Spec
from ember.kernel.call import MapCall

Shape = tuple[int, ...]


def alike(place: Place) -> Any:
    """A key that places of the same elements share, whatever their shape."""
    spec = place.spec
    return (place.storage, place.offset, spec.numel) if spec.contiguous else place


def same_shape(earlier: Instruction, later: Instruction) -> tuple[Instruction, Instruction] | None:
    """Two formulas with results of one shape, one of them reshaped; None where that cannot be."""
    a, b = earlier.outs[0].spec, later.outs[0].spec
    if a.shape == b.shape:
        return earlier, later
    if a.numel != b.numel:
        return None
    first = reshaped(earlier, b.shape)
    if first is not None:
        return first, later
    second = reshaped(later, a.shape)
    return None if second is None else (earlier, second)


def reshaped(instruction: Instruction, shape: Shape) -> Instruction | None:
    """A formula over results of another shape of as many elements; None where an operand has no
    such view."""
    call: MapCall = instruction.call
    now = instruction.outs[0].spec.shape
    same_rows = bool(now and shape) and now[-1] == shape[-1]
    axes: Shape = ()
    if call.axes:
        if call.axes != (len(now) - 1,) or not same_rows:
            return None
        axes = (len(shape) - 1,)

    def change(spec: Spec) -> Spec | None:
        if spec.numel == 1:
            return spec.with_shape(())
        if not spec.contiguous:
            return None
        if spec.shape == now:
            return spec.with_shape(shape)
        if same_rows and spec.numel == now[-1] == spec.shape[-1]:
            return spec.with_shape((now[-1],))
        if same_rows and spec.shape == (*now[:-1], 1):
            return spec.with_shape((*shape[:-1], 1))
        return None

    places = [p for p in (*instruction.operands, *instruction.outs) if isinstance(p, Place)]
    changed: dict[Place, Place] = {}
    for place in places:
        spec = change(place.spec)
        if spec is None:
            return None
        changed[place] = place._replace(spec=spec)
    operands = tuple(changed[o] if isinstance(o, Place) else o for o in instruction.operands)
    outs = tuple(changed[o] for o in instruction.outs)
    specs = tuple(
        o.spec if isinstance(o, Place) else s for o, s in zip(operands, call.in_specs, strict=True)
    )
    made = call.with_specs(specs, tuple(o.spec for o in outs))
    made.axes = axes
    return instruction._replace(call=made, operands=operands, outs=outs)
