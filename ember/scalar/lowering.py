"""A formula's operations as vector instructions: float32 with the functions of
`approximations`, float64 only with what are single instructions."""

from __future__ import annotations

from ember.scalar.approximations import FUNCTIONS
from ember.scalar.expr import Expr, topological
from ember.scalar.primitives import ROW_REDUCTIONS
from ember.scalar.vectors import ORDERED, Vectors

ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}
INTRINSICS = {
    "abs": "fabs",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "rint",
    "copysign": "copysign",
}
CHOICES = {"maximum": "oge", "minimum": "ole"}
TESTS = {"isnan", "isinf", "isfinite", "signbit"}
BOOLEAN = {*ORDERED, *LOGICAL, "logical_not", *TESTS}
SIMPLE = {"neg", "rsqrt", "reciprocal", "where", "stop", "var", "const", "sign", "row_size"}
KNOWN = {*ARITHMETIC, *INTRINSICS, *CHOICES, *BOOLEAN, *SIMPLE, *ROW_REDUCTIONS}
COMBINES = {"row_sum": "add", "row_max": "oge", "row_min": "ole"}
POWERS = (0.5, 2, 3, 4, -0.5, -1, -2)  # exponents that are products and roots


def is_boolean(node: Expr, booleans: frozenset[str]) -> bool:
    """Whether a node's value is a truth value; `booleans` are the variables that are."""
    if node.op == "var":
        return node.value in booleans
    if node.op == "const":
        return isinstance(node.value, bool)
    if node.op == "where":
        return all(is_boolean(a, booleans) for a in node.args[1:])
    if node.op == "stop":
        return is_boolean(node.args[0], booleans)
    return node.op in BOOLEAN


def supported(roots: tuple[Expr, ...], booleans: frozenset[str], scalar: str) -> bool:
    """Whether every part of the formulas can be lowered, with truth values only where they are
    wanted."""
    known = KNOWN | set(FUNCTIONS) if scalar == "float" else KNOWN
    for node in topological(roots):
        if isinstance(node.value, complex):
            return False
        if node.op == "pow":
            if not (node.args[1].op == "const" and node.args[1].value in POWERS):
                return False
        elif node.op not in known:
            return False
        truths = [is_boolean(a, booleans) for a in node.args]
        if node.op == "where":
            if not truths[0] or truths[1] != truths[2]:
                return False
        elif node.op in LOGICAL or node.op == "logical_not":
            if not all(truths):
                return False
        elif any(truths) and node.op != "stop":
            return False
    return True


def is_costly(node: Expr) -> bool:
    """Whether a node takes many instructions, so that its value is worth keeping."""
    return node.op in FUNCTIONS or node.op in ("div", "sqrt", "rsqrt", "reciprocal", "pow")


def lower(b: Vectors, node: Expr, a: list[str]) -> str:
    """The value of an operation on values (of anything but variables and what spans a row)."""
    op = node.op
    if op == "const":
        number = node.value
        return b.boolean(number) if isinstance(number, bool) else b.number(number)
    if op == "stop":
        return a[0]
    if op in ARITHMETIC:
        return b.new(f"{ARITHMETIC[op]} {b.real} {a[0]}, {a[1]}")
    if op in ORDERED:
        return b.compare(op, a[0], a[1])
    if op in LOGICAL:
        return b.logic(LOGICAL[op], a[0], a[1])
    if op == "logical_not":
        return b.logic("xor", a[0], b.boolean(True))
    if op in CHOICES:
        return b.extremum(CHOICES[op], a[0], a[1])
    if op in INTRINSICS:
        return b.intrinsic(INTRINSICS[op], *a)
    if op in FUNCTIONS:
        return FUNCTIONS[op](b, a[0])
    return _rare(b, node, a)


def _rare(b: Vectors, node: Expr, a: list[str]) -> str:
    op = node.op
    if op == "neg":
        return b.neg(a[0])
    if op == "rsqrt":
        return b.div(b.number(1.0), b.intrinsic("sqrt", a[0]))
    if op == "reciprocal":
        return b.div(b.number(1.0), a[0])
    if op == "sign":
        zero = b.number(0.0)
        up = b.select(b.compare("gt", a[0], zero), b.number(1.0), zero)
        return b.select(b.compare("lt", a[0], zero), b.number(-1.0), up)
    if op == "pow":
        return _power(b, a[0], node.args[1].value)
    if op == "isnan":
        return b.unordered(a[0], a[0])
    if op == "signbit":
        return b.new(f"icmp slt {b.whole} {b.as_bits(a[0])}, zeroinitializer")
    infinity = b.number(float("inf"))
    size = b.intrinsic("fabs", a[0])
    return b.compare("eq" if op == "isinf" else "lt", size, infinity)


def select(b: Vectors, a: list[str], boolean: bool) -> str:
    """`where` of truth values or of reals."""
    return b.select(a[0], a[1], a[2], b.truth if boolean else b.real)


def _power(b: Vectors, x: str, exponent: float) -> str:
    whole, value = int(abs(exponent)), ""
    for _ in range(whole):
        value = b.mul(value, x) if value else x
    if abs(exponent) != whole:
        root = b.intrinsic("sqrt", x)
        value = b.mul(value, root) if value else root
    return b.div(b.number(1.0), value) if exponent < 0 else value


def combine(b: Vectors, reduction: str, total: str, value: str) -> str:
    """One step of a row's sum, maximum or minimum."""
    how = COMBINES[reduction]
    return b.add(total, value) if how == "add" else b.extremum(how, total, value)


def start(b: Vectors, reduction: str) -> str:
    """What a row's sum, maximum or minimum starts from."""
    infinity = float("inf")
    return b.number({"add": 0.0, "oge": -infinity, "ole": infinity}[COMBINES[reduction]])
