"""`Graph`: a program as a list of nodes, which can be read, changed, and written as Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ember.errors import check
from ember.fx.codegen import CodeGen, PythonCode, _PyTreeCodeGen, magic_methods
from ember.fx.namespace import Namespace, snake_case
from ember.fx.node import Node, map_arg

__all__ = ["CodeGen", "Graph", "PythonCode", "_PyTreeCodeGen", "magic_methods"]

_NOT_GIVEN = object()
KEPT = "is_wrapped"  # what pickles keep of a node's notes


class _node_list:
    """The nodes of a graph in order; it has a length and can be walked backwards."""

    def __init__(self, graph: Graph, direction: str = "_next"):
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root, current = self.graph._root, getattr(self.graph._root, self.direction)
        while current is not root:
            following = current
            if not current._erased:
                yield current
            current = getattr(following, self.direction)

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "_prev" if self.direction == "_next" else "_next")


class Graph:
    """A list of nodes: placeholders first, then what is computed, an output last.

    >>> import ember as torch
    >>> from ember import fx
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output(graph.call_function(torch.relu, (x,)))
    >>> fx.GraphModule({}, graph)(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(
        self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None
    ):
        self._root = Node(self, "", "root", "", (), {})
        self._used_names: dict[str, int] = {}
        self._insert = self._root.prepend
        self._len = 0
        self._graph_namespace = Namespace()
        self._owners = 0
        self._owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()

    @property
    def owning_module(self) -> Any:
        """The module whose attributes the graph names, if one is known."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: Any) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """The nodes in order. New ones are made by the graph's methods."""
        return _node_list(self)

    def output_node(self) -> Node:
        """The node of op "output"."""
        last = next(iter(reversed(self.nodes)))
        check(last.op == "output", AssertionError, "the graph does not end with an output node")
        return last

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of an op, and of a target if one is given."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def create_node(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A new node at the insertion point, by default at the end."""
        args, kwargs = args or (), kwargs or {}
        check(isinstance(args, tuple), AssertionError, "args must be a tuple")
        check(isinstance(kwargs, dict), AssertionError, "kwargs must be a dict")
        candidate = name if name is not None else self._target_to_str(target)
        node = Node(self, "", op, target, args, kwargs, type_expr)
        node.name = self._graph_namespace.create_name(candidate, node)
        if self.owning_module is not None:
            for hook in getattr(self.owning_module, "_create_node_hooks", ()):
                hook(node)
        self._insert(node)
        self._len += 1
        return node

    def _target_to_str(self, target: Any) -> str:
        text = target.__name__ if callable(target) else target
        if text.startswith("__") and text.endswith("__") and len(text) > 4:
            text = text[2:-2]
        return snake_case(str(text))

    def placeholder(
        self, name: str, type_expr: Any = None, default_value: Any = _NOT_GIVEN
    ) -> Node:
        """A node for an argument of the function."""
        args = () if default_value is _NOT_GIVEN else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A node for an attribute of the module, by its dotted name."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A node that calls a submodule, by its dotted name."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A node that calls a method of its first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A node that calls a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """The node that returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A node like one of another graph; `arg_transform` gives this graph's node for each of its
        inputs."""
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """Copy the nodes of `g` to the insertion point; the value that `g` returns, or None.

        `val_map` maps nodes of `g` to this graph's, and is filled on the way.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def inserting_before(self, n: Node | None = None) -> Any:
        """New nodes go before `n`, by default at the beginning; for good, or for a `with` block."""
        if n is None:
            return self.inserting_after(self._root)
        check(n.graph is self, AssertionError, "Node to insert before is not in graph.")
        return _Insertion(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> Any:
        """New nodes go after `n`, by default at the end, in the order of their making."""
        if n is None:
            return self.inserting_before(self._root)
        check(n.graph is self, AssertionError, "Node to insert after is not in graph.")
        return _Insertion(self, n.append)

    def erase_node(self, to_erase: Node) -> None:
        """Take a node out; RuntimeError if others use its value."""
        check(
            not to_erase.users,
            RuntimeError,
            lambda: (
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            ),
        )
        check(
            to_erase.graph is self,
            RuntimeError,
            f"Attempting to remove {to_erase} from wrong graph!",
        )
        if to_erase._erased:
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        to_erase._set_arguments((), {})
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1

    def eliminate_dead_code(self, is_impure_node: Any = None) -> bool:
        """Erase the nodes that nothing uses and that do nothing else; whether there were any."""
        self.lint()
        impure = is_impure_node or Node.is_impure
        changed = False
        for node in list(reversed(self.nodes)):
            if not node.users and node.op not in ("placeholder", "output") and not impure(node):
                self.erase_node(node)
                changed = True
        return changed

    def lint(self) -> None:
        """RuntimeError unless every node comes after its inputs, names are unique, and attributes
        of the owning module exist."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            check(
                node.graph is self,
                RuntimeError,
                f"Node '{node}' does not belong to this Graph!",
            )
            check(node.name not in names, RuntimeError, f"Node redefined name {node.name}!")
            for used in node.all_input_nodes:
                check(
                    used.graph is self,
                    RuntimeError,
                    f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was "
                    "used as an argument! If you are copying nodes from another graph, make sure "
                    "to use ``arg_transform`` on node_copy() to remap values",
                )
                check(
                    used in seen,
                    RuntimeError,
                    f"Argument '{used}' of Node '{node}' was used before it has been defined! "
                    f"Please check that Nodes in the graph are topologically ordered\n{self}",
                )
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                _check_attribute(self.owning_module, node)

    def python_code(self, root_module: str, *, verbose: bool = False, **options: Any) -> PythonCode:
        """The graph as the source of a function of `root_module` and the placeholders."""
        return self._codegen.python_code(self, root_module, verbose)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Write the graph another way."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer: Callable[[Any], Any]) -> Any:
        """Change the lines of generated code: `make_transformer(current)` gives a function of
        them."""
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextmanager
        def undo() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return undo()

    def process_inputs(self, *args: Any) -> Any:
        """Arguments of the function as values of the placeholders."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """What the output node holds as what the function returns."""
        return self._codegen.process_outputs(out)

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [[n.op, n.name, n.target, n.args, n.kwargs] for n in self.nodes]
        table = _table(["opcode", "name", "target", "args", "kwargs"], rows)
        print(table)  # noqa: T201 (what it is for)

    def __str__(self) -> str:
        placeholders: list[str] = []
        returns = [""]
        lines = [node.format_node(placeholders, returns) for node in self.nodes]
        body = "".join(f"\n    {line}" for line in lines if line)
        return f"graph():{body}"

    def __deepcopy__(self, memo: Any = None) -> Graph:
        copied = Graph(tracer_cls=self._tracer_cls)
        mapping: dict[Node, Node] = {}
        found = copied.graph_copy(self, mapping, return_output_node=True)
        copied._codegen = self._codegen
        if found is not None:
            result, old = found
            made = copied.output(result, old.type)
            made.meta = dict(old.meta)
            mapping[old] = made
        if memo is not None:
            memo[id(self)] = copied
        return copied

    def __getstate__(self) -> Any:
        records = [
            (
                n.op,
                n.name,
                n.target,
                map_arg((n.args, n.kwargs), _Reference),
                n.type,
                n.meta.get(KEPT),
            )
            for n in self.nodes
        ]
        return {"records": records, "codegen": self._codegen, "tracer_cls": self._tracer_cls}

    def __setstate__(self, state: Any) -> None:
        self.__init__(tracer_cls=state["tracer_cls"])  # type: ignore[misc]
        self._codegen = state["codegen"]
        made: dict[str, Node] = {}
        for op, name, target, arguments, kind, wrapped in state["records"]:
            args, kwargs = _resolved(arguments, made)
            made[name] = self.create_node(op, target, args, kwargs, name, kind)
            if wrapped:
                made[name].meta[KEPT] = wrapped


class _Insertion:
    """Where new nodes of a graph go, until the block ends."""

    def __init__(self, graph: Graph, place: Callable[[Node], None]):
        self.graph, self.before = graph, graph._insert
        graph._insert = self._advance if place.__name__ == "append" else place
        self.last: Node = place.__self__  # type: ignore[attr-defined]

    def _advance(self, node: Node) -> None:
        self.last.append(node)
        self.last = node

    def __enter__(self) -> _Insertion:
        return self

    def __exit__(self, *exc: object) -> None:
        self.graph._insert = self.before


class _Reference:
    """A node in a pickle: its name."""

    def __init__(self, node: Node):
        self.name = node.name


def _resolved(value: Any, made: dict[str, Node]) -> Any:
    if isinstance(value, _Reference):
        return made[value.name]
    if isinstance(value, tuple):
        parts = [_resolved(v, made) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [_resolved(v, made) for v in value]
    if isinstance(value, dict):
        return {k: _resolved(v, made) for k, v in value.items()}
    if isinstance(value, slice):
        return slice(*(_resolved(v, made) for v in (value.start, value.stop, value.step)))
    return value


def _check_attribute(module: Any, node: Node) -> None:
    found = module
    for part in node.target.split("."):
        check(
            hasattr(found, part),
            RuntimeError,
            f"Node {node} target {node.target} references nonexistent attribute {part} of {found}",
        )
        found = getattr(found, part)


def _table(header: list[str], rows: Iterable[list[Any]]) -> str:
    cells = [header, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(line.rstrip() for line in lines)
