"""Programs as graphs: traced by running them on proxies, changed, and written back as Python."""

from ember.fx import (
    _pytree,
    _symbolic_trace,
    graph,
    graph_module,
    immutable_collections,
    interpreter,
    node,
    passes,
    proxy,
    subgraph_rewriter,
)
from ember.fx._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from ember.fx.graph import CodeGen, Graph
from ember.fx.graph_module import GraphModule
from ember.fx.interpreter import Interpreter, Transformer
from ember.fx.node import Node, has_side_effect, map_arg
from ember.fx.proxy import Proxy
from ember.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "_pytree",
    "_symbolic_trace",
    "graph",
    "graph_module",
    "has_side_effect",
    "immutable_collections",
    "interpreter",
    "map_arg",
    "node",
    "passes",
    "proxy",
    "replace_pattern",
    "subgraph_rewriter",
    "symbolic_trace",
    "wrap",
]
