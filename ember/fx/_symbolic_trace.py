"""`Tracer`: runs a module on proxies and gives the graph of what it did."""

from __future__ import annotations

import builtins
import functools  # noqa: F401 (tracers of other packages take it from here)
import math
import sys
import warnings
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from ember import nn
from ember.core.tensor import Tensor
from ember.errors import check
from ember.fx import _pytree
from ember.fx._compatibility import compatibility
from ember.fx.graph import Graph, _PyTreeCodeGen
from ember.fx.graph_module import GraphModule
from ember.fx.node import Node, base_types, map_aggregate
from ember.fx.patching import Patcher
from ember.fx.proxy import ParameterProxy, Proxy, TracerBase
from ember.pytree import tree_flatten, tree_map

__all__ = [
    "PH",
    "PHBase",
    "PHWithMeta",
    "ProxyableClassMeta",
    "compatibility",
    "Tracer",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "symbolic_trace",
    "wrap",
]

# What tracers of other packages, written after PyTorch's, find here.
_orig_module_call: Callable[..., Any] = nn.Module.__call__
_orig_module_getattr: Callable[..., Any] = nn.Module.__getattr__
_Patcher = Patcher

_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}
_wrapped_methods_to_patch: list[tuple[type, str]] = []
_is_tracing = [False]


def is_fx_tracing() -> bool:
    """Whether a Tracer is running."""
    return _is_tracing[0]


def is_fx_symbolic_tracing() -> bool:
    """Whether a Tracer is running."""
    return _is_tracing[0]


class PHBase:
    """In `concrete_args`: a place that stays an argument."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A place that stays an argument, under a name of its own."""

    def __init__(self, ph_key: str | None = None):
        super().__init__()
        self.ph_key = ph_key


