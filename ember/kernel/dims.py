"""The dims of a call as a kernel walks them: neighbours that every array walks alike made one."""

from __future__ import annotations

from typing import NamedTuple

from ember.kernel.array import Spec


class Dim(NamedTuple):
    """A dim, or several that are walked as one, with every array's stride along it."""

    size: int
    strides: list[int]
    is_row: bool


def spread(spec: Spec, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array broadcast to a shape; 0 where it repeats."""
    return (0,) * (len(shape) - len(spec.shape)) + tuple(
        0 if size == 1 else stride for size, stride in zip(spec.shape, spec.strides, strict=True)
    )


def collapsed(
    shape: tuple[int, ...], order: list[int], axes: set[int], every: list[tuple[int, ...]]
) -> list[Dim]:
    """The dims of a shape in an order, those of length 1 left out; `every` has the strides of all
    arrays, `axes` the dims of a row."""
    dims: list[Dim] = []
    for d in order:
        if shape[d] == 1:
            continue
        strides = [s[d] for s in every]
        if dims and dims[-1].is_row == (d in axes):
            above = dims[-1]
            if all(a == s * shape[d] for a, s in zip(above.strides, strides, strict=True)):
                dims[-1] = Dim(above.size * shape[d], strides, above.is_row)
                continue
        dims.append(Dim(shape[d], strides, d in axes))
    return dims
