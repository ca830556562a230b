"""`Node`: one line of a graph: an op, what it calls, and the nodes that it takes values from."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any

from ember.core.registry import NAMESPACES
from ember.core.tensor import Tensor
from ember.device import device
from ember.dtypes import dtype
from ember.errors import check
from ember.fx.immutable_collections import immutable_dict, immutable_list
from ember.ops.formats import layout, memory_format

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
base_types = (
    str,
    int,
    float,
    bool,
    complex,
    dtype,
    Tensor,
    device,
    memory_format,
    layout,
    type(...),
)
Argument = Any
Target = Any
_side_effectful_functions: set[Any] = {print}


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function whose calls dead code elimination keeps; the function itself."""
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """`fn` of every leaf of nested tuples, lists, dicts and slices, in containers of their kind."""
    if isinstance(a, tuple):
        mapped = [map_aggregate(element, fn) for element in a]
        return type(a)(*mapped) if hasattr(a, "_fields") else tuple(mapped)
    if isinstance(a, list):
        return immutable_list([map_aggregate(element, fn) for element in a])
    if isinstance(a, dict):
        return immutable_dict([(key, map_aggregate(value, fn)) for key, value in a.items()])
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """`fn` of every node among nested arguments; what is no node stays.

    >>> from ember import fx
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> fx.map_arg(([x], 3), lambda node: node.name)
    (['x'], 3)
    """
    check(callable(fn), AssertionError, "torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _find_public(function: Any) -> str | None:
    """The public dotted name of one of Ember's functions: "torch.nn.functional.relu"."""
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", None) or ""
    root = sys.modules["ember"]
    if module.partition(".")[0] == "ember" and getattr(root, name, None) is function:
        return f"torch.{name}"
    for space in ("torch", "nn.functional", "linalg", "fft", "special"):
        if NAMESPACES[space].get(name) is function:
            return f"torch.{name}" if space == "torch" else f"torch.{space}.{name}"
    if module.startswith("ember."):
        return f"torch{module[len('ember') :]}.{name}"
    return None


def _get_qualified_name(func: Any) -> str:
    """The name that a function is called by in generated code."""
    if getattr(builtins, getattr(func, "__name__", ""), None) is func:
        return str(func.__name__)
    public = _find_public(func)
    if public is not None:
        return public
    module = getattr(func, "__module__", None)
    name = getattr(func, "__qualname__", None) or getattr(func, "__name__", None)
    check(name is not None, RuntimeError, lambda: f"{func!r} has no name to be called by")
    if module == "_operator":
        module = "operator"
    return f"{module}.{func.__name__}" if module else str(name)


def _type_repr(obj: Any) -> str:
    if isinstance(obj, type) and not hasattr(obj, "__args__"):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        module = (
            "torch" + obj.__module__[5:] if obj.__module__.startswith("ember") else obj.__module__
        )
        if obj is Tensor:
            return "torch.Tensor"
        return f"{module}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if callable(obj) and hasattr(obj, "__name__") and not hasattr(obj, "__args__"):
        return str(obj.__name__)
    return repr(obj)


class Node:
    """One line of a `Graph`.

    `op` is one of placeholder, get_attr, call_function, call_module, call_method, output; `target`
    what it calls or reads (a function, or a dotted name); `args` and `kwargs` hold nodes where
    values of earlier lines go; `users` are the nodes that take its value; `meta` is for notes.
    Nodes are made by the methods of Graph.
    """

    def __init__(
        self,
        graph: Any,
        name: str,
        op: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any = None,
    ):
        check(
            op in OPS, AssertionError, f"{op!r} is no op of a node: it is one of {', '.join(OPS)}"
        )
        if op == "call_function":
            check(
                callable(target),
                ValueError,
                lambda: (
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                    f"{type(target)} but a Callable is expected"
                ),
            )
        else:
            check(
                isinstance(target, str),
                ValueError,
                lambda: (
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                    f"{type(target)} but a str is expected"
                ),
            )
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self._input_nodes: dict[Node, None] = {}
        self.users: dict[Node, None] = {}
        self.type = return_type
        self._prev = self._next = self
        self._erased = False
        self._repr_fn: Callable[[Node], str] | None = None
        self.meta: dict[str, Any] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._set_arguments(args, kwargs)

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments; assign a new tuple to change them."""
        return self._args

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self._set_arguments(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments; assign a new dict to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Any]) -> None:
        self._set_arguments(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes whose values this one takes, each once."""
        return list(self._input_nodes)

    def _set_arguments(self, args: Any, kwargs: Any) -> None:
        new_args, new_kwargs = map_aggregate(tuple(args), _same), map_aggregate(dict(kwargs), _same)
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._input_nodes = {}
        self._args, self._kwargs = new_args, new_kwargs
        map_arg((new_args, new_kwargs), self._note_use)

    def _note_use(self, node: Node) -> Node:
        self._input_nodes.setdefault(node)
        node.users.setdefault(self)
        return node

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replace one positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Put a positional argument before the one at `idx`."""
        check(
            0 <= idx <= len(self.args),
            AssertionError,
            "insert_args index must be between 0 and len(self.args)",
        )
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Replace or add one keyword argument."""
        self.kwargs = {**self.kwargs, key: arg}

    def prepend(self, x: Node) -> None:
        """Move `x`, a node of the same graph, before this one."""
        check(
            self.graph is x.graph,
            AssertionError,
            "Attempting to move a Node into a different Graph",
        )
        if x is self:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move `x`, a node of the same graph, after this one."""
        self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def __lt__(self, other: Any) -> bool:
        return self._position() < other._position()

    def __gt__(self, other: Any) -> bool:
        return self._position() > other._position()

    def _position(self) -> int:
        return next(i for i, node in enumerate(self.graph.nodes) if node is self)

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Make the users of this node take the value of another; the users that were changed."""
        if propagate_meta:
            check(
                not replace_with.meta,
                AssertionError,
                "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but "
                "replace_with already has .meta keys",
            )
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Take the value of `new_input` wherever that of `old_input` was taken."""

        def swap(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set_arguments(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node must stay even if nothing takes its value."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            name = getattr(self.target, "__name__", "")
            if self.target in _side_effectful_functions or name in ("_assert", "_assert_is_none"):
                return True
            if impure_random and name in _RANDOM:
                return True
            return "out" in self.kwargs or (name.endswith("_") and not name.startswith("_"))
        if self.op == "call_method":
            return bool(self.target.endswith("_") and not self.target.endswith("__"))
        if self.op == "call_module":
            owner = self.graph.owning_module
            check(
                owner is not None,
                AssertionError,
                "self.graph.owning_module not set for purity check",
            )
            return bool(getattr(owner.get_submodule(self.target), "_is_impure", False))
        return False

    @property
    def stack_trace(self) -> str | None:
        """The lines of the program that made the node, if they were recorded."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def _pretty_print_target(self, target: Any) -> str:
        return target if isinstance(target, str) else _get_qualified_name_of_builtin(target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The node as a line of the printed graph; None for one that the heading shows."""
        typed = f"{_type_repr(self.type)} " if self.type else ""
        count = f"[num_users={len(self.users)}]"
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(self.target + (f": {typed.strip()}" if typed else ""))
            default = f"(default={self.args[0]})" if self.args else ""
            return f"%{self.name} : {typed}{count} = {self.op}[target={self.target}]{default}"
        if self.op == "output":
            if self.type and maybe_return_typename is not None:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        target = self._pretty_print_target(self.target)
        head = f"%{self.name} : {typed}{count} = {self.op}[target={target}]"
        if self.op == "get_attr":
            return head
        return f"{head}(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name


def _same(value: Any) -> Any:
    return value


_RANDOM = frozenset(
    "rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial "
    "poisson dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout".split()
)


def _get_qualified_name_of_builtin(func: Any) -> str:
    name = _get_qualified_name(func)
    return f"builtins.{name}" if getattr(builtins, name, None) is func else name


def _format_arg(arg: Any) -> str:
    if isinstance(arg, list):
        return f"[{', '.join(map(_format_arg, arg))}]"
    if isinstance(arg, tuple):
        return f"({', '.join(map(_format_arg, arg))}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {_format_arg(value)}" for key, value in arg.items()) + "}"
    if isinstance(arg, Node):
        return f"%{arg}"
    return str(arg)
