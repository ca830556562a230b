"""Forward mode: tangents pushed through a recorded graph, from its inputs to its outputs.

An elementwise op's tangent follows from its derivatives, a view's is the view of the tangent. For
any other op the gradient is linear in what it is given, so that the gradient of the gradient by
that is the tangent: every op with a gradient has a forward mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember.core import engine, modes
from ember.core.dispatch import RuleNode, is_differentiable
from ember.core.formula_node import FormulaNode
from ember.core.lifting import lift
from ember.core.node import Edge, Node, Saved, edge_of
from ember.core.tensor import connected, needs_grad
from ember.core.view import ViewNode
from ember.func.tape import (
    Input,
    Recording,
    differentiable_outputs,
    leads_outside,
    outside,
    zeros_of,
)
from ember.kernel.array import Spec


def push(outputs: Sequence[Any], tangents: dict[Edge, Any], batch: Any) -> list[Any]:
    """The tangents of outputs, from those of graph edges of a level; None where nothing moves
    them."""
    on_tape = differentiable_outputs(outputs, batch)
    roots = [edge_of(o) if on else None for o, on in zip(outputs, on_tape, strict=True)]
    known = dict(tangents)
    create = modes.state.grad and leads_outside([*outputs, *tangents.values()])
    with Recording(create):
        for node in _between([r[0] for r in roots if r is not None], tangents):
            moved = [known.get(edge) for edge in node.edges]
            if all(t is None for t in moved):
                continue
            for index, tangent in enumerate(tangent_of(node, moved, batch)):
                if tangent is not None and (node, index) not in tangents:
                    known[node, index] = tangent
    found = [None if r is None else known.get(r) for r in roots]
    return [outside(t, create) for t in found]


def _between(roots: list[Any], tangents: dict[Edge, Any]) -> list[Node]:
    """The nodes from inputs with tangents to the outputs, each after those that it uses."""
    ends = {node for node, _ in tangents}
    order: list[Node] = []
    seen: set[Any] = set()
    stack: list[tuple[Any, bool]] = [(r, False) for r in roots]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif node not in seen and node not in ends:
            seen.add(node)
            stack.append((node, True))
            stack += [(t, False) for t, _ in node.edges if t is not None and t not in seen]
    return order


def tangent_of(node: Node, moved: list[Any], batch: Any) -> Sequence[Any]:
    """The tangents of a node's outputs, given those of its inputs."""
    own = node.push(moved) if hasattr(node, "push") else None
    if own is not None:
        return own  # type: ignore[no-any-return]
    if isinstance(node, Input):
        return moved
    if isinstance(node, ViewNode):
        return _by_view(node, moved[0])
    if isinstance(node, FormulaNode) and _is_plain(node):
        return [_by_formula(node, moved)]
    if isinstance(node, RuleNode) and node.op.name in BILINEAR:
        return [_by_product(node, moved)]
    return by_second_gradient(node, moved, batch)


def _by_view(node: ViewNode, tangent: Any) -> Sequence[Any]:
    tangent = tangent.contiguous()
    if node.op.absolute and tangent.storage_offset():
        tangent = tangent.clone()
    made = node.op.on_any_level([tangent, *node.arguments])
    return made if isinstance(made, tuple) else (made,)


def _is_plain(node: FormulaNode) -> bool:
    """Whether an op's derivatives are its tangents too: elementwise, of real numbers."""
    specs = [s for s in (*node.recipe.in_specs, *node.out_specs) if s is not None]
    rows = any(rule is not None and rule[0].rows for rule in node.recipe.rules)
    return not rows and not any(s.dtype.is_complex for s in specs)


def _by_formula(node: FormulaNode, moved: list[Any]) -> Any:
    known = {
        name: value.unpack(node) if isinstance(value, Saved) else value
        for name, value in node.saved.items()
    }
    total = None
    for rule, tangent in zip(node.recipe.rules, moved, strict=True):
        if rule is None or tangent is None:
            continue
        op, names = rule
        same = not names and op.is_identity
        part = tangent if same else op.run([tangent, *(known[n] for n in names)])
        total = part if total is None else total + part
    return total if total is None else fitted(total, node.out_specs[0])


BILINEAR = ("matmul", "convolution")  # library ops that are linear in each of two arguments


def _by_product(node: RuleNode, moved: list[Any]) -> Any:
    """The product rule; the node's gradient rule has saved both factors."""
    values = {
        name: value.unpack(node) if isinstance(value, Saved) else value
        for name, value in node.values.items()
    }
    total = None
    for name, tangent in zip(node.op.parameters[:2], moved, strict=True):
        if tangent is not None:
            row = {**values, name: tangent}
            part = node.op.run([row[p] for p in node.op.parameters])
            total = part if total is None else total + part
    return total


def fitted(tangent: Any, spec: Spec) -> Any:
    """A tangent in the shape and dtype of its value."""
    if tangent._array.spec.shape != spec.shape:
        tangent = tangent.expand(spec.shape)
    return tangent if tangent._array.spec.dtype is spec.dtype else tangent.to(spec.dtype)


def by_second_gradient(node: Node, moved: list[Any], batch: Any) -> list[Any]:
    """The tangents of any node: its gradient is u → Jᴴ·u, whose own gradient is t → J·t."""
    before = modes.state.grad
    dummies = [_dummy(spec, batch) for spec in node.out_specs]
    modes.state.grad = True
    try:
        found = node.apply([*dummies])
    finally:
        modes.state.grad = before
    live = [
        (edge_of(g), fitted(t, g._array.spec))
        for g, t in zip(found, moved, strict=False)
        if g is not None and t is not None and needs_grad(g)
    ]
    if not live:
        return [None] * len(dummies)
    edges, weights = zip(*live, strict=True)
    places = [i for i, d in enumerate(dummies) if d is not None]
    results = engine.run(
        list(edges),
        list(weights),
        retain_graph=True,
        create_graph=before,
        inputs=[edge_of(dummies[i]) for i in places],
        accumulate=False,
    )
    made: list[Any] = [None] * len(dummies)
    for place, result in zip(places, results, strict=True):
        made[place] = result
    return made


def _dummy(spec: Spec, batch: Any) -> Any:
    """A cotangent to differentiate by, at which no rule is singular; None for what has no
    gradient."""
    if not is_differentiable(spec.dtype):
        return None
    value = zeros_of(spec, 1)
    if batch is not None:
        value = lift(value, batch)
    return connected(value._array, Input(value, None, False))