class ProxyableClassMeta(type):
    """The metaclass of classes whose construction from proxies becomes a node."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        found: list[Proxy] = []
        map_aggregate((args, kwargs), lambda a: found.append(a) if isinstance(a, Proxy) else None)
        if found:
            return found[0].tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class Tracer(TracerBase):
    """Gives the graph of a module or function by running it on proxies.

    A subclass changes what is followed (`is_leaf_module`), how modules are recorded (`call_module`)
    and what counts as an argument (`create_arg`).

    >>> import ember as torch
    >>> from ember import fx
    >>> [node.op for node in fx.Tracer().trace(torch.nn.ReLU()).nodes]
    ['placeholder', 'call_function', 'output']
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ):
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | {id(function) for function in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Any, str] | None = None
        self.root: Any = None
        self.root_module_name = ""
        self.scope = None
        self.module_stack: dict[str, Any] = {}
        self.num_calls: dict[str, int] = {}
        self.tensor_attrs: dict[Any, str] = {}
        self._qualnames: dict[str, int] = {}

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name of an attribute that the root does not have."""
        number = self._qualnames.get(prefix, 0)
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._qualnames[prefix] = number
        return f"{prefix}{number}"

    def create_arg(self, a: Any) -> Any:
        """A value as an argument: parameters, buffers and modules of the root become `get_attr`
        nodes, other tensors attributes of the root."""
        if isinstance(a, nn.Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            name = self.tensor_attrs.get(a)
            if name is None:
                name = self.get_fresh_qualname("_tensor_constant")
                self.tensor_attrs[a] = name
                setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        if isinstance(a, nn.Module):
            for name, module in self.root.named_modules():
                if a is module:
                    return self.create_node("get_attr", name, (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            parts = tuple(self.create_arg(element) for element in a)
            return self.create_node("call_function", type(a), parts, {})
        if type(type(a)) is ProxyableClassMeta:
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """Whether a module is recorded as one call, not followed: those of torch.nn but
        Sequential."""
        return m.__module__.startswith(("ember.nn", "ember.ao.nn", "torch.nn")) and not isinstance(
            m, nn.Sequential
        )

    def path_of_module(self, mod: Any) -> str:
        """The dotted name of a submodule of the root; NameError if it is none."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is not None:
                return path
        else:
            for name, module in self.root.named_modules():
                if module is mod:
                    return name
        raise NameError("module is not installed as a submodule")

    def call_module(
        self, m: Any, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What a call of a submodule gives: a node for a leaf, what `forward` gives for others."""
        name = self.path_of_module(m)
        if self.is_leaf_module(m, name):
            return self.create_proxy("call_module", name, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What reading an attribute of a module gives: a proxy for a parameter."""
        if not isinstance(attr_val, nn.Parameter):
            return attr_val
        for name, parameter in self.root.named_parameters():
            if attr_val is parameter:
                if name not in parameter_proxy_cache:
                    parameter_proxy_cache[name] = self._parameter_proxy(name, attr_val)
                return parameter_proxy_cache[name]
        return attr_val

    def _parameter_proxy(self, name: str, parameter: Any) -> Proxy:
        if not self.param_shapes_constant:  # subclasses may not know proxy_factory_fn
            return self.create_proxy("get_attr", name, (), {})

        def make(node: Node) -> Proxy:
            return ParameterProxy(self, node, name, parameter)

        return self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=make)

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        """The function to run and its arguments: placeholders, or what `concrete_args` gives."""
        from inspect import CO_VARARGS, CO_VARKEYWORDS, signature, unwrap  # slow to import

        analysed = unwrap(root_fn)
        code = analysed.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        args: list[Any] = [self.root] if is_module else []
        check(
            not is_module or total > 0,
            RuntimeError,
            "``self`` argument cannot be part of *args expansion!",
        )
        own = names[len(args) : total]
        parameters = signature(analysed).parameters
        if isinstance(concrete_args, tuple):
            check(
                len(own) == len(concrete_args),
                RuntimeError,
                f"Tracing expected {len(own)} arguments but got {len(concrete_args)} concrete "
                "arguments",
            )
            concrete_args = dict(zip(own, concrete_args, strict=True))
        args += [self._proxy_placeholder(name, concrete_args, parameters) for name in own]
        flags = code.co_flags
        if code.co_kwonlyargcount or flags & (CO_VARARGS | CO_VARKEYWORDS):
            rest = names[total:]
            if flags & CO_VARARGS:
                args.append(self._proxy_placeholder("*" + rest.pop(0), None, parameters))
            if flags & CO_VARKEYWORDS:
                args.append(self._proxy_placeholder("**" + rest.pop(0), None, parameters))
            root_fn = _with_all_positional(analysed, len(args))
        flat, in_spec = tree_flatten(tuple(args[1:] if is_module else args))
        if not concrete_args or _pytree.is_flat(in_spec):
            return root_fn, args
        codegen = _PyTreeCodeGen((["self"] if is_module else []) + own, (list, None, in_spec[2]))
        self.graph.set_codegen(codegen)

        def flat_fn(*leaves: Any) -> Any:
            given = iter(leaves)
            taken = tree_map(lambda _: next(given), tuple(args[1:] if is_module else args))
            found = root_fn(*([self.root] if is_module else []), *taken)
            result, codegen.out_spec = tree_flatten(found)
            return result

        return flat_fn, list(flat)

    def _proxy_placeholder(self, name: str, concrete_args: Any, parameters: Any) -> Any:
        parameter = parameters.get(name.lstrip("*"))
        empty = parameter is None or parameter.default is parameter.empty or name[0] == "*"
        default = () if empty else (parameter.default,)
        if concrete_args is not None and name in concrete_args:
            counter = iter(range(1, 1 << 30))
            return tree_map(
                lambda value: self._specialized(value, f"{name}_{next(counter)}", name, default),
                concrete_args[name],
            )
        annotation = None
        if parameter is not None and not name.startswith("*"):
            found = parameter.annotation
            annotation = None if found is parameter.empty or isinstance(found, str) else found
        return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)

    def _specialized(self, value: Any, own_name: str, name: str, default: Any) -> Any:
        if isinstance(value, PHWithMeta) and value.ph_key is not None:
            own_name = value.ph_key
        out = self.create_proxy("placeholder", own_name, default, {})
        if isinstance(value, PHBase):
            return out
        told = f"{name} has been specialized to have value {value} but got another value"
        if value is None:
            self.create_proxy("call_function", _assert_is_none, (out, told), {})
        elif isinstance(value, base_types) and not isinstance(value, Tensor):
            self.create_proxy("call_function", assertion(), (out == value, told), {})
        else:
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized "
                "function. It is up to the user to make sure that your inputs match the inputs "
                "you specialized the function with.",
                stacklevel=2,
            )
        return value

    def trace(self, root: Any, concrete_args: Any = None) -> Graph:
        """The graph of a module's `forward` (or of the method `traced_func_name`) or a function.

        TraceError where the program must know a value: in a branch, or as a loop's length.
        """
        before, _is_tracing[0] = _is_tracing[0], True
        try:
            fn = self._begin(root)
            self._collect_tensors()
            check(
                isinstance(fn, FunctionType), AssertionError, f"a function is expected, not {fn!r}"
            )
            fn_globals = fn.__globals__
            fn, args = self.create_args_for_root(fn, isinstance(root, nn.Module), concrete_args)
            with Patcher() as patcher:
                self._patch(patcher, fn_globals)
                result = fn(*args)
                self.create_node("output", "output", (self.create_arg(result),), {}, None, None)
        finally:
            _is_tracing[0] = before
            self.submodule_paths = None
        return self.graph

    def _begin(self, root: Any) -> Any:
        if isinstance(root, nn.Module):
            self.root, self.root_module_name = root, root._get_name()
            check(
                hasattr(type(root), self.traced_func_name),
                AssertionError,
                f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}",
            )
            fn = getattr(type(root), self.traced_func_name)
            self.submodule_paths = {mod: name for name, mod in root.named_modules()}
        else:
            self.root, fn = nn.Module(), root
        module = type(self).__module__
        local = "<locals>" in type(self).__qualname__
        self.graph = Graph(tracer_cls=None if local or module == "__main__" else type(self))
        return fn

    def _collect_tensors(self) -> None:
        self.tensor_attrs = {}
        for prefix, module in self.root.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, Tensor):
                    self.tensor_attrs[value] = f"{prefix}.{name}" if prefix else name

    def _patch(self, patcher: Patcher, fn_globals: dict[str, Any]) -> None:
        module_getattr = nn.Module.__getattr__
        module_call = nn.Module.__call__
        cache: dict[str, Any] = {}

        def read(mod: Any, attr: str) -> Any:
            return self.getattr(attr, module_getattr(mod, attr), cache)

        def call(mod: Any, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return module_call(mod, *args, **kwargs)

            own = getattr(getattr(mod, "forward", mod), "__globals__", {})
            patcher.wrap_names(own, self._autowrap_function_ids)
            return self.call_module(mod, forward, args, kwargs)

        patcher.set(nn.Module, "__getattr__", read)
        patcher.set(nn.Module, "__call__", call)
        _patch_wrapped_functions(patcher)
        patcher.wrap_names(fn_globals, self._autowrap_function_ids)
        for module in self._autowrap_search:
            patcher.wrap_names(vars(module), self._autowrap_function_ids)


class ScriptObject:
    """An object of TorchScript's, for isinstance; nothing is one here."""


def _patch_wrapped_functions(patcher: Patcher) -> None:
    """Record calls of the functions that `wrap` named."""
    for (_, name), frame in _wrapped_fns_to_patch.items():
        found = frame.get(name, getattr(builtins, name, None))
        if found is not None:
            patcher.wrap_item(frame, name, found)
    for cls, name in _wrapped_methods_to_patch:
        patcher.wrap_method(cls, name)


def _autowrap_check(patcher: Patcher, frame: dict[str, Any], function_ids: set[int]) -> None:
    """Record calls of those of some functions that a dict of globals holds."""
    patcher.wrap_names(frame, function_ids)


def assertion() -> Any:
    """`torch._assert`, which checks what an argument was specialised to."""
    return sys.modules["ember"]._assert


def _assert_is_none(value: Any, msg: str) -> None:
    assert value is None, msg


def _with_all_positional(function: Any, count: int) -> Any:
    """The function with keyword-only, `*` and `**` parameters as plain ones, to be given proxies
    for the whole tuple and dict."""
    from inspect import CO_VARARGS, CO_VARKEYWORDS  # slow to import

    code = function.__code__
    changed = code.replace(
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~CO_VARARGS & ~CO_VARKEYWORDS,
    )
    return FunctionType(
        changed, function.__globals__, function.__name__, None, function.__closure__
    )


def wrap(fn_or_name: Any) -> Any:
    """Record calls of a function of this file as nodes, without looking inside; at the top level.

    Takes the function (also as a decorator) or its name, such as "len"; gives it back.
    RuntimeError for anything else; NotImplementedError inside a function.
    """
    check(
        callable(fn_or_name) or isinstance(fn_or_name, str),
        RuntimeError,
        "Unsupported type for global function! Must be either a callable or string name",
    )
    if callable(fn_or_name):
        check(
            not isinstance(fn_or_name, str) and hasattr(fn_or_name, "__name__"),
            AssertionError,
            "fn_or_name must be a global function or string name",
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[(id(frame.f_globals), name)] = frame.f_globals
    return fn_or_name


def symbolic_trace(root: Any, concrete_args: Any = None) -> GraphModule:
    """The module whose graph is what `root`, a module or function, does to its arguments.

    `concrete_args`: arguments to fix, by name, so that branches on them can be followed.
    TraceError where the program must know a value.

    >>> import ember as torch
    >>> from ember import fx
    >>> traced = fx.symbolic_trace(lambda x: x * 2 + 1)
    >>> [node.name for node in traced.graph.nodes], traced(torch.ones(1))
    (['x', 'mul', 'add', 'output'], tensor([3.]))
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root._get_name() if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
