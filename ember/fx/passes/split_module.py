"""`split_module`: a graph module divided into submodules by a function of its nodes."""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem
from typing import Any

from ember.errors import check
from ember.fx.graph import Graph
from ember.fx.graph_module import GraphModule
from ember.fx.node import Node, map_arg

__all__ = ["split_module"]


class _Partition:
    """The nodes that become one submodule."""

    def __init__(self, name: str):
        self.name = name
        self.nodes: list[Node] = []
        self.inputs: dict[Node, None] = {}
        self.outputs: dict[Node, None] = {}
        self.needs: set[Any] = set()


def split_module(
    m: GraphModule,
    root_m: Any,
    split_callback: Callable[[Node], Any],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """A module that calls one submodule for each value that `split_callback` gives for nodes.

    Inputs and attributes stay outside and are passed in; attributes come from `root_m`.
    RuntimeError if two parts need each other. `qualname_map` is filled with the old names of the
    submodules by their new ones.

    >>> import ember as torch
    >>> from ember import fx
    >>> from ember.fx.passes.split_module import split_module
    >>> traced = fx.symbolic_trace(lambda x: torch.relu(x + 1))
    >>> split = split_module(traced, traced, lambda node: int(node.name == "relu"))
    >>> [node.name for node in split.graph.nodes]
    ['x', 'submod_0', 'submod_1', 'output']
    """
    affix = f"{partition_affix}_" if partition_affix else ""
    parts, of_node = _parts(m, split_callback, f"submod_{affix}")
    for key, part in parts.items():
        _find_edges(part, key, of_node)
    order = list(parts) if keep_original_order else _ordered(parts)
    outer, values = Graph(), {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            values[node] = outer.node_copy(node)
    read = [node.target for node in values if node.op == "get_attr"]
    attributes: dict[str, Any] = {target: _read(root_m, target) for target in read}
    for key in order:
        part = parts[key]
        attributes[part.name] = _submodule(
            part, root_m, qualname_map, tuple_return, bool(keep_original_node_name)
        )
        called = outer.call_module(part.name, tuple(values[n] for n in part.inputs))
        if len(part.outputs) == 1 and not tuple_return:
            values[next(iter(part.outputs))] = called
        else:
            for i, node in enumerate(part.outputs):
                values[node] = outer.call_function(getitem, (called, i))
    last = m.graph.output_node()
    outer.output(map_arg(last.args[0], lambda n: values[n]), last.type)
    return GraphModule(attributes, outer)


def _parts(
    m: GraphModule, split_callback: Callable[[Node], Any], name: str
) -> tuple[dict[Any, _Partition], dict[Node, Any]]:
    parts: dict[Any, _Partition] = {}
    of_node: dict[Node, Any] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        key = of_node[node] = split_callback(node)
        parts.setdefault(key, _Partition(f"{name}{key}")).nodes.append(node)
    return parts, of_node


def _find_edges(part: _Partition, key: Any, of_node: dict[Node, Any]) -> None:
    for node in part.nodes:
        for used in node.all_input_nodes:
            if of_node.get(used, _OUTSIDE) != key:
                part.inputs.setdefault(used)
                if used in of_node:
                    part.needs.add(of_node[used])
        if any(of_node.get(user, _OUTSIDE) != key for user in node.users):
            part.outputs.setdefault(node)


_OUTSIDE = object()


def _ordered(parts: dict[Any, _Partition]) -> list[Any]:
    """The parts, each after those that it needs."""
    order: list[Any] = []
    left = list(parts)
    while left:
        ready = next((k for k in left if parts[k].needs <= set(order)), None)
        check(ready is not None, RuntimeError, "cycle exists between partitions!")
        left.remove(ready)
        order.append(ready)
    return order


def _submodule(
    part: _Partition, root: Any, names: dict[str, str] | None, tuple_return: bool, keep_name: bool
) -> GraphModule:
    graph, values = Graph(), {}
    for node in part.inputs:
        values[node] = graph.placeholder(node.name, node.type)
    attributes: dict[str, Any] = {}
    for node in part.nodes:
        args, kwargs = (map_arg(a, lambda n: values[n]) for a in (node.args, node.kwargs))
        name = node.name if keep_name else None
        made = graph.create_node(node.op, node.target, args, kwargs, name, node.type)
        values[node], made.meta = made, dict(node.meta)
        if node.op == "call_module":
            made.target = node.target.replace(".", "_")
            attributes[made.target] = _read(root, node.target)
            if names is not None:
                names[f"{part.name}.{made.target}"] = node.target
    results = tuple(values[node] for node in part.outputs)
    graph.output(results[0] if len(results) == 1 and not tuple_return else results)
    return GraphModule(attributes, graph)


def _read(root: Any, target: str) -> Any:
    for part in target.split("."):
        root = getattr(root, part)
    return root
