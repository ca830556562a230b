"""Formulas compiled with LLVM, for large contiguous arrays: one pass over memory instead of one for
each operation.

A kernel is compiled when a call comes for the second time, and kept by its text. What cannot be
compiled (other dtypes, functions that are no instructions, broadcast or strided operands) is
evaluated with NumPy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ember.dtypes import bool_, float32, float64
from ember.kernel.array import Array, Spec
from ember.kernel.call import MapCall
from ember.scalar.llvm_text import Operand, count_operations, loop_text, supported

LARGE = 1 << 14  # elements from which a compiled loop beats NumPy's passes
SCALARS = {float32: "float", float64: "double"}
NUMBERS = {float32: ctypes.c_float, float64: ctypes.c_double}
BYTES = 64  # of a vector; the code generator splits it where the host's are narrower

_kernels: dict[str, Any] = {}
_engines: list[Any] = []  # keep the compiled code alive


def plan(call: MapCall) -> Callable[..., None] | None:
    """A function of (operands, outs) that runs a call compiled, or None where it has to be
    evaluated."""
    if not _eligible(call):
        return None
    operands = [
        Operand(name, _kind(spec)) for name, spec in zip(call.names, call.in_specs, strict=True)
    ]
    if not supported(call.roots, operands):
        return None
    scalar, lanes = SCALARS[call.compute], BYTES // call.compute.itemsize
    count = call.out_specs[0].numel
    found: list[Any] = []

    def run(values: tuple[Any, ...], outs: tuple[Array, ...]) -> None:
        if not found:
            types = [
                NUMBERS[call.compute] if o.kind == "number" else ctypes.c_void_p for o in operands
            ]
            types += [ctypes.c_void_p] * len(outs)
            found.append(_kernel(loop_text(call.roots, operands, scalar, lanes), types))
        given = [v.host().ctypes.data if isinstance(v, Array) else v for v in values]
        found[0](count, *given, *(out.host().ctypes.data for out in outs))

    return run


def _eligible(call: MapCall) -> bool:
    out = call.out_specs[0]
    if (
        call.compute not in SCALARS
        or call.axes
        or out.numel < LARGE
        or count_operations(call.roots) < 2
    ):
        return False
    for spec in call.out_specs:
        if (
            spec.dtype not in (call.compute, bool_)
            or not spec.contiguous
            or spec.shape != out.shape
        ):
            return False
    for spec, name in zip(call.in_specs, call.names, strict=True):
        if isinstance(spec, Spec):
            fits = spec.dtype is call.compute or (spec.dtype is bool_ and name in call.keeps)
            if not (fits and spec.contiguous and spec.shape == out.shape):
                return False
        elif spec is complex:
            return False
    return True


def _kind(spec: Any) -> str:
    if not isinstance(spec, Spec):
        return "number"
    return "bool" if spec.dtype is bool_ else "array"


def _kernel(text: str, types: list[Any]) -> Any:
    """The compiled function of a module's text."""
    found = _kernels.get(text)
    if found is None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(),
            features=llvm.get_host_cpu_features().flatten(),
            opt=2,
            jit=True,
        )
        module = llvm.parse_assembly(text)
        module.verify()
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        _engines.append(engine)
        signature = ctypes.CFUNCTYPE(None, ctypes.c_int64, *types)
        found = _kernels[text] = signature(engine.get_function_address("kernel"))
    return found
