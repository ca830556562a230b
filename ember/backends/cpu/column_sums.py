"""Formulas of rows some of whose results are only summed over all rows: gradients of weights and
biases beside the gradient that they are sums of. What is summed is never stored.

The rows are summed in groups, whose sums are added at the end, so that rounding errors stay small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ember.backends.cpu import threads
from ember.backends.cpu.compiled import ELEMENTS, GRAIN, _given, _number
from ember.backends.cpu.native import builtin, vector_bytes
from ember.dtypes import bool_, float32
from ember.kernel.array import Array, Spec
from ember.kernel.call import MapCall
from ember.kernel.dims import collapsed
from ember.kernel.loops import ALONG, Kernel, Operand, kernel_text, scratch_elements
from ember.kernel.number import Slot
from ember.scalar.expr import topological
from ember.scalar.lowering import is_costly, supported

GROUP = 64  # rows that are summed one after another
MOST_GROUPS = 256


class SumsCall(MapCall):
    """A map of float32 or a row program over the last dim, results `sums` of which are summed over
    all other dims; `shape` is that of the elements."""

    __slots__ = ("shape", "sums")
    shape: tuple[int, ...]
    sums: tuple[int, ...]

    def __init__(self, call: MapCall, roots: tuple[Any, ...], outs: tuple[Spec, ...], sums: Any):
        super().__init__(
            call.name, call.in_specs, outs,
            roots=roots, names=call.names, compute=call.compute, keeps=call.keeps, axes=call.axes,
        )  # fmt: skip
        self.sums = tuple(sorted(sums))
        self.shape = call.shape if isinstance(call, SumsCall) else call.out_specs[0].shape


class Columns:
    """The compiled form of a call."""

    def __init__(self, call: SumsCall, given: list[Any], dims: list[Any]):
        self.call, self.row, self.outer = call, dims[-1].size, [d.size for d in dims[:-1]]
        self.arrays = [i for i, g in enumerate(given) if g.element != "number"]
        self.numbers = [i for i, g in enumerate(given) if g.element == "number"]
        table = [self.row, 1, *self.outer]
        for i in range(len(self.arrays) + len(call.roots)):
            table += [dims[-1].strides[i], 0, *(d.strides[i] for d in dims[:-1])]
        self.layout = np.array(table, np.int64)
        steps, names = iter(dims[-1].strides), []
        for name, one in zip(call.names, given, strict=True):
            wide = one.element == "number" or next(steps) == 1
            names.append(Operand(name, one.element, wide))
        self.kernel = Kernel(
            call.roots,
            tuple(names),
            tuple(ELEMENTS[s.dtype] for s in call.out_specs),
            "float",
            vector_bytes() // 4,
            ALONG,
            len(self.outer),
            added=call.sums,
        )

    def bind(self, values: tuple[Any, ...], outs: tuple[Array, ...]) -> Callable[[], None]:
        """A function that runs on these very arrays."""
        kernel, scratch = builtin(kernel_text(self.kernel)), scratch_elements(self.kernel, self.row)
        rows = math.prod(self.outer)
        groups = min(MOST_GROUPS, -(-rows // GROUP))
        bounds = [rows * i // groups for i in range(groups + 1)]
        sums = np.zeros((groups, len(self.call.sums), self.row), np.float32)
        totals = [outs[i].host().reshape(-1) for i in self.call.sums]
        before = [values[i].host() for i in self.arrays]
        lists: list[list[Any]] = []
        for group in range(groups):
            parts = iter(sums[group] if groups > 1 else totals)
            made = [
                next(parts) if i in self.call.sums else out.host() for i, out in enumerate(outs)
            ]
            arguments = [*before, *made]
            for position in self.numbers:
                value = values[position]
                if isinstance(value, Slot):
                    value.join(arguments)
                else:
                    arguments.append(_number(value))
            lists.append([arguments, bounds[group], bounds[group + 1]])
        work = sum(10 if is_costly(n) else 1 for n in topological(self.call.roots))
        grain, layout = max(1, GRAIN // (work * self.row * GROUP)), self.layout

        def part(begin: int, end: int) -> None:
            room = np.empty(scratch, np.float32)
            for arguments, first, last in lists[begin:end]:
                kernel(*arguments, layout, room, first, last)

        def step() -> None:
            sums.fill(0)
            threads.split(part, groups, grain)
            for i, total in enumerate(totals):
                np.add.reduce(sums[:, i], 0, out=total)

        whole = np.empty(scratch, np.float32)
        first = lists[0][0]

        def alone() -> None:
            for total in totals:
                total.fill(0)
            kernel(*first, layout, whole, 0, rows)

        return step if groups > 1 else alone


def plan(call: SumsCall) -> Columns | None:
    """How a call runs; None where there is no kernel for it."""
    shape = call.shape
    if call.compute is not float32 or call.writes or len(shape) < 2 or 0 in shape:
        return None
    if call.axes not in ((), (len(shape) - 1,)) or shape[-1] < 8:
        return None
    full = call.with_specs(call.in_specs, (_dense(call, shape),) * len(call.roots))
    given = []
    for spec, name in zip(call.in_specs, call.names, strict=True):
        one = _given(spec, name, full, float32)
        if one is None or one.copied is not None:
            return None
        given.append(one)
    booleans = frozenset(n for n, g in zip(call.names, given, strict=True) if g.element == "bool")
    if not supported(call.roots, booleans, "float") or not _outs_fit(call):
        return None
    every = [g.strides for g in given if g.element != "number"]
    once = (*(0,) * (len(shape) - 1), 1)
    every += [once if i in call.sums else s.strides for i, s in enumerate(call.out_specs)]
    last = len(shape) - 1
    dims = collapsed(shape, list(range(len(shape))), {last}, every)
    if len(dims) < 2 or not dims[-1].is_row or any(s not in (0, 1) for s in dims[-1].strides):
        return None
    if any(s != 1 for s in dims[-1].strides[-len(call.roots) :]):
        return None
    return Columns(call, given, dims)


def _dense(call: SumsCall, shape: tuple[int, ...]) -> Spec:
    return call.out_specs[0].with_shape(shape)


def _outs_fit(call: SumsCall) -> bool:
    for i, spec in enumerate(call.out_specs):
        if i in call.sums:
            if spec.dtype is not float32 or not spec.contiguous or spec.numel != call.shape[-1]:
                return False
        elif spec.dtype not in (float32, bool_) or spec.shape != call.shape or not spec.contiguous:
            return False
    return True
