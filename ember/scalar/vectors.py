"""`Vectors`: LLVM assembly for values that are vectors of one real type, a line an operation.

Nothing is contracted or reassociated but where `fma` is asked for, so what is written is what runs.
"""

from __future__ import annotations

import struct
from typing import Any

ORDERED = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}


class Vectors:
    """The text of a function's body, for vectors of `lanes` elements of `scalar` ("float" or
    "double"). Every method that makes a value returns its name in the text."""

    def __init__(self, scalar: str, lanes: int):
        self.scalar, self.lanes = scalar, lanes
        self.bits = 32 if scalar == "float" else 64
        self.real = f"<{lanes} x {scalar}>"
        self.truth = f"<{lanes} x i1>"
        self.whole = f"<{lanes} x i{self.bits}>"
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self._count = 0

    # writing

    def new(self, text: str) -> str:
        """The value of an instruction."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """An instruction without a value."""
        self.lines.append(f"  {text}")

    def label(self, kind: str) -> str:
        """A name for a block, not used before."""
        self._count += 1
        return f"{kind}{self._count}"

    def begin(self, label: str) -> None:
        """Start a block."""
        self.lines.append(f"{label}:")

    def go(self, label: str) -> None:
        """End a block by going to another."""
        self.do(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End a block by a choice."""
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")

    def intrinsic(self, name: str, *arguments: str, kind: str = "", result: str = "") -> str:
        """A call of an LLVM intrinsic whose arguments have one type, the real one by default."""
        kind = kind or self.real
        suffix = f"v{self.lanes}{'f' if kind == self.real else 'i'}{self.bits}"
        full = f"llvm.{name}.{suffix}"
        self.declarations.add(
            f"declare {result or kind} @{full}({', '.join([kind] * len(arguments))})"
        )
        given = ", ".join(f"{kind} {a}" for a in arguments)
        return self.new(f"call {result or kind} @{full}({given})")

    # constants

    def number(self, value: float) -> str:
        """A number in all lanes, rounded to the type."""
        return f"<{', '.join([f'{self.scalar} {self.literal(value)}'] * self.lanes)}>"

    def literal(self, value: float) -> str:
        """A number as LLVM writes it."""
        number = float(value)
        if self.scalar == "float":
            number = struct.unpack("f", struct.pack("f", number))[0]
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"

    def integer(self, value: int) -> str:
        """An integer of the real type's width in all lanes."""
        return f"<{', '.join([f'i{self.bits} {value}'] * self.lanes)}>"

    def boolean(self, value: bool) -> str:
        """A truth value in all lanes."""
        return f"<{', '.join([f'i1 {str(value).lower()}'] * self.lanes)}>"

    def splat(self, scalar: str, kind: str = "") -> str:
        """A scalar value in all lanes."""
        element = kind or self.scalar
        vector = f"<{self.lanes} x {element}>"
        first = self.new(f"insertelement {vector} poison, {element} {scalar}, i64 0")
        mask = f"<{self.lanes} x i32> zeroinitializer"
        return self.new(f"shufflevector {vector} {first}, {vector} poison, {mask}")

    # arithmetic

    def add(self, a: str, b: str) -> str:
        """a + b"""
        return self.new(f"fadd {self.real} {a}, {b}")

    def sub(self, a: str, b: str) -> str:
        """a - b"""
        return self.new(f"fsub {self.real} {a}, {b}")

    def mul(self, a: str, b: str) -> str:
        """a b"""
        return self.new(f"fmul {self.real} {a}, {b}")

    def div(self, a: str, b: str) -> str:
        """a / b"""
        return self.new(f"fdiv {self.real} {a}, {b}")

    def neg(self, a: str) -> str:
        """-a"""
        return self.new(f"fneg {self.real} {a}")

    def fma(self, a: str, b: str, c: str) -> str:
        """a b + c, rounded once"""
        return self.intrinsic("fma", a, b, c)

    def polynomial(self, x: str, coefficients: tuple[float, ...]) -> str:
        """The polynomial of x with these coefficients, the constant first, by Horner's rule."""
        value = self.number(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            value = self.fma(value, x, self.number(c))
        return value

    def compare(self, how: str, a: str, b: str) -> str:
        """The truth of a comparison; false where one is NaN, but for "ne"."""
        return self.new(f"fcmp {ORDERED[how]} {self.real} {a}, {b}")

    def unordered(self, a: str, b: str) -> str:
        """Whether one of the two is NaN."""
        return self.new(f"fcmp uno {self.real} {a}, {b}")

    def select(self, condition: str, yes: str, no: str, kind: str = "") -> str:
        """`yes` where the condition holds, else `no`."""
        kind = kind or self.real
        return self.new(f"select {self.truth} {condition}, {kind} {yes}, {kind} {no}")

    def logic(self, how: str, a: str, b: str) -> str:
        """and, or, xor of truth values."""
        return self.new(f"{how} {self.truth} {a}, {b}")

    def extremum(self, how: str, a: str, b: str) -> str:
        """The greater ("oge") or smaller ("ole") of two; NaN if one of them is."""
        better = self.new(f"fcmp {how} {self.real} {a}, {b}")
        return self.select(self.logic("or", better, self.unordered(a, a)), a, b)

    def at_most(self, x: str, bound: float) -> str:
        """The smaller of x and a number; NaN stays."""
        limit = self.number(bound)
        return self.select(self.compare("gt", x, limit), limit, x)

    def at_least(self, x: str, bound: float) -> str:
        """The greater of x and a number; NaN stays."""
        limit = self.number(bound)
        return self.select(self.compare("lt", x, limit), limit, x)

    # bits

    def as_bits(self, x: str) -> str:
        """The bits of reals."""
        return self.new(f"bitcast {self.real} {x} to {self.whole}")

    def from_bits(self, n: str) -> str:
        """The reals with these bits."""
        return self.new(f"bitcast {self.whole} {n} to {self.real}")

    def to_integer(self, x: str) -> str:
        """Reals that are whole numbers, as integers."""
        return self.new(f"fptosi {self.real} {x} to {self.whole}")

    def to_real(self, n: str) -> str:
        """Integers as reals."""
        return self.new(f"sitofp {self.whole} {n} to {self.real}")

    def on_bits(self, how: str, a: str, b: str) -> str:
        """An integer operation: add, sub, and, or, xor, shl, lshr, ashr."""
        return self.new(f"{how} {self.whole} {a}, {b}")

    # lanes

    def across(self, combine: Any, value: str) -> str:
        """All lanes of a value combined by `combine(a, b)`: in every lane, halves first."""
        width = self.lanes // 2
        while width:
            order = ", ".join(f"i32 {(lane + width) % self.lanes}" for lane in range(self.lanes))
            turned = self.new(
                f"shufflevector {self.real} {value}, {self.real} poison, "
                f"<{self.lanes} x i32> <{order}>"
            )
            value = combine(value, turned)
            width //= 2
        return value
