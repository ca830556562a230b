"""Calls become Python functions over ndarrays: a ufunc where the formula is one, else the formula's
NumPy source."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from ember.backends.base import Kernels
from ember.backends.cpu.arrays import copied, row_major
from ember.backends.cpu.errstate import enter, leave
from ember.backends.cpu.library import library_function
from ember.backends.cpu.sums import blocked_sum, halved_product, wants_blocks, wants_halves
from ember.dtypes import HALF, bfloat16, bool_, complex32, complex64, float32
from ember.dtypes import dtype as DType
from ember.kernel.array import Array, Spec, Storage, contiguous_spec
from ember.kernel.call import Call, LibraryCall, MapCall, ReduceCall
from ember.layout import channels_lie_last
from ember.scalar.evaluate import (
    compile_numpy,
    constant,
    is_late,
    numpy_function,
    single_ufunc,
)

Runner = Callable[..., Any]
LARGE_ENOUGH = 1 << 12  # elements from which a formula may be worth compiling
WORTH_KEEPING = 1 << 18  # bytes of a result from which its memory is worth keeping


class CpuKernels(Kernels):
    """Kernels of the CPU, and by composition of simulated GPUs."""

    runs_cpu_kernels = True
    widens_half = True

    def prepare(self, call: Call) -> Runner:
        """The function that runs a call."""
        if any(spec.nbytes >= WORTH_KEEPING for spec in call.out_specs):
            importlib.import_module("ember.backends.cpu.allocator").install()
        if isinstance(call, MapCall):
            return _prepare_rows(call) if call.axes else _prepare_map(call)
        if isinstance(call, ReduceCall):
            return _prepare_reduce(call)
        assert isinstance(call, LibraryCall)
        return _prepare_library(call)

    def bind(
        self,
        call: Call,
        operands: tuple[Any, ...],
        outs: tuple[Any, ...],
        runner: Callable[..., Any],
    ) -> Callable[[], Any]:
        """A call bound to its arrays."""
        binding = importlib.import_module("ember.backends.cpu.binding")
        found: Callable[[], Any] | None = binding.bind(call, operands, outs)
        return super().bind(call, operands, outs, runner) if found is None else found

    def copy(self, target: Array, source: Array) -> None:
        """Write an array into another."""
        if not converted(target, source):
            np.copyto(target.host(), source.host(), casting="unsafe")


def converted(target: Array, source: Array) -> bool:
    """Write a large array into another where one is of half precision, which NumPy is slow at;
    False where nothing was done."""
    to, from_ = target.spec.dtype, source.spec.dtype
    if to is from_ or target.spec.numel < LARGE_ENOUGH or not (to in HALF or from_ in HALF):
        return False
    casting = importlib.import_module("ember.backends.cpu.casting")
    return bool(casting.cast(target, source))


def _prepare_rows(call: MapCall) -> Runner:
    """Row programs of operands with channels last copy them first: a row's elements then lie side
    by side."""
    turned = [
        i for i, s in enumerate(call.in_specs)
        if isinstance(s, Spec) and channels_lie_last(s.shape, s.strides)
    ]  # fmt: skip
    if not turned or call.writes or call.axes == (1,):
        return _prepare_map(call)
    plain = copy(call)
    plain.in_specs = tuple(
        s.with_shape(s.shape) if i in turned else s for i, s in enumerate(call.in_specs)
    )
    inner = _prepare_map(plain)

    def run(*operands: Any) -> Any:
        given = list(operands)
        for i in turned:
            given[i] = _store(row_major(given[i].host()), plain.in_specs[i], [])
        return inner(*given)

    return run


def arithmetic_type(dtype: DType) -> DType:
    """The dtype that composed formulas are computed in: half precision goes through float32."""
    if dtype is complex32:
        return complex64
    return float32 if dtype in HALF else dtype


def _prepare_map(call: MapCall) -> Runner:
    ufunc = single_ufunc(call.roots, list(call.names)) if not call.axes else None
    compute = (
        call.compute
        if ufunc is not None and call.compute not in (bfloat16, complex32)
        else arithmetic_type(call.compute)
    )
    casts = [
        _cast_of(spec, name, call, compute)
        for spec, name in zip(call.in_specs, call.names, strict=True)
    ]
    out = call.out_specs[0]
    half = call.compute in HALF
    loop = loop_of(call) if half else None
    if not half and ufunc is not None and is_late(call.roots[0].op):
        loop = loop_of(call)  # SciPy's functions are slower by an order of magnitude
    single = loop is None and ufunc is not None and not call.writes
    if single and _is_direct(call, casts, compute, ufunc):
        return _unary(ufunc, out) if len(casts) == 1 else _binary(ufunc, out)
    function = (
        ufunc
        if ufunc is not None
        else compile_numpy(call.roots, list(call.names), compute.numpy, call.axes)
    )
    runner = _writing(function, casts, call) if call.writes else _general(function, casts, call)
    if not half and loop is None:
        loop = loop_of(call)
    return runner if loop is None else _compiled(runner, loop, call)


def _compiler() -> Any:
    """The module that compiles formulas: loaded when a large array needs it."""
    return importlib.import_module("ember.backends.cpu.compiled")


def loop_of(call: MapCall) -> Any:
    """The compiled form of a call; None where it has to be evaluated."""
    return None if call.out_specs[0].numel < LARGE_ENOUGH else _compiler().plan(call)


def _compiled(evaluate: Runner, loop: Callable[..., None], call: MapCall) -> Runner:
    """A call that runs compiled. Where that gives the very bits of the evaluation, the first call
    is evaluated, so that nothing waits for a compiler that may not be worth it."""
    seen: list[bool] = [] if _compiler().is_exact(call) else [True]
    specs, writes = call.out_specs, call.writes

    def run(*operands: Any) -> Any:
        if not seen:
            seen.append(True)
            return evaluate(*operands)
        if writes:
            outs = tuple([operands[p] for p in writes])
        else:
            outs = tuple([fresh(spec) for spec in specs])
        loop(operands, outs)
        return outs[0] if len(outs) == 1 else outs

    return run


def _cast_of(spec: Any, name: str, call: MapCall, compute: DType) -> Any:
    """None where an operand is used as it is, else the NumPy dtype it is cast to."""
    if not isinstance(spec, Spec):
        return compute.numpy  # a Python number
    if name in call.keeps:
        return np.dtype(np.float32) if spec.dtype in HALF and compute is not spec.dtype else None
    return None if spec.dtype is compute else compute.numpy


def _is_direct(call: MapCall, casts: list[Any], compute: DType, ufunc: Any) -> bool:
    """Whether the ufunc of the operands is, without any more work, the fresh contiguous result."""
    out = call.out_specs[0]
    plain = all(
        isinstance(s, Spec) and c is None for s, c in zip(call.in_specs, casts, strict=True)
    )
    full = any(isinstance(s, Spec) and s.shape == out.shape for s in call.in_specs)
    packed = all(isinstance(s, Spec) and s.contiguous for s in call.in_specs)
    if not (plain and full and packed and out.ndim and len(casts) <= 2 and out.numel):
        return False
    try:
        produced = ufunc.resolve_dtypes((*(compute.numpy for _ in casts), None))[-1]
    except TypeError:
        return False
    return bool(produced == out.dtype.numpy) and out.contiguous


def _unary(ufunc: Any, out: Spec) -> Runner:
    device = out.device

    def run(a: Array) -> Array:
        token = enter()
        try:
            nd = ufunc(a.nd if a.nd is not None else a.host())
        finally:
            leave(token)
        return Array(Storage(nd, device), out, 0, nd)

    return run


def _binary(ufunc: Any, out: Spec) -> Runner:
    device = out.device

    def run(a: Array, b: Array) -> Array:
        x, y = a.nd, b.nd
        token = enter()
        try:
            nd = ufunc(a.host() if x is None else x, b.host() if y is None else y)
        finally:
            leave(token)
        return Array(Storage(nd, device), out, 0, nd)

    return run


def _gather(operands: tuple[Any, ...], casts: list[Any]) -> list[Any]:
    values = []
    for operand, cast in zip(operands, casts, strict=True):
        if isinstance(operand, Array):
            nd = operand.host()
            values.append(nd if cast is None else nd.astype(cast))
        else:
            plain = int(operand) if operand is True or operand is False else operand
            values.append(constant(plain if cast.kind != "b" else operand, cast))
    return values


def fresh(spec: Spec) -> Array:
    """An uninitialised array of a dense spec, in host memory."""
    if spec.contiguous:
        nd = np.empty(spec.shape, spec.dtype.numpy)
        return Array(Storage(nd, spec.device), spec, 0, nd)
    return Array(Storage(np.empty(spec.numel, spec.dtype.numpy), spec.device), spec)


def _store(value: Any, spec: Spec, inputs: list[Any]) -> Array:
    """A computed value as the array of `spec`: as it is if it is fresh and fits, else copied."""
    if (
        type(value) is np.ndarray
        and value.shape == spec.shape
        and value.dtype == spec.dtype.numpy
        and spec.contiguous
        and value.flags.c_contiguous
        and value.base is None
        and not any(value is i for i in inputs)
    ):
        return Array(Storage(value, spec.device), spec, 0, value)
    out = fresh(spec)
    np.copyto(out.host(), value, casting="unsafe")
    return out


def _general(function: Any, casts: list[Any], call: MapCall) -> Runner:
    specs = call.out_specs

    def run(*operands: Any) -> Any:
        token = enter()
        try:
            inputs = _gather(operands, casts)
            value = function(*inputs)
            if len(specs) == 1:
                return _store(value, specs[0], inputs)
            return tuple(_store(v, s, inputs) for v, s in zip(value, specs, strict=True))
        finally:
            leave(token)

    return run


def _writing(function: Any, casts: list[Any], call: MapCall) -> Runner:
    """Results go into the operands that `writes` names."""
    positions = call.writes
    direct = (
        isinstance(function, np.ufunc)
        and len(positions) == 1
        and call.in_specs[positions[0]].dtype is call.compute
        and all(
            c is None or not isinstance(s, Spec) for s, c in zip(call.in_specs, casts, strict=True)
        )
        and call.out_specs[0].dtype is not bool_
    )

    def run(*operands: Any) -> Any:
        token = enter()
        try:
            inputs = _gather(operands, casts)
            if direct:
                function(*inputs, out=operands[positions[0]].host())
            else:
                value = function(*inputs)
                values = (value,) if len(positions) == 1 else value
                for position, result in zip(positions, values, strict=True):
                    np.copyto(operands[position].host(), result, casting="unsafe")
        finally:
            leave(token)
        return (
            operands[positions[0]] if len(positions) == 1 else tuple(operands[p] for p in positions)
        )

    return run


def _prepare_reduce(call: ReduceCall) -> Runner:
    ufunc, out = numpy_function(call.combine), call.out_specs[0]
    accumulate = arithmetic_type(call.accumulate)
    same = call.in_specs[0].dtype is accumulate
    axes, keepdim, target = call.axes, call.keepdim, accumulate.numpy
    initial = {} if call.zero is None else {"initial": constant(call.zero, target)}
    dtype = {} if ufunc in (np.logical_and, np.logical_or) else {"dtype": target}
    if ufunc is np.add and wants_blocks(call.in_specs[0].shape, axes, target):
        return _by_parts(blocked_sum, call, None if same else target)
    if ufunc is np.multiply and wants_halves(call.in_specs[0].shape, axes, target):
        return _by_parts(lambda x, _: halved_product(x), call, None if same else target)
    if dtype and same and call.in_specs[0].contiguous and out.dtype is accumulate:
        return _reduce_into(ufunc, call, target, tuple(initial.values()))

    def run(a: Array) -> Array:
        token = enter()
        try:
            nd = a.host()
            value = ufunc.reduce(
                nd if same else nd.astype(target), axes, keepdims=keepdim, **dtype, **initial
            )
            return _store(np.asarray(value), out, [nd])
        finally:
            leave(token)

    return run


def _reduce_into(ufunc: Any, call: ReduceCall, target: Any, initial: tuple[Any, ...]) -> Runner:
    """A reduction of row-major elements straight into its result."""
    out, axes, keepdim, reduce = call.out_specs[0], call.axes, call.keepdim, ufunc.reduce
    shape, device = out.shape, out.device

    def run(a: Array) -> Array:
        nd, made = a.host(), np.empty(shape, target)
        token = enter()
        try:
            reduce(nd, axes, target, made, keepdim, *initial)
        finally:
            leave(token)
        return Array(Storage(made, device), out, 0, made)

    return run


def _by_parts(total: Callable[..., Any], call: ReduceCall, cast: Any) -> Runner:
    out, axes = call.out_specs[0], call.axes

    def run(a: Array) -> Array:
        token = enter()
        try:
            nd = a.host()
            value = total(nd if cast is None else nd.astype(cast), axes)
            return _store(value.reshape(out.shape), out, [nd])
        finally:
            leave(token)

    return run


def _prepare_library(call: LibraryCall) -> Runner:
    function = library_function(call.kernel)
    specs, upcast = call.out_specs, call.upcast
    turned = call.kernel not in IN_ANY_ORDER and any(not s.contiguous for s in specs)
    device = next(s.device for s in _specs_in(call.in_specs))
    as_they_are = [isinstance(s, Spec) and not (upcast and s.dtype in HALF) for s in call.in_specs]

    def run(*operands: Any) -> Any:
        token = enter()
        try:
            given = [
                (o.host() if o.nd is None else o.nd) if plain else _as_nd(o, upcast)
                for o, plain in zip(operands, as_they_are)
            ]
            if turned:  # channels lie last, and the kernels are quickest in row-major order
                given = [row_major(g) if type(g) is np.ndarray else g for g in given]
            value = function(*given)
        finally:
            leave(token)
        if isinstance(value, (tuple, list)):
            if not specs:
                return tuple([_dynamic(v, device) for v in value])
            return tuple([_kept(v, s) for v, s in zip(value, specs, strict=True)])
        return _kept(value, specs[0]) if specs else _dynamic(value, device)

    return run


# Kernels whose results lie as their operands do.
IN_ANY_ORDER = {"batch_norm", "batch_norm_backward", "batch_norm_given"}


def _kept(value: Any, spec: Spec) -> Array:
    """What a library kernel returned as the array of `spec`."""
    if (
        type(value) is np.ndarray
        and value.base is None
        and value.dtype is spec.dtype.numpy
        and value.shape == spec.shape
        and value.flags.c_contiguous
        and spec.contiguous
    ):
        return Array(Storage(value, spec.device), spec, 0, value)
    if spec.contiguous or type(value) is not np.ndarray:
        return _store(np.asarray(value), spec, [])
    base = value.base
    is_as_asked = (
        type(base) is np.ndarray
        and base.base is None
        and base.flags.c_contiguous
        and base.nbytes == value.nbytes
        and value.dtype is spec.dtype.numpy
        and value.strides == spec.numpy_strides
    )
    if is_as_asked:
        return Array(Storage(value.base, spec.device), spec)
    out = fresh(spec)
    copied(value, out.host())
    return out


def _specs_in(tree: Any) -> list[Spec]:
    if isinstance(tree, Spec):
        return [tree]
    return [s for item in tree for s in _specs_in(item)] if isinstance(tree, (tuple, list)) else []


def _as_nd(operand: Any, upcast: bool) -> Any:
    if isinstance(operand, Array):
        nd = operand.host()
        return nd.astype(np.float32) if upcast and operand.spec.dtype in HALF else nd
    if isinstance(operand, (tuple, list)) and any(isinstance(o, Array) for o in operand):
        return type(operand)(_as_nd(o, upcast) for o in operand)
    return operand


def _dynamic(value: Any, device: Any) -> Array:
    """A result whose shape only the data tells."""
    from_numpy = DType.by_name[value.dtype.name]
    nd = np.ascontiguousarray(value).reshape(value.shape)
    return Array(Storage(nd, device), contiguous_spec(nd.shape, from_numpy, device), 0, nd)
