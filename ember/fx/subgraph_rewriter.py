"""`replace_pattern`: every occurrence of one small graph replaced by another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ember import nn
from ember.errors import check
from ember.fx._symbolic_trace import symbolic_trace
from ember.fx.graph import Graph
from ember.fx.graph_module import GraphModule, _copy_attr
from ember.fx.node import Node, map_arg

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """A place of a pattern: the pattern's last node, and the node for each of the pattern's."""

    anchor: Node
    nodes_map: dict[Node, Node]


class ReplacedPatterns(NamedTuple):
    """What was replaced: where, by which nodes."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replace what does as `pattern` does by `replacement`; the places where it was found.

    Both are functions, modules or graph modules of the same arguments. Occurrences that overlap an
    earlier one, or whose inner values others use, stay.

    >>> import ember as torch
    >>> from ember import fx
    >>> traced = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> found = fx.replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.sigmoid(x))
    >>> len(found), traced(torch.zeros(1))
    (1, tensor([1.5000]))
    """
    done = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(found.anchor, found.nodes_map) for found in done]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Any,
    replacement: Any = None,
    match_filters: list[Callable[..., bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Any = None,
) -> list[ReplacedPatterns]:
    """`replace_pattern` for the places that all filters want: functions of (match, graph of `gm`,
    graph of the pattern)."""
    pattern_graph = _graph_of(pattern)
    done: list[ReplacedPatterns] = []
    replaced: dict[Node, Node] = {}
    for found in _matches(gm.graph, pattern_graph, ignore_literals):
        if any(not wanted(found, gm.graph, pattern_graph) for wanted in match_filters or ()):
            continue
        source = replacement
        if replacement_callback is not None:
            source = replacement_callback(found, gm.graph, pattern_graph)
        check(source is not None, AssertionError, "a replacement or a callback is needed")
        made = _replace(gm, pattern_graph, source, found, replaced)
        done.append(ReplacedPatterns(found.anchor, found.nodes_map, made))
    gm.recompile()
    return done


def _graph_of(pattern: Any) -> Graph:
    if isinstance(pattern, Graph):
        return pattern
    return (pattern if isinstance(pattern, GraphModule) else symbolic_trace(pattern)).graph


def _outputs(graph: Graph) -> list[Node]:
    found: list[Node] = []
    map_arg(graph.output_node().args[0], found.append)
    return found


def _matches(graph: Graph, pattern: Graph, ignore_literals: bool) -> list[Match]:
    anchors = _outputs(pattern)
    found: list[Match] = []
    taken: set[Node] = set()
    for node in list(graph.nodes):
        mapping: dict[Node, Node] = {}
        if not _same(anchors[0], node, mapping, ignore_literals):
            continue
        if any(anchor not in mapping for anchor in anchors):
            continue
        inner = {p: n for p, n in mapping.items() if p.op not in ("placeholder", "output")}
        if taken & set(inner.values()) or _leaks(inner, anchors):
            continue
        taken |= set(inner.values())
        found.append(Match(anchors[0], mapping))
    return found


def _leaks(inner: dict[Node, Node], anchors: list[Node]) -> bool:
    """Whether something outside uses a value that the replacement will not compute."""
    matched = set(inner.values())
    return any(
        user not in matched
        for p, n in inner.items()
        if p not in anchors and p.op != "get_attr"
        for user in n.users
    )


def _same(p: Any, n: Any, mapping: dict[Node, Node], loose: bool) -> bool:
    if not isinstance(p, Node):
        return _same_value(p, n, mapping, loose)
    if not isinstance(n, Node):
        return False
    if p in mapping:
        return mapping[p] is n
    if p.op == "placeholder":
        mapping[p] = n
        return True
    if n in mapping.values() or p.op != n.op or not _same_target(p, n):
        return False
    mapping[p] = n
    if _same(p.args, n.args, mapping, loose) and _same(p.kwargs, n.kwargs, mapping, loose):
        return True
    mapping.pop(p, None)
    return False


def _same_value(p: Any, n: Any, mapping: dict[Node, Node], loose: bool) -> bool:
    if isinstance(n, Node):
        return False
    if isinstance(p, (list, tuple)) and isinstance(n, (list, tuple)):
        return len(p) == len(n) and all(
            _same(a, b, mapping, loose) for a, b in zip(p, n, strict=True)
        )
    if isinstance(p, dict) and isinstance(n, dict):
        return set(p) == set(n) and all(_same(p[k], n[k], mapping, loose) for k in p)
    return loose or (type(p) is type(n) and p == n)


def _same_target(p: Node, n: Node) -> bool:
    if p.op not in ("call_module", "get_attr"):
        return bool(p.target == n.target)
    first, second = p.graph.owning_module, n.graph.owning_module
    if p.op == "get_attr" or first is None or second is None:
        return bool(p.target == n.target)
    return type(first.get_submodule(p.target)) is type(second.get_submodule(n.target))


def _replace(
    gm: GraphModule, pattern: Graph, source: Any, found: Match, replaced: dict[Node, Node]
) -> list[Node]:
    graph = _graph_of(source)
    owner = graph.owning_module
    inputs = [n for n in pattern.nodes if n.op == "placeholder"]
    given = [n for n in graph.nodes if n.op == "placeholder"]
    check(
        len(inputs) == len(given),
        AssertionError,
        "Both the pattern and replacement should have the same number of inputs",
    )
    values: dict[Node, Node] = {}
    for p, r in zip(inputs, given, strict=True):
        if p in found.nodes_map:
            value = found.nodes_map[p]
            values[r] = replaced.get(value, value)
    returned = {found.nodes_map[anchor] for anchor in _outputs(pattern)}
    with gm.graph.inserting_before(_first_user(gm.graph, returned, set(found.nodes_map.values()))):
        known = set(gm.graph.nodes)
        result = gm.graph.graph_copy(graph, values)
    made = [n for n in gm.graph.nodes if n not in known]
    for node in made:
        if node.op in ("get_attr", "call_module") and isinstance(owner, nn.Module):
            if not _has(gm, node.target):
                _copy_attr(owner, gm, node.target)
    results = result if isinstance(result, (list, tuple)) else (result,)
    for anchor, new in zip(_outputs(pattern), results, strict=True):
        old = found.nodes_map[anchor]
        old.replace_all_uses_with(new)
        replaced[old] = new
    for node in reversed(list(pattern.nodes)):
        old = found.nodes_map.get(node)
        if node.op not in ("placeholder", "output") and old is not None and not old.users:
            gm.graph.erase_node(old)
    return made


def _first_user(graph: Graph, returned: set[Node], matched: set[Node]) -> Node:
    """The first node that takes what the pattern gives; the output if none does."""
    for node in graph.nodes:
        if node not in matched and returned.intersection(node.all_input_nodes):
            return node
    return graph.output_node()


def _has(module: Any, target: str) -> bool:
    for part in target.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True
