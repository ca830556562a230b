"""The two steps of random numbers that NumPy is slow at, compiled with LLVM.

`normal_blocks` is the transform of box_muller.py with the same roundings, so both give the same
bits; `shuffle` is the sequence of swaps of the Fisher-Yates shuffle. LLVM is loaded by the first
large draw.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ember.backends.cpu import box_muller
from ember.backends.cpu.box_muller import BLOCK, Vector
from ember.backends.cpu.forks import compiling

LARGE = 1 << 21  # numbers in all for which loading the compiler pays, if it is not loaded yet
CALL = 1 << 11  # numbers that the overhead of a call without it is worth
SMALL = 1 << 4  # below this a call of compiled code gains nothing

_kernels: dict[str, Callable[..., None]] = {}
_done_without = [0]  # numbers so far that were made without them
_engines: list[Any] = []  # keeps the compiled code alive


def normal_blocks(words: Vector) -> Vector:
    """Float32 normals of whole blocks of 16 random uint32 words, as in box_muller.py."""
    kernel = _kernel("normal_blocks", words.size)
    if kernel is None:
        return box_muller.normal_blocks(words)
    words = np.ascontiguousarray(words)
    out = np.empty(words.size, np.float32)
    kernel(words.ctypes.data, out.ctypes.data, words.size // BLOCK)
    return out


def shuffle(values: Vector, partners: Vector) -> None:
    """Swap values[i] and values[partners[i]] for i = 0, 1, ...; both int64, contiguous."""
    kernel = _kernel("shuffle", len(values))
    if kernel is not None:
        kernel(values.ctypes.data, partners.ctypes.data, len(partners))
        return
    items = values.tolist()
    for i, j in enumerate(partners.tolist()):
        items[i], items[j] = items[j], items[i]
    values[:] = items


def _kernel(name: str, count: int) -> Callable[..., None] | None:
    """The compiled kernel if it is worth having for `count` numbers."""
    if count < SMALL:
        return None
    if not _kernels:
        _done_without[0] += count + CALL
        if _done_without[0] < LARGE and "llvmlite.binding" not in sys.modules:
            return None
        with compiling:
            _compile()
    return _kernels[name]


def _compile() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        jit=True,
    )
    module = llvm.parse_assembly(_normal_blocks_text() + _SHUFFLE_TEXT)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _engines.append(engine)
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    for name in ("normal_blocks", "shuffle"):
        _kernels[name] = signature(engine.get_function_address(name))


_SHUFFLE_TEXT = """
define void @shuffle(ptr noalias %values, ptr noalias %partners, i64 %count) {
entry:
  %empty = icmp sle i64 %count, 0
  br i1 %empty, label %done, label %swap
swap:
  %i = phi i64 [ 0, %entry ], [ %next, %swap ]
  %j.at = getelementptr i64, ptr %partners, i64 %i
  %j = load i64, ptr %j.at
  %first.at = getelementptr i64, ptr %values, i64 %i
  %second.at = getelementptr i64, ptr %values, i64 %j
  %first = load i64, ptr %first.at
  %second = load i64, ptr %second.at
  store i64 %second, ptr %first.at
  store i64 %first, ptr %second.at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %swap, label %done
done:
  ret void
}
"""

_LOOP_TEXT = """
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare <8 x float> @llvm.sqrt.v8f32(<8 x float>)
define void @normal_blocks(ptr noalias %words, ptr noalias %out, i64 %count) {{
entry:
  %empty = icmp sle i64 %count, 0
  br i1 %empty, label %done, label %block
block:
  %i = phi i64 [ 0, %entry ], [ %next, %block ]
  %start = mul i64 %i, 16
  %middle = add i64 %start, 8
  %u.at = getelementptr i32, ptr %words, i64 %start
  %v.at = getelementptr i32, ptr %words, i64 %middle
  %u.bits = load <8 x i32>, ptr %u.at, align 4
  %v.bits = load <8 x i32>, ptr %v.at, align 4
{body}
  %cosine.at = getelementptr float, ptr %out, i64 %start
  %sine.at = getelementptr float, ptr %out, i64 %middle
  store <8 x float> {cosine}, ptr %cosine.at, align 4
  store <8 x float> {sine}, ptr %sine.at, align 4
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %block, label %done
done:
  ret void
}}
"""


def _normal_blocks_text() -> str:
    lanes = _Lanes()
    radius = _radius(lanes, lanes.f("fsub", lanes.number(1), _uniform(lanes, "%u.bits")))
    angle = lanes.f("fmul", _uniform(lanes, "%v.bits"), lanes.number(2 * math.pi))
    cosine, sine = _cosine_and_sine(lanes, angle)
    parts = {
        "cosine": lanes.f("fmul", cosine, radius),
        "sine": lanes.f("fmul", sine, radius),
    }
    return _LOOP_TEXT.format(body="\n".join(lanes.lines), **parts)


class _Lanes:
    """Writes LLVM IR over vectors of 8 lanes; each method returns the name of a value."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def emit(self, text: str) -> str:
        """An instruction."""
        name = f"%t{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def number(self, value: float | np.float32) -> str:
        """A float32 in every lane (LLVM writes it as the bits of the equal float64)."""
        bits = int(np.float64(np.float32(value)).view(np.uint64))
        return "<" + ", ".join([f"float 0x{bits:016X}"] * 8) + ">"

    def integer(self, value: int) -> str:
        """An int32 in every lane."""
        return "<" + ", ".join([f"i32 {value}"] * 8) + ">"

    def f(self, op: str, a: str, b: str) -> str:
        """A float32 operation, rounded."""
        return self.emit(f"{op} <8 x float> {a}, {b}")

    def i(self, op: str, a: str, b: int | str) -> str:
        """An int32 operation."""
        return self.emit(f"{op} <8 x i32> {a}, {b if isinstance(b, str) else self.integer(b)}")

    def fma(self, a: str, b: str, c: str) -> str:
        """a·b + c, rounded once."""
        v = "<8 x float>"
        return self.emit(f"call {v} @llvm.fma.v8f32({v} {a}, {v} {b}, {v} {c})")

    def cast(self, op: str, a: str, source: str = "i32", target: str = "float") -> str:
        """A conversion or reinterpretation of lanes."""
        return self.emit(f"{op} <8 x {source}> {a} to <8 x {target}>")

    def polynomial(self, x: str, coefficients: tuple[float, ...]) -> str:
        """Horner's rule with fused steps."""
        y = self.number(coefficients[0])
        for c in coefficients[1:]:
            y = self.fma(y, x, self.number(c))
        return y


