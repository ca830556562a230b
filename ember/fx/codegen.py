"""Python source for a graph: one line a node, and the globals that the lines name."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

from ember import pytree
from ember.core.tensor import Tensor
from ember.device import device
from ember.dtypes import dtype
from ember.fx import _pytree as fx_pytree
from ember.fx.namespace import RESERVED, Namespace
from ember.fx.node import Node, _get_qualified_name, _type_repr, map_arg

__all__ = ["CodeGen", "PythonCode"]

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**",
    "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "matmul": "@",
    "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=",
}  # fmt: skip
magic_methods = {name: f"{{}} {sign} {{}}" for name, sign in INFIX.items()}
magic_methods |= {"getitem": "{}[{}]", "pos": "+{}", "neg": "-{}", "invert": "~{}"}
inplace_methods = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}",
    "imod": "{} %= {}", "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}",
    "ipow": "{} **= {}", "irshift": "{} >>= {}", "isub": "{} -= {}", "itruediv": "{} /= {}",
    "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}  # fmt: skip


UNKNOWN = "unknown"  # the shape of a result that was not traced


class PythonCode(NamedTuple):
    """Source, and the globals that it needs."""

    src: str
    globals: dict[str, Any]


def first_globals() -> dict[str, Any]:
    """What every generated function may name."""
    return {
        "inf": float("inf"),
        "nan": float("nan"),
        "NoneType": type(None),
        "torch": sys.modules["ember"],
        "device": device,
        "fx_pytree": fx_pytree,
        "pytree": pytree,
    }


class _Writer:
    """Writes one graph, gathering the globals."""

    def __init__(self, graph: Any, root: str, verbose: bool):
        self.graph, self.root, self.verbose = graph, root, verbose
        self.globals = first_globals()
        self.names = Namespace()
        self.names._used |= {node.name for node in graph.nodes} | RESERVED
        self.lines: list[str] = []
        self.arguments: list[str] = []
        self.wrapped: list[str] = []
        self.returns = ""
        self.last_uses = _last_uses(graph.nodes)

    def global_name(self, hint: str, obj: Any) -> str:
        """How the source names a function or class."""
        if getattr(builtins, getattr(obj, "__name__", ""), None) is obj:
            return str(obj.__name__)
        if hint.startswith("torch.") and _resolves(hint, obj):
            return hint
        if obj is type(None):
            return "NoneType"
        if hint.startswith("operator."):
            hint = f"_{hint}"
        name = self.names.create_name(hint.replace(".", "_"), obj)
        self.globals[name] = obj
        return name

    def type_name(self, obj: Any) -> str:
        """How the source names an annotation."""
        origin = getattr(obj, "__origin__", None)
        if obj == () or origin is None:
            named = isinstance(obj, type)
            hint = "torch.Tensor" if obj is Tensor else _type_repr(obj)
            return self.global_name(hint, obj) if named else _bare(self, hint, obj)
        return _bare(self, _type_repr(obj), obj)

    def text(self, arg: Any) -> str:
        """An argument as source."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple):
            inner = ", ".join(map(self.text, arg))
            if hasattr(arg, "_fields"):
                return f"{self.global_name(_type_repr(type(arg)), type(arg))}({inner})"
            return f"({inner}{',' if len(arg) == 1 else ''})"
        if isinstance(arg, list):
            return f"[{', '.join(map(self.text, arg))}]"
        if isinstance(arg, dict):
            return "{" + ", ".join(f"{k!r}: {self.text(v)}" for k, v in arg.items()) + "}"
        if isinstance(arg, slice):
            return f"slice({', '.join(map(self.text, (arg.start, arg.stop, arg.step)))})"
        if isinstance(arg, Enum):
            return f"{self.global_name(_type_repr(type(arg)), type(arg))}.{arg.name}"
        if isinstance(arg, (dtype, device)):
            return repr(arg)
        if isinstance(arg, type) or (callable(arg) and not isinstance(arg, Tensor)):
            return self.global_name(_get_qualified_name(arg), arg)
        if repr(type(arg)).startswith("<class 'ember.ops.formats"):
            return repr(arg)
        return repr(arg)

    def call(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        """Arguments between the parentheses of a call."""
        parts = [self.text(a) for a in args] + [f"{k} = {self.text(v)}" for k, v in kwargs.items()]
        return ", ".join(parts)

    def write(self, node: Node) -> None:
        """Add the line of a node."""
        typed = f" : {self.type_name(node.type)}" if node.type is not None else ""
        if node.op == "placeholder":
            default = f" = {self.text(node.args[0])}" if node.args else ""
            self.arguments.append(f"{node.target}{typed}{default}")
            raw = node.target.replace("*", "")
            if raw != repr(node):
                self.lines.append(f"{node!r} = {raw}")
            return
        if node.op == "output":
            if node.type is not None:
                self.returns = f" -> {self.type_name(node.type)}"
            self.lines.append(self.graph._codegen.generate_output(node.args[0], self.text))
            return
        self.lines.append(self.line(node, f"{node!r}{typed}") + self.deletions(node))

    def line(self, node: Node, left: str) -> str:
        """The statement that computes a node."""
        if node.op == "get_attr":
            return f"{left} = {_format_target(self.root, node.target)}"
        if node.op == "call_module":
            called = _format_target(self.root, node.target)
            return f"{left} = {called}({self.call(node.args, node.kwargs)})"
        args = node.args
        if node.op == "call_method":
            owner = self.text(args[0])
            called = _format_target(owner, node.target)
            return f"{left} = {called}({self.call(args[1:], node.kwargs)})"
        target: Any = node.target
        name = target.__name__ if getattr(target, "__module__", "") == "_operator" else ""
        if name in magic_methods and not node.kwargs:
            return f"{left} = {magic_methods[name].format(*map(self.text, args))}"
        if name in inplace_methods and not node.kwargs:
            done = inplace_methods[name].format(*map(self.text, args))
            return f"{done};  {left} = {self.text(args[0])}"
        is_attribute = target is getattr and len(args) == 2 and isinstance(args[1], str)
        if is_attribute and args[1].isidentifier() and isinstance(args[0], Node):
            return f"{left} = {_format_target(repr(args[0]), args[1])}"
        called = self.global_name(_get_qualified_name(target), target)
        if node.meta.get("is_wrapped") and called not in self.wrapped:
            self.wrapped.append(called)
        return f"{left} = {called}({self.call(args, node.kwargs)})"

    def deletions(self, node: Node) -> str:
        """The end of a line that lets go of what is used no more."""
        gone = self.last_uses.get(node, [])
        return f";  {' = '.join(repr(n) for n in gone)} = None" if gone else ""


def _bare(writer: _Writer, hint: str, obj: Any) -> str:
    return writer.global_name(f"type_{hint}", obj)


def _resolves(path: str, obj: Any) -> bool:
    found: Any = sys.modules["ember"]
    for part in path.split(".")[1:]:
        found = getattr(found, part, None)
    return found is obj


def _format_target(base: str, target: str) -> str:
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


def _last_uses(nodes: Any) -> dict[Node, list[Node]]:
    """For each node, those that are used for the last time in its line."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for user in reversed(list(nodes)):
        gone: list[Node] = []

        def note(node: Node, gone: list[Node] = gone) -> Node:
            if node not in seen:
                seen.add(node)
                gone.append(node)
            return node

        map_arg((user.args, user.kwargs), note)
        if user not in seen and user.op not in ("output", "placeholder"):
            gone.append(user)
        found[user] = gone
    return found


class CodeGen:
    """Writes a graph as the source of `forward`; subclasses change how it begins and ends."""

    def __init__(self) -> None:
        self._body_transformer: Any = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The `def` line, and what comes before the body."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any, text: Any = repr) -> str:
        """The return statement."""
        return f"return {text(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """The arguments of the function as values of the placeholders."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What the graph returns as what the function returns."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Further globals of the source."""
        return []

    def python_code(self, graph: Any, root_module: str, verbose: bool = False) -> PythonCode:
        """The source of a graph."""
        writer = _Writer(graph, root_module, verbose)
        for node in graph.nodes:
            writer.write(node)
        for name, value in self.additional_globals():
            writer.globals[name] = value
        lines = writer.lines or ["pass"]
        if self._body_transformer is not None:
            lines = self._body_transformer(lines)
        head = self.gen_fn_def(writer.arguments, writer.returns)
        body = "\n".join(f"    {line.rstrip()}" for line in lines)
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in writer.wrapped)
        return PythonCode(f"\n{wraps}\n\n{head}\n{body}\n    ", writer.globals)


class _PyTreeCodeGen(CodeGen):
    """Code whose function takes and returns nested arguments."""

    def __init__(self, orig_args: list[str], in_spec: Any, out_spec: Any = UNKNOWN):
        super().__init__()
        self.orig_args, self.in_spec, self.out_spec = orig_args, in_spec, out_spec

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The `def` line with the original arguments, and a line that takes them apart."""
        names = [name.partition(" ")[0].partition(":")[0].lstrip("*") for name in free_vars]
        head = super().gen_fn_def(list(self.orig_args), maybe_return_annotation)
        given = ", ".join(name.lstrip("*") for name in self.orig_args if name != "self")
        flat = f"fx_pytree.tree_flatten_spec([{given}], self._in_spec)"
        return f"{head}\n    {', '.join(names)}, = {flat}" if names else head

    def generate_output(self, output_args: Any, text: Any = repr) -> str:
        """The return statement, which puts the result together again."""
        if self.out_spec is UNKNOWN:
            return super().generate_output(output_args, text)
        return f"return pytree.tree_unflatten({text(output_args)}, self._out_spec)"

    def process_inputs(self, *args: Any) -> Any:
        """The leaves of the arguments."""
        return fx_pytree.tree_flatten_spec(list(args), self.in_spec)

    def process_outputs(self, outputs: Any) -> Any:
        """The result put together again."""
        if self.out_spec is UNKNOWN:
            return outputs
        return pytree.tree_unflatten(list(outputs), self.out_spec)
