"""`Expr`: a formula as a graph. Equal expressions are the same object, so common parts are found by
identity."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

Number = bool | int | float | complex
_interned: weakref.WeakValueDictionary[Any, Expr] = weakref.WeakValueDictionary()


class Expr:
    """A node: a primitive's name with its arguments, or a variable or constant with its value.

    `op` is "var" (value: its name), "const" (value: a number), or the name of a primitive.
    """

    __slots__ = ("__weakref__", "args", "op", "value")
    op: str
    args: tuple[Expr, ...]
    value: Any

    def __add__(self, other: Any) -> Expr:
        return make("add", self, other)

    def __radd__(self, other: Any) -> Expr:
        return make("add", other, self)

    def __sub__(self, other: Any) -> Expr:
        return make("sub", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return make("sub", other, self)

    def __mul__(self, other: Any) -> Expr:
        return make("mul", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return make("mul", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return make("div", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return make("div", other, self)

    def __pow__(self, other: Any) -> Expr:
        return make("pow", self, other)

    def __neg__(self) -> Expr:
        return make("neg", self)

    def __abs__(self) -> Expr:
        return make("abs", self)

    def __lt__(self, other: Any) -> Expr:
        return make("lt", self, other)

    def __le__(self, other: Any) -> Expr:
        return make("le", self, other)

    def __gt__(self, other: Any) -> Expr:
        return make("gt", self, other)

    def __ge__(self, other: Any) -> Expr:
        return make("ge", self, other)

    def __and__(self, other: Any) -> Expr:
        return make("logical_and", self, other)

    def __or__(self, other: Any) -> Expr:
        return make("logical_or", self, other)

    def __invert__(self) -> Expr:
        return make("logical_not", self)

    def __bool__(self) -> bool:
        raise TypeError("a formula has no truth value: use where(condition, a, b), not `if`")

    def __repr__(self) -> str:
        if self.op in ("var", "const"):
            return str(self.value)
        return f"{self.op}({', '.join(map(repr, self.args))})"


def _intern(op: str, args: tuple[Expr, ...], value: Any) -> Expr:
    key = (op, tuple(map(id, args)), type(value), repr(value))
    found = _interned.get(key)
    if found is None:
        found = object.__new__(Expr)
        found.op, found.args, found.value = op, args, value
        _interned[key] = found
    return found


def var(name: str) -> Expr:
    """The variable of that name."""
    return _intern("var", (), name)


def const(value: Number) -> Expr:
    """A number."""
    return _intern("const", (), value)


def as_expr(value: Any) -> Expr:
    """An expression as it is, a number as a constant."""
    return value if isinstance(value, Expr) else const(value)


def make(op: str, *args: Any) -> Expr:
    """The primitive `op` of its arguments, after the few simplifications that never change a
    value."""
    return _simplified(op, tuple(as_expr(a) for a in args))


def _is(e: Expr, number: Number) -> bool:
    return e.op == "const" and e.value == number and not isinstance(e.value, bool)


def _simplified(op: str, args: tuple[Expr, ...]) -> Expr:
    if op == "mul":
        a, b = args
        if _is(a, 1):
            return b
        if _is(b, 1):
            return a
        if _is(a, -1):
            return make("neg", b)
    elif op == "div" and _is(args[1], 1) and args[0].op != "const":
        return args[0]
    elif op == "neg" and args[0].op == "neg":
        return args[0].args[0]
    elif op == "pow" and args[1].op == "const":
        if _is(args[1], 1):
            return args[0]
        if _is(args[1], 2):
            return make("mul", args[0], args[0])
    elif (
        op in ("real", "conj") and args[0].op == "const" and not isinstance(args[0].value, complex)
    ):
        return args[0]
    return _intern(op, args, None)


def topological(roots: Iterable[Expr]) -> list[Expr]:
    """Every node below the roots, arguments before their users."""
    order: list[Expr] = []
    seen: set[Expr] = set()
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(node.args))
    return order


def variables(*roots: Expr) -> list[str]:
    """The names of the variables that the roots read, in order of first use."""
    return [node.value for node in topological(roots) if node.op == "var"]


def substitute(root: Expr, replacement: Callable[[Expr], Expr | None]) -> Expr:
    """`root` with each node for which `replacement` gives another one replaced (not looking below
    it)."""
    done: dict[Expr, Expr] = {}

    def visit(node: Expr) -> Expr:
        if node in done:
            return done[node]
        new = replacement(node)
        if new is None:
            args = tuple(visit(arg) for arg in node.args)
            new = node if args == node.args else _intern(node.op, args, node.value)
        done[node] = new
        return new

    return visit(root)
