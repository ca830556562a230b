"""A formula as LLVM assembly: one loop over contiguous arrays, in explicit vectors with a scalar
remainder.

The roundings are those of the evaluation with NumPy: the same operations in the same order, none
contracted. Formulas with functions that are not single instructions (exp, sin ...) are not emitted;
`supported` says which are.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from ember.scalar.expr import Expr, topological

ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
ORDERED = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}
INTRINSICS = {
    "abs": "fabs",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "rint",
}
CHOICES = {"maximum": "oge", "minimum": "ole"}
TESTS = {"isnan": "uno"}
BOOLEAN = {*ORDERED, *LOGICAL, "logical_not", *TESTS}
KNOWN = {
    *ARITHMETIC,
    *INTRINSICS,
    *CHOICES,
    *BOOLEAN,
    "neg",
    "rsqrt",
    "reciprocal",
    "where",
    "stop",
    "var",
    "const",
}


class Operand(NamedTuple):
    """A variable of the loop: "array" of the computed type, "bool" array, or "number"."""

    name: str
    kind: str


def is_boolean(node: Expr, kinds: dict[str, str]) -> bool:
    """Whether a node's value is a truth value."""
    if node.op == "var":
        return kinds[node.value] == "bool"
    if node.op == "const":
        return isinstance(node.value, bool)
    if node.op == "where":
        return all(is_boolean(a, kinds) for a in node.args[1:])
    return node.op in BOOLEAN


def supported(roots: tuple[Expr, ...], operands: list[Operand]) -> bool:
    """Whether every part of the formulas can be emitted, with truth values only where they are
    wanted."""
    kinds = {o.name: o.kind for o in operands}
    for node in topological(roots):
        if node.op not in KNOWN or isinstance(node.value, complex):
            return False
        truths = [is_boolean(a, kinds) for a in node.args]
        if node.op == "where":
            if not truths[0] or truths[1] or truths[2]:
                return False
        elif node.op in LOGICAL or node.op == "logical_not":
            if not all(truths):
                return False
        elif any(truths):
            return False
    return True


def count_operations(roots: tuple[Expr, ...]) -> int:
    """How many operations a formula has."""
    return sum(node.op not in ("var", "const", "stop") for node in topological(roots))


class _Body:
    """The text of one iteration, `lanes` elements wide."""

    def __init__(self, operands: list[Operand], scalar: str, lanes: int, index: str, tag: str):
        self.kinds = {o.name: o.kind for o in operands}
        self.scalar, self.lanes, self.index, self.tag = scalar, lanes, index, tag
        self.lines: list[str] = []
        self.count = 0

    def wide(self, kind: str) -> str:
        """The LLVM type of a value."""
        return kind if self.lanes == 1 else f"<{self.lanes} x {kind}>"

    def new(self, text: str) -> str:
        """A new value."""
        self.count += 1
        name = f"%{self.tag}{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def load(self, name: str) -> str:
        """A variable's value."""
        kind = self.kinds[name]
        if kind == "number":
            return self._splat(f"%n.{name}")
        element, align = ("i8", 1) if kind == "bool" else (self.scalar, 4)
        place = self.new(f"getelementptr {element}, ptr %p.{name}, i64 {self.index}")
        value = self.new(f"load {self.wide(element)}, ptr {place}, align {align}")
        if kind != "bool":
            return value
        return (
            self.new(f"icmp ne {self.wide('i8')} {value}, zeroinitializer")
            if self.lanes > 1
            else self.new(f"icmp ne i8 {value}, 0")
        )

    def _splat(self, scalar: str) -> str:
        if self.lanes == 1:
            return scalar
        vector = self.wide(self.scalar)
        first = self.new(f"insertelement {vector} poison, {self.scalar} {scalar}, i64 0")
        mask = f"<{self.lanes} x i32> zeroinitializer"
        return self.new(f"shufflevector {vector} {first}, {vector} poison, {mask}")

    def constant(self, value: Any) -> str:
        """A number, rounded to the computed type."""
        if isinstance(value, bool):
            text = "true" if value else "false"
            return text if self.lanes == 1 else f"<{', '.join([f'i1 {text}'] * self.lanes)}>"
        number = float(value)
        if self.scalar == "float":
            number = struct.unpack("f", struct.pack("f", number))[0]
        text = f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
        if self.lanes == 1:
            return text
        return f"<{', '.join([f'{self.scalar} {text}'] * self.lanes)}>"

    def node(self, node: Expr, a: list[str]) -> str:
        """The value of an operation on values."""
        op, real = node.op, self.wide(self.scalar)
        if op == "var":
            return self.load(node.value)
        if op == "const":
            return self.constant(node.value)
        if op == "stop":
            return a[0]
        if op in ARITHMETIC:
            return self.new(f"{ARITHMETIC[op]} {real} {a[0]}, {a[1]}")
        if op in ORDERED or op in TESTS:
            test = ORDERED.get(op) or TESTS[op]
            return self.new(f"fcmp {test} {real} {a[0]}, {a[-1]}")
        if op in LOGICAL:
            return self.new(f"{LOGICAL[op]} {self.wide('i1')} {a[0]}, {a[1]}")
        if op == "logical_not":
            return self.new(f"xor {self.wide('i1')} {a[0]}, {self.constant(True)}")
        if op == "neg":
            return self.new(f"fneg {real} {a[0]}")
        if (
            op in CHOICES
        ):  # NaN wins: an unordered first operand is kept, an unordered second one is taken
            better = self.new(f"fcmp {CHOICES[op]} {real} {a[0]}, {a[1]}")
            missing = self.new(f"fcmp uno {real} {a[0]}, {a[0]}")
            first = self.new(f"or {self.wide('i1')} {better}, {missing}")
            return self._select(first, a[0], a[1])
        if op == "where":
            return self._select(a[0], a[1], a[2])
        if op in ("rsqrt", "reciprocal"):
            below = self._intrinsic("sqrt", a[0]) if op == "rsqrt" else a[0]
            return self.new(f"fdiv {real} {self.constant(1.0)}, {below}")
        return self._intrinsic(INTRINSICS[op], a[0])

    def _select(self, condition: str, yes: str, no: str) -> str:
        real = self.wide(self.scalar)
        return self.new(f"select {self.wide('i1')} {condition}, {real} {yes}, {real} {no}")

    def _intrinsic(self, name: str, value: str) -> str:
        real = self.wide(self.scalar)
        return self.new(f"call {real} @{intrinsic(name, self.scalar, self.lanes)}({real} {value})")

    def store(self, position: int, value: str, truth: bool) -> None:
        """Write a result."""
        element, align = ("i8", 1) if truth else (self.scalar, 4)
        if truth:
            value = self.new(f"zext {self.wide('i1')} {value} to {self.wide('i8')}")
        place = self.new(f"getelementptr {element}, ptr %out{position}, i64 {self.index}")
        self.lines.append(f"  store {self.wide(element)} {value}, ptr {place}, align {align}")


