"""Derivatives of formulas of complex numbers that read conjugates: gradients of gradients do.

A formula f of z and its conjugate z̄ changes by df = f_z·dz + f_z̄·conj(dz) (Wirtinger). So the
gradient of a real loss, of which g is that by f, is g·conj(f_z) + conj(g)·f_z̄.
"""

from __future__ import annotations

from ember.scalar.diff import tangent
from ember.scalar.expr import Expr, as_expr, const, make, substitute, topological, var

MIXED = {
    "abs",
    "conj",
    "imag",
    "real",
    "sign",
    "turn",
}  # primitives that read the conjugate of their argument


def mixes(root: Expr) -> bool:
    """Whether a formula reads conjugates, so that its derivative has two parts."""
    return any(node.op in MIXED for node in topological([root]))


def complex_gradient(root: Expr, name: str, seed: Expr) -> Expr | None:
    """The gradient by the variable `name`, for the gradient `seed` by the formula; None if zero."""
    bar = var(f"{name}*")
    turned = make("conj", var(name))
    plain = substitute(_Conjugates().of(root, False), lambda node: bar if node is turned else None)
    weight = make("conj", seed)
    along, across = tangent(plain, name, weight), tangent(plain, f"{name}*", weight)
    found = None if along is None else make("conj", along)
    if across is not None:
        found = across if found is None else found + across
    if found is None:
        return None
    return substitute(as_expr(found), lambda node: turned if node is bar else None)


class _Conjugates:
    """Formulas, or their conjugates, in which only variables are conjugated.

    Every other primitive has real coefficients, so that f(conj(z)) = conj(f(z)).
    """

    def __init__(self) -> None:
        self.known: dict[tuple[Expr, bool], Expr] = {}

    def of(self, node: Expr, turned: bool) -> Expr:
        """The formula at a node, conjugated if `turned`."""
        key = (node, turned)
        if key not in self.known:
            self.known[key] = self._made(node, turned)
        return self.known[key]

    def _made(self, node: Expr, turned: bool) -> Expr:
        if node.op == "var":
            return make("conj", node) if turned else node
        if node.op == "const":
            value = node.value
            return const(value.conjugate()) if turned and isinstance(value, complex) else node
        if node.op == "conj":
            return self.of(node.args[0], not turned)
        if node.op == "where":
            condition, a, b = node.args
            rest = (self.of(a, turned), self.of(b, turned))
            return make("where", self.of(condition, False), *rest)
        if node.op in MIXED:
            return self._mixed(node.op, node.args[0], turned)
        return make(node.op, *(self.of(arg, turned) for arg in node.args))

    def _mixed(self, op: str, arg: Expr, turned: bool) -> Expr:
        """|z| = √(z·z̄), z / |z|, the parts of z, and i / z̄ (`turn`), by z and z̄."""
        z, other = self.of(arg, False), self.of(arg, True)
        if op == "real":
            return (z + other) / 2
        if op == "imag":
            return (z - other) * -0.5j
        if op == "turn":
            value = -1j / z if turned else 1j / other
            return make("where", make("eq", z, 0), 0, value)
        size = make("sqrt", z * other)
        value = size if op == "abs" else (other if turned else z) / size
        return make("where", make("eq", z, 0), 0, value)