def _uniform(lanes: _Lanes, bits: str) -> str:
    return lanes.f(
        "fmul", lanes.cast("sitofp", lanes.i("and", bits, 0xFFFFFF)), lanes.number(2.0**-24)
    )


def _radius(lanes: _Lanes, u: str) -> str:
    """box_muller._radius, instruction by instruction."""
    bits = lanes.cast("bitcast", u, "float", "i32")
    exponent = lanes.i("ashr", lanes.i("sub", bits, box_muller.SQRT_HALF_BITS), 23)
    mantissa = lanes.cast("bitcast", lanes.i("sub", bits, lanes.i("shl", exponent, 23)))
    x = lanes.f("fsub", mantissa, lanes.number(1))
    power = lanes.cast("sitofp", exponent)
    y = lanes.f("fmul", lanes.polynomial(x, box_muller.LOG), x)
    square = lanes.f("fmul", x, x)
    y = lanes.fma(y, square, lanes.f("fmul", power, lanes.number(box_muller.LN2_LOW)))
    y = lanes.f("fsub", y, lanes.f("fmul", square, lanes.number(0.5)))
    x = lanes.f("fadd", x, y)
    x = lanes.f("fadd", x, lanes.f("fmul", power, lanes.number(box_muller.LN2_HIGH)))
    x = lanes.f("fmul", x, lanes.number(-2))
    return lanes.emit(f"call <8 x float> @llvm.sqrt.v8f32(<8 x float> {x})")


def _cosine_and_sine(lanes: _Lanes, angle: str) -> tuple[str, str]:
    """box_muller._cosine_and_sine, instruction by instruction."""
    scaled = lanes.f("fmul", angle, lanes.number(4 / math.pi))
    octant = lanes.i("and", lanes.i("add", lanes.cast("fptosi", scaled, "float", "i32"), 1), -2)
    turns = lanes.cast("sitofp", octant)
    x = angle
    for part in box_muller.QUARTER_PI:
        x = lanes.f("fsub", x, lanes.f("fmul", turns, lanes.number(part)))
    square = lanes.f("fmul", x, x)
    cosine = lanes.f("fmul", lanes.polynomial(square, box_muller.COSINE), square)
    cosine = lanes.fma(cosine, square, lanes.f("fmul", square, lanes.number(-0.5)))
    cosine = lanes.f("fadd", cosine, lanes.number(1))
    sine = lanes.f("fmul", lanes.polynomial(square, box_muller.SINE), square)
    sine = lanes.fma(sine, x, x)
    swapped = lanes.emit(f"icmp ne <8 x i32> {lanes.i('and', octant, 2)}, zeroinitializer")
    results = []
    for a, b, sign in ((sine, cosine, lanes.i("add", octant, 2)), (cosine, sine, octant)):
        chosen = lanes.emit(f"select <8 x i1> {swapped}, <8 x float> {a}, <8 x float> {b}")
        flip = lanes.i("shl", lanes.i("and", sign, 4), 29)
        turned = lanes.i("xor", lanes.cast("bitcast", chosen, "float", "i32"), flip)
        results.append(lanes.cast("bitcast", turned))
    return results[0], results[1]
