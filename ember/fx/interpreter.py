"""`Interpreter` runs a graph node by node; `Transformer` makes a new graph of it on the way."""

from __future__ import annotations

from typing import Any

from ember.errors import check
from ember.fx._symbolic_trace import Tracer
from ember.fx.graph import Graph
from ember.fx.graph_module import GraphModule
from ember.fx.node import Node, map_arg
from ember.fx.proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a GraphModule node by node; override `run_node` or the method of an op to watch or
    change it.

    >>> import ember as torch
    >>> from ember import fx
    >>> fx.Interpreter(fx.symbolic_trace(lambda x: x + 1)).run(torch.ones(1))
    tensor([2.])
    """

    def __init__(
        self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None
    ):
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph = graph if graph is not None else module.graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            last: set[Node] = set()
            for node in reversed(self.graph.nodes):
                for used in node.all_input_nodes:
                    if used not in last:
                        last.add(used)
                        self.user_to_last_uses.setdefault(node, []).append(used)

    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """What the module gives for `args`. `initial_env`: values of nodes that are not run."""
        self.env = initial_env if initial_env is not None else {}
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    error.add_note(f"While executing {node.format_node()}")
                raise
            for gone in self.user_to_last_uses.get(node, ()) if self.garbage_collect_values else ():
                del self.env[gone]
            if node.op == "output":
                out = self.env[node]
                return self.graph.process_outputs(out) if enable_io_processing else out
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """`run` for a list of arguments, which is emptied."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n: Node) -> Any:
        """The value of one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The next argument, or the default; RuntimeError if there is neither."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """What a function gives."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        """What a method of the first argument gives."""
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """What a submodule gives."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        """What is returned."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """An attribute of the module by its dotted name; RuntimeError if there is none."""
        found: Any = self.module
        parts = target.split(".")
        for i, part in enumerate(parts):
            check(
                hasattr(found, part),
                RuntimeError,
                f"Node referenced nonexistent target {'.'.join(parts[: i + 1])}",
            )
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[Any, Any]:
        """The arguments of a node with values in place of nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Arguments with values in place of nodes."""

        def value(node: Node) -> Any:
            check(
                node in self.env,
                RuntimeError,
                f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such "
                "issues",
            )
            return self.env[node]

        return map_arg(args, value)


class Transformer(Interpreter):
    """Makes a new module by running a graph on proxies; override the method of an op to change its
    nodes."""

    def __init__(self, module: Any):
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        outer = self

        class TransformerTracer(Tracer):
            """The tracer of the new graph."""

            def __init__(self, graph: Graph):
                super().__init__()
                self.graph, self.root = graph, outer.module

            def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
                """Every module is called as it is."""
                return True

        self.tracer: Any = TransformerTracer(self.new_graph)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A placeholder of the new graph."""
        return Proxy(self.new_graph.placeholder(target, None, *args), self.tracer)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A node of the new graph that reads an attribute."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A node of the new graph that calls a submodule."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A node of the new graph that calls a function."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new module."""
        result = super().run(enable_io_processing=False)
        if result is not None:
            self.new_graph.output(map_proxies(result))
        made = GraphModule(self.module, self.new_graph)
        for old, new in zip(self.graph.nodes, self.new_graph.nodes, strict=False):
            if old.op == new.op == "output":
                new.type = old.type
        return made


def map_proxies(value: Any) -> Any:
    """Nested values with nodes in place of proxies."""
    if isinstance(value, Proxy):
        return value.node
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)([map_proxies(v) for v in value])
    if isinstance(value, dict):
        return {k: map_proxies(v) for k, v in value.items()}
    return value
