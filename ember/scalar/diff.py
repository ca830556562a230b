"""Derivatives of formulas: tangents for elementwise ones, adjoints for row programs.

Tangents keep `where` outermost: the derivative of where(x > 0, sqrt(x), 0) is where(x > 0, dx/(2
sqrt(x)), 0), which is 0 at 0, while the adjoint form would multiply an infinity by 0.
"""

from __future__ import annotations

from ember.scalar.expr import Expr, as_expr, const, make, topological, var
from ember.scalar.primitives import ROW_REDUCTIONS, TABLE, row_sum

ZERO = const(0)


def _is_zero(e: Expr | None) -> bool:
    return e is None or (e.op == "const" and e.value == 0)


def _or_zero(e: Expr | None) -> Expr:
    return ZERO if e is None else e


def _sum(a: Expr | None, b: Expr | None) -> Expr | None:
    if _is_zero(a):
        return b
    return a if _is_zero(b) else as_expr(a) + as_expr(b)


def has_rows(root: Expr) -> bool:
    """Whether a formula reduces over a row."""
    return any(node.op in ROW_REDUCTIONS for node in topological([root]))


def tangent(root: Expr, name: str, seed: Expr) -> Expr | None:
    """The derivative of `root` by the variable `name`, times `seed`; None if it is zero
    everywhere."""
    known: dict[Expr, Expr | None] = {}
    for node in topological([root]):
        known[node] = _tangent_of(node, known, name, seed)
    found = known[root]
    return None if _is_zero(found) else found


def _tangent_of(node: Expr, known: dict[Expr, Expr | None], name: str, seed: Expr) -> Expr | None:
    if node.op == "var":
        return seed if node.value == name else None
    if node.op in ("const", "stop", "row_size"):
        return None
    if node.op == "where":
        condition, a, b = node.args
        da, db = known[a], known[b]
        return (
            None
            if _is_zero(da) and _is_zero(db)
            else make("where", condition, _or_zero(da), _or_zero(db))
        )
    moving = [i for i, arg in enumerate(node.args) if not _is_zero(known[arg])]
    partials = TABLE[node.op].partials
    if not moving or partials is None:
        return None
    total: Expr | None = None
    values = partials(*node.args, node)
    for i in moving:
        if values[i] is not None:
            total = _sum(total, _scaled(known[node.args[i]], as_expr(values[i])))
    return total


def _scaled(change: Expr | None, slope: Expr) -> Expr | None:
    """change x slope, with a quotient or choice kept outermost (1/b becomes change/b)."""
    assert change is not None
    if slope.op == "div" and slope.args[0].op == "const" and slope.args[0].value == 1:
        return make("div", change, slope.args[1])
    if slope.op == "where":
        condition, a, b = slope.args
        return make("where", condition, _scaled(change, a), _scaled(change, b))
    if _is_zero(slope):
        return ZERO
    return change * slope


def adjoint(root: Expr, names: list[str], seed: Expr) -> dict[str, Expr]:
    """Gradients of a row program by each of `names`, given the output's gradient `seed`."""
    order = topological([root])
    per_row = _row_scoped(order)
    gradient: dict[Expr, Expr | None] = {root: seed}
    for node in reversed(order):
        g = gradient.get(node)
        if _is_zero(g) or node.op in ("var", "const", "stop", "row_size"):
            continue
        assert g is not None
        for arg, part in zip(node.args, _adjoints_of(node, g), strict=True):
            if part is not None and not _is_zero(part):
                if arg in per_row and node not in per_row:
                    part = row_sum(part)
                gradient[arg] = _sum(gradient.get(arg), part)
    return {name: _or_zero(gradient.get(var(name))) for name in names}


def _row_scoped(order: list[Expr]) -> set[Expr]:
    """The nodes with one value a row: reductions, and what is made of them alone."""
    found: set[Expr] = set()
    for node in order:
        reduced = node.op in ROW_REDUCTIONS or node.op == "row_size"
        composed = bool(node.args) and all(a in found or a.op == "const" for a in node.args)
        if reduced or (composed and any(a in found for a in node.args)):
            found.add(node)
    return found


def _adjoints_of(node: Expr, g: Expr) -> list[Expr | None]:
    if node.op == "row_sum":
        return [g]
    if node.op in ROW_REDUCTIONS:
        hit = make("where", make("eq", node.args[0], node), 1, 0)
        return [g * hit / row_sum(hit)]
    if node.op == "where":
        condition, _, _ = node.args
        return [None, make("where", condition, g, 0), make("where", condition, 0, g)]
    partials = TABLE[node.op].partials
    if partials is None:
        return [None] * len(node.args)
    return [None if p is None else _scaled(g, as_expr(p)) for p in partials(*node.args, node)]
