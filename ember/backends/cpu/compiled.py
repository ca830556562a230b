"""Formulas compiled with LLVM, for arrays that are large enough: one pass over memory instead of
one for each operation, and row programs that keep their row in the cache.

What cannot be compiled (integers, float64's transcendentals, rare functions) is evaluated with
NumPy. Operands whose dtype or strides do not suit a kernel are copied first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ember.backends.cpu import threads
from ember.backends.cpu.kernels import LARGE_ENOUGH
from ember.backends.cpu.native import builtin, vector_bytes
from ember.dtypes import HALF, bfloat16, bool_, float16, float32, float64
from ember.kernel.array import Array, Spec
from ember.kernel.call import MapCall
from ember.kernel.dims import Dim, collapsed, spread
from ember.kernel.loops import (
    ACROSS,
    ALONG,
    FLAT,
    Kernel,
    Operand,
    kernel_text,
    scratch_elements,
)
from ember.kernel.number import Slot, called_with
from ember.layout import contiguous_strides
from ember.scalar.approximations import FUNCTIONS
from ember.scalar.expr import topological
from ember.scalar.lowering import is_costly, supported

LARGE = 1 << 14  # elements from which a compiled loop beats NumPy's passes
LARGE_ROWS = LARGE_ENOUGH  # for row programs, and half precision, which NumPy is slow at
SHORTEST = 8  # inner loops shorter than this are NumPy's
ELEMENTS = {float32: "float", float64: "double", float16: "half", bfloat16: "bfloat", bool_: "bool"}
GRAIN = 1 << 16  # operations that are worth another thread


class Geometry(NamedTuple):
    """How a call's dims become a kernel's: its form, lengths of the row dims and outer dims, and
    the strides of every array along them."""

    form: str
    row: int  # length of the last row dim
    repeats: int  # of the row dim before it
    outer: tuple[int, ...]
    strides: list[list[int]]  # an array each: last row dim, the one before, outer dims

    def table(self) -> Any:
        """The geometry as a kernel reads it."""
        flat = [self.row, self.repeats, *self.outer]
        for strides in self.strides:
            flat += strides
        return np.array(flat, np.int64)


class Given(NamedTuple):
    """An operand of the call: its element type in the kernel, its strides spread over the result's
    shape, and the dtype it is copied to first, or None."""

    element: str
    strides: tuple[int, ...]
    copied: Any


def plan(call: MapCall, *, often: bool = False) -> Loop | None:
    """A function of (operands, outs) that runs a call compiled, or None where it has to be
    evaluated. A call that will run `often` is worth compiling whatever its size."""
    arithmetic = float32 if call.compute in HALF else call.compute
    if arithmetic not in (float32, float64) or not (often or _is_worth_it(call)):
        return None
    out = call.out_specs[0]
    given = [_given(s, n, call, arithmetic) for s, n in zip(call.in_specs, call.names, strict=True)]
    if None in given or not _outs_fit(call):
        return None
    booleans = frozenset(
        n for n, g in zip(call.names, given, strict=True) if g and g.element == "bool"
    )
    scalar = ELEMENTS[arithmetic]
    if not supported(call.roots, booleans, scalar):
        return None
    arrays = [g for g in given if g is not None and g.element != "number"]
    targets = [call.in_specs[p] for p in call.writes] if call.writes else list(call.out_specs)
    geometry = _geometry(out.shape, call.axes, arrays, targets)
    return None if geometry is None else Loop(call, scalar, given, geometry)


def is_exact(call: MapCall) -> bool:
    """Whether a compiled call gives the very bits that its evaluation gives: no sums, whose order
    differs, and no functions, whose last bit may."""
    inexact = {*FUNCTIONS, "pow", "row_sum"}
    return not any(n.op in inexact for n in topological(call.roots))


def _is_worth_it(call: MapCall) -> bool:
    out = call.out_specs[0]
    operations = sum(n.op not in ("var", "const", "stop") for n in topological(call.roots))
    small = LARGE_ROWS if call.axes or call.compute in HALF else LARGE
    if out.numel < small:
        return False
    return operations > 1 or call.compute in HALF or any(is_costly(r) for r in call.roots)


def _given(spec: Any, name: str, call: MapCall, arithmetic: Any) -> Given | None:
    if not isinstance(spec, Spec):
        return None if spec is complex else Given("number", (), None)
    shape = call.out_specs[0].shape
    strides = spread(spec, shape)
    kept = name in call.keeps
    if spec.dtype is bool_ and kept:
        return Given("bool", strides, None)
    direct = spec.dtype is arithmetic or (
        spec.dtype in HALF and arithmetic is float32 and (kept or spec.dtype is call.compute)
    )
    if direct:
        return Given(ELEMENTS[spec.dtype], strides, None)
    if kept or spec.dtype.is_complex:
        return None
    return _copied(Given(ELEMENTS[arithmetic], strides, arithmetic.numpy), spec, shape)


def _copied(given: Given, spec: Spec, shape: tuple[int, ...]) -> Given:
    """The operand as the copy of it that a kernel reads."""
    own = contiguous_strides(spec.shape)
    strides = (0,) * (len(shape) - len(spec.shape)) + tuple(
        0 if size == 1 else stride for size, stride in zip(spec.shape, own, strict=True)
    )
    return Given(given.element, strides, given.copied or spec.dtype.numpy)


def _outs_fit(call: MapCall) -> bool:
    shape = call.out_specs[0].shape
    return all(s.dtype in ELEMENTS and s.shape == shape for s in call.out_specs)


def _geometry(
    shape: tuple[int, ...], axes: tuple[int, ...], arrays: list[Given], targets: list[Spec]
) -> Geometry | None:
    """The geometry of a call; None where no form fits it."""
    order = sorted(range(len(shape)), key=lambda d: -targets[0].strides[d])
    if axes:
        order = list(range(len(shape)))
    every = [g.strides for g in arrays] + [t.strides for t in targets]
    dims = collapsed(shape, order, set(axes), every)
    if not dims:
        return None
    last = dims[-1]
    if any(last.strides[len(arrays) + i] != 1 for i in range(len(targets))):
        return None
    if any(last.strides[i] not in (0, 1) for i in range(len(arrays))):
        return None
    if not axes:
        return _map_geometry(dims)
    rows, outer = [d for d in dims if d.is_row], [d for d in dims if not d.is_row]
    if len(rows) > 2 or last.size < SHORTEST:
        return None
    before = rows[0] if len(rows) == 2 else Dim(1, [0] * len(every), True)
    inner = rows[-1]
    form = ALONG if last.is_row else ACROSS
    strides = [
        [inner.strides[i], before.strides[i], *(d.strides[i] for d in outer)]
        for i in range(len(every))
    ]
    return Geometry(form, inner.size, before.size, tuple(d.size for d in outer), strides)


def _map_geometry(dims: list[Dim]) -> Geometry | None:
    inner, outer = dims[-1], dims[:-1]
    if inner.size < SHORTEST:
        return None
    strides = [
        [inner.strides[i], 0, *(d.strides[i] for d in outer)] for i in range(len(inner.strides))
    ]
    form = ALONG if outer else FLAT
    return Geometry(form, inner.size, 1, tuple(d.size for d in outer), strides)


class Loop:
    """The compiled form of a call, whatever arrays it gets; compiled when it is first used."""

    def __init__(self, call: MapCall, scalar: str, given: list[Any], geometry: Geometry):
        column = len(geometry.outer) + 1  # where a stride along the vectors stands
        which = column if geometry.form == ACROSS else 0
        table, names = iter(geometry.strides), []
        for name, one in zip(call.names, given, strict=True):
            wide = one.element == "number" or next(table)[which] == 1
            names.append(Operand(name, one.element, wide))
        self.call, self.scalar, self.names, self.geometry = call, scalar, tuple(names), geometry
        self.arrays = [(i, g.copied) for i, g in enumerate(given) if g.element != "number"]
        self.numbers = [i for i, g in enumerate(given) if g.element == "number"]
        self.layout = geometry.table()
        self.kind = np.float32 if scalar == "float" else np.float64
        self.compiled: tuple[Any, int, int, int] | None = None

    def compile(self) -> tuple[Any, int, int, int]:
        """The builtin, its scratch, what begin and end count to, and how few of them are worth a
        thread."""
        lanes, geometry = vector_bytes() // (4 if self.scalar == "float" else 8), self.geometry
        kernel = Kernel(
            self.call.roots,
            self.names,
            tuple(ELEMENTS[s.dtype] for s in self.call.out_specs),
            self.scalar,
            lanes,
            geometry.form,
            len(geometry.outer),
        )
        row = geometry.row * geometry.repeats
        work = sum(10 if is_costly(n) else 1 for n in topological(self.call.roots))
        each = work if geometry.form == FLAT else work * row
        self.compiled = (
            builtin(kernel_text(kernel)),
            scratch_elements(kernel, row),
            _count(geometry, lanes),
            max(1, GRAIN // max(each, 1)),
        )
        return self.compiled

    def __call__(self, values: tuple[Any, ...], outs: tuple[Array, ...]) -> None:
        """Run on operands, into arrays."""
        arguments: list[Any] = []
        for position, copied in self.arrays:
            nd = values[position].host()
            arguments.append(nd if copied is None else np.ascontiguousarray(nd, copied))
        self._run(arguments, values, outs)

    def _run(self, arguments: list[Any], values: tuple[Any, ...], outs: tuple[Array, ...]) -> None:
        kernel, scratch, count, grain = self.compiled or self.compile()
        arguments += [out.host() for out in outs]
        arguments += [_number(values[i]) for i in self.numbers]
        arguments.append(self.layout)
        kind = self.kind

        def part(begin: int, end: int) -> None:
            kernel(*arguments, np.empty(scratch, kind), begin, end)

        threads.split(part, count, grain)

    def bind(self, values: tuple[Any, ...], outs: tuple[Array, ...]) -> Callable[[], None]:
        """A function that runs on these very arrays."""
        kernel, scratch, count, grain = self.compiled or self.compile()
        if any(copied is not None for _, copied in self.arrays):
            return called_with(lambda *given: self(given, outs), values)
        arguments: list[Any] = [values[position].host() for position, _ in self.arrays]
        arguments += [out.host() for out in outs]
        changing = False
        for position in self.numbers:
            value = values[position]
            if isinstance(value, Slot):
                value.join(arguments)
                changing = True
            else:
                arguments.append(_number(value))
        arguments.append(self.layout)
        kind, room = self.kind, np.empty(scratch, self.kind)

        def part(begin: int, end: int) -> None:
            kernel(*arguments, np.empty(scratch, kind), begin, end)

        def step() -> None:
            if threads.count() == 1:
                kernel(*arguments, room, 0, count)
            else:
                threads.split(part, count, grain)

        if count > grain:
            return step
        if changing:
            return lambda: kernel(*arguments, room, 0, count)
        return partial(kernel, *arguments, room, 0, count)


def _count(geometry: Geometry, lanes: int) -> int:
    """What begin and end count to."""
    if geometry.form == FLAT:
        return geometry.row
    if geometry.form == ALONG:
        return math.prod(geometry.outer)
    return math.prod(geometry.outer[:-1]) * -(-geometry.outer[-1] // lanes)


def _number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