def intrinsic(name: str, scalar: str, lanes: int) -> str:
    """The LLVM name of an intrinsic for a type."""
    bits = "f32" if scalar == "float" else "f64"
    return f"llvm.{name}.{bits}" if lanes == 1 else f"llvm.{name}.v{lanes}{bits}"


def loop_text(roots: tuple[Expr, ...], operands: list[Operand], scalar: str, lanes: int) -> str:
    """A module with `kernel(count, operands..., outs...)`: the values of `roots` for each
    element."""
    kinds = {o.name: o.kind for o in operands}
    arguments = ["i64 %count"]
    arguments += [
        f"{scalar} %n.{o.name}" if o.kind == "number" else f"ptr %p.{o.name}" for o in operands
    ]
    arguments += [f"ptr %out{i}" for i in range(len(roots))]
    vector = _iteration(roots, operands, scalar, lanes, "%i", "v", kinds)
    single = _iteration(roots, operands, scalar, 1, "%j", "s", kinds)
    used = sorted(
        {INTRINSICS[n.op] for n in topological(roots) if n.op in INTRINSICS} | _hidden(roots)
    )
    declared = ""
    for name in used:
        for width in (lanes, 1):
            kind = scalar if width == 1 else f"<{width} x {scalar}>"
            declared += f"declare {kind} @{intrinsic(name, scalar, width)}({kind})\n"
    return f"""{declared}
define void @kernel({", ".join(arguments)}) {{
entry:
  %whole = and i64 %count, {-lanes}
  %any = icmp sgt i64 %whole, 0
  br i1 %any, label %wide, label %rest
wide:
  %i = phi i64 [ 0, %entry ], [ %i.next, %wide ]
{vector}
  %i.next = add i64 %i, {lanes}
  %i.more = icmp slt i64 %i.next, %whole
  br i1 %i.more, label %wide, label %rest
rest:
  %left = icmp slt i64 %whole, %count
  br i1 %left, label %one, label %done
one:
  %j = phi i64 [ %whole, %rest ], [ %j.next, %one ]
{single}
  %j.next = add i64 %j, 1
  %j.more = icmp slt i64 %j.next, %count
  br i1 %j.more, label %one, label %done
done:
  ret void
}}
"""


def _hidden(roots: tuple[Expr, ...]) -> set[str]:
    return {"sqrt"} if any(n.op == "rsqrt" for n in topological(roots)) else set()


def _iteration(
    roots: tuple[Expr, ...],
    operands: list[Operand],
    scalar: str,
    lanes: int,
    index: str,
    tag: str,
    kinds: dict[str, str],
) -> str:
    body = _Body(operands, scalar, lanes, index, tag)
    values: dict[Expr, str] = {}
    for node in topological(roots):
        values[node] = body.node(node, [values[a] for a in node.args])
    for position, root in enumerate(roots):
        body.store(position, values[root], is_boolean(root, kinds))
    return "\n".join(body.lines)
