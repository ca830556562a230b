"""`GraphModule`: a module whose `forward` is written from a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
from collections.abc import Callable
from typing import Any

from ember import nn
from ember.core.tensor import Tensor
from ember.errors import check
from ember.fx.codegen import PythonCode
from ember.fx.graph import Graph, _PyTreeCodeGen

__all__ = ["GraphModule", "reduce_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_numbers = itertools.count()
_HOOKS = ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")


def _function_of(code: PythonCode) -> Callable[..., Any]:
    """The function that generated source defines; tracebacks show its lines."""
    file = f"<eval_with_key>.{next(_numbers)}"
    linecache.cache[file] = (len(code.src), None, code.src.splitlines(True), file)
    names = dict(code.globals)
    exec(compile(code.src, file, "exec"), names)
    return names["forward"]  # type: ignore[no-any-return]


def _copy_attr(from_module: Any, to_module: Any, target: str) -> None:
    """Give a module the attribute of another, with the modules on the way to it."""
    *prefix, field = target.split(".")
    for part in prefix:
        source, made = getattr(from_module, part), getattr(to_module, part, None)
        if source is made:
            return
        if made is None:
            made = nn.Module()
            setattr(to_module, part, made)
        from_module, to_module = source, made
    value = getattr(from_module, field)
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        persistent = field not in getattr(from_module, "_non_persistent_buffers_set", ())
        to_module.register_buffer(field, value, persistent=persistent)
    else:
        setattr(to_module, field, value)


def _assign_attr(value: Any, to_module: Any, target: str) -> None:
    *prefix, field = target.split(".")
    for part in prefix:
        made = getattr(to_module, part, None)
        if made is None:
            made = nn.Module()
            setattr(to_module, part, made)
        to_module = made
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        to_module.register_buffer(field, value)
    else:
        setattr(to_module, field, value)


class _CodeOnlyModule(nn.Module):
    """The attributes of a GraphModule without its graph."""

    def __init__(self, body: dict[str, Any]):
        super().__init__()
        self.__dict__ = body


class GraphModule(nn.Module):
    """A module made of a graph: `forward` is its generated code.

    `root` gives the attributes that the graph names: a module, or a dict of dotted names. After a
    change of `graph`, call `recompile()`. RuntimeError if the dict lacks a name.

    >>> import ember as torch
    >>> from ember import fx
    >>> print(fx.symbolic_trace(lambda x: torch.relu(x) + 1).code.strip())
    def forward(self, x):
        relu = torch.relu(x);  x = None
        add = relu + 1;  relu = None
        return add
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Each module gets a class of its own, to hold its own forward.
        base = next(c for c in cls.__mro__ if "_is_generated" not in vars(c))

        class GraphModuleImpl(base):  # type: ignore[misc,valid-type]
            """A class for one graph module."""

            _is_generated = True

        return super().__new__(GraphModuleImpl)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule"):
        super().__init__()
        type(self).__name__ = type(self).__qualname__ = class_name
        check(
            isinstance(root, (nn.Module, dict)),
            RuntimeError,
            f"Unsupported type {root} passed for root!",
        )
        if isinstance(root, nn.Module):
            if hasattr(root, "training"):
                self.training = root.training
            self._copy_attributes(root, graph)
        else:
            self._take_attributes(root, graph)
        for name in _HOOKS:
            self.__dict__[name] = []
        self.__dict__["meta"] = dict(getattr(root, "meta", None) or {})
        self.graph = graph
        self.__dict__["_tracer_cls"] = graph._tracer_cls

    def _copy_attributes(self, root: Any, graph: Graph) -> None:
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _copy_attr(root, self, node.target)

    def _take_attributes(self, root: dict[str, Any], graph: Graph) -> None:
        wanted = [n for n in graph.nodes if n.op in ("get_attr", "call_module")]
        for node in wanted:
            check(
                node.target in root,
                RuntimeError,
                f"Node {node} referenced target {node.target} but that target was not provided in "
                "``root``!",
            )
        for target in sorted({n.target for n in wanted}, key=lambda t: t.count(".")):
            _assign_attr(root[target], self, target)

    @property
    def graph(self) -> Graph:
        """The graph; assigning one recompiles."""
        return self.__dict__["_graph"]  # type: ignore[no-any-return]

    @graph.setter
    def graph(self, g: Graph) -> None:
        check(isinstance(g, Graph), AssertionError, f"Expected a Graph instance, but got {type(g)}")
        g.owning_module = self
        self.__dict__["_graph"] = g
        self.recompile()

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def recompile(self) -> PythonCode:
        """Write `forward` anew from the graph."""
        codegen = self.graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self.__dict__["_in_spec"] = codegen.in_spec
            self.__dict__["_out_spec"] = codegen.out_spec
        written = self.graph.python_code("self")
        self.__dict__["_code"] = written.src
        kind = type(self)
        kind.forward = _function_of(written)  # type: ignore[method-assign]
        return written

    @property
    def code(self) -> str:
        """The source of `forward`."""
        if "_code" not in self.__dict__:
            raise RuntimeError(
                "Code has not been generated yet. Call `recompile()` on the GraphModule first."
            )
        return self.__dict__["_code"]  # type: ignore[no-any-return]

    def add_submodule(self, target: str, m: Any) -> bool:
        """Add a submodule under a dotted name; False if the way to it is blocked."""
        *prefix, field = target.split(".")
        place: Any = self
        for part in prefix:
            child = getattr(place, part, None)
            if child is None:
                child = nn.Module()
                setattr(place, part, child)
            if not isinstance(child, nn.Module):
                return False
            place = child
        place.add_module(field, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take a submodule out; False if there is none of that name."""
        *prefix, field = target.split(".")
        place: Any = self
        for part in prefix:
            place = getattr(place, part, None)
            if not isinstance(place, nn.Module):
                return False
        if not isinstance(getattr(place, field, None), nn.Module):
            return False
        delattr(place, field)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take out the submodules that no node names."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used |= {".".join(parts[: i + 1]) for i in range(len(parts))}
                if node.op == "call_module":
                    for name, _ in self.get_submodule(node.target).named_modules():
                        used.add(f"{node.target}.{name}")
        for name in [n for n, _ in self.named_modules() if n and n not in used]:
            self.delete_submodule(name)

    def print_readable(self, print_output: bool = True, *args: Any, **options: Any) -> str:
        """The code of this module and of the graph modules in it, as a class; printed and
        returned."""
        lines = self.code.strip("\n").split("\n")
        body = "\n".join(f"    {line}" if line.strip() else "" for line in lines)
        text = f"class {self._get_name()}(torch.nn.Module):\n{body.rstrip()}\n"
        for child in self.children():
            if isinstance(child, GraphModule):
                inner = child.print_readable(print_output=False).split("\n")
                text += "\n" + "\n".join(f"    {line}" if line else "" for line in inner)
        if print_output:
            print(text)  # noqa: T201 (what it is for)
        return text

    def to_folder(self, folder: Any, module_name: str = "FxModule") -> None:
        """NotImplementedError: pickle the module, or write `code` yourself."""
        raise NotImplementedError(
            "GraphModule.to_folder(): save the module with torch.save, or write its .code"
        )

    def _deepcopy_init(self) -> Callable[..., None]:
        return GraphModule.__init__

    def __deepcopy__(self, memo: Any) -> Any:
        res = type(self).__new__(type(self))
        memo[id(self)] = res
        fake = _CodeOnlyModule(
            copy.deepcopy({k: v for k, v in self.__dict__.items() if k not in _HOOKS}, memo)
        )
        self._deepcopy_init()(res, fake, fake.__dict__["_graph"], self._get_name())
        for name in ("_state_dict_hooks", "_load_state_dict_pre_hooks", *_HOOKS):
            if name in self.__dict__:
                res.__dict__[name] = copy.copy(self.__dict__[name])
        for name, value in fake.__dict__.items():
            if name not in res.__dict__ or name in ("_parameters", "_buffers", "_modules"):
                if name in ("_parameters", "_buffers", "_modules"):
                    for key, part in value.items():
                        res.__dict__[name].setdefault(key, part)
                else:
                    res.__dict__[name] = value
        for hook in self.__dict__.get("_deepcopy_hooks", ()):
            hook(res)
        return res

    def __copy__(self) -> Any:
        made = GraphModule(self, self.graph, self._get_name())
        made.__dict__["meta"] = self.meta
        return made

    def __reduce__(self) -> Any:
        body = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code", *_HOOKS)}
        return reduce_graph_module, (body, self.graph, self._get_name())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return f"{super().__str__()}\n{self.code}\n{hint}"

    def _replicate_for_data_parallel(self) -> Any:
        replica: Any = self.__copy__()
        replica._is_replica = True
        return replica

    def _register_replace_node_hook(self, f: Any) -> None:
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Any) -> None:
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Any) -> None:
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Any) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Any) -> None:
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Any) -> None:
        self._erase_node_hooks.remove(f)


def reduce_graph_module(body: dict[str, Any], graph: Any, name: str = "GraphModule") -> GraphModule:
    """Build a graph module again from its attributes and graph; how pickles do it.

    NotImplementedError for a pickle of PyTorch's, which holds source code in place of the graph.
    """
    check(
        isinstance(graph, Graph),
        NotImplementedError,
        "this GraphModule was pickled by PyTorch as source code, which is not run here; save its "
        "state_dict and trace the model again",
    )
    module = GraphModule(_CodeOnlyModule(body), graph, name)
    for key, value in body.items():
        if key not in module.__dict__:
            module.__dict__[key] = value
    return module
