"""`Proxy`: a value that is not known yet; what is done to it becomes nodes of a graph."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ember.core import modes
from ember.core.tensor import Tensor
from ember.errors import check
from ember.fx.codegen import INFIX
from ember.fx.graph import Graph
from ember.fx.node import Node, base_types, map_aggregate

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "TraceError",
    "TracerBase",
]


class TraceError(ValueError):
    """A program that cannot be traced, because it must know a value."""


class TracerBase:
    """Makes nodes and proxies: what tracers share."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A new node at the end of the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """The proxy for a node's value."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """A new node of arguments that may hold proxies, and its proxy."""
        args_, kwargs_ = self.create_arg(args), self.create_arg(kwargs)
        check(isinstance(args_, tuple), AssertionError, "args must be a tuple")
        node = self.create_node(kind, target, args_, kwargs_, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """A value as an argument of a node; NotImplementedError for what cannot be one."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            parts = [self.create_arg(element) for element in a]
            return type(a)(*parts) if hasattr(a, "_fields") else type(a)(parts)
        if isinstance(a, list):
            return [self.create_arg(element) for element in a]
        if isinstance(a, dict):
            return {self._key(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(*(self.create_arg(part) for part in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*(self.create_arg(part) for part in (a.start, a.stop, a.step)))
        if a is None or a is ... or isinstance(a, (*base_types, Node)) or _is_constant(a):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    @staticmethod
    def _key(key: Any) -> Any:
        check(
            not isinstance(key, Proxy),
            RuntimeError,
            "Keys for dictionaries used as an argument cannot contain a Node",
        )
        return key

    def to_bool(self, obj: Proxy) -> bool:
        """TraceError: a branch needs a value. Subclasses may know better."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """TraceError: a loop needs a length; unpacking into names is found by Proxy."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument. See the torch.fx docs on "
            "pytorch.org for a more detailed explanation of what types of control flow can be "
            "traced, and check out the Proxy docstring for help troubleshooting Proxy iteration "
            "errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """What `**proxy` asks for: a node that calls `keys`."""
        return Attribute(obj, "keys")()


def _is_constant(a: Any) -> bool:
    """Functions, classes and members of enumerations, which code can name."""
    return isinstance(a, type) or (callable(a) and hasattr(a, "__name__")) or hasattr(a, "_name_")


class GraphAppendingTracer(TracerBase):
    """The tracer of proxies made by hand: it adds to a graph."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.scope = None
        self.module_stack: dict[str, Any] = {}


class Proxy:
    """Stands for the value of a node; operators, attributes, methods and torch functions of it add
    nodes to the graph.

    >>> import ember as torch
    >>> from ember import fx
    >>> x = fx.Proxy(fx.Graph().placeholder("x"))
    >>> torch.relu(x + 1)
    Proxy(relu)
    """

    def __init__(self, node: Node, tracer: Any = None):
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node
        modes.SPECIAL[0] += 1  # while a proxy lives, ops look for it among their arguments

    def __del__(self) -> None:
        if modes is not None:  # None once the interpreter shuts down
            modes.SPECIAL[0] -= 1

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        if k in ("node", "tracer"):
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError("a Proxy cannot be copied: what is traced must not deep-copy its inputs")

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Any:
        frame = sys._getframe(1)
        count = _names_unpacked_into(frame)
        return (self[i] for i in range(count)) if count else self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """What `**proxy` asks for."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: Any = None, kwargs: Any = None
    ) -> Proxy:
        """Make a call of a torch function a node."""
        args, kwargs = args or (), kwargs or {}
        tracers: dict[Any, None] = {}

        def note(value: Any) -> Any:
            if isinstance(value, Proxy):
                tracers[value.tracer] = None
            return value

        map_aggregate(args, note)
        map_aggregate(kwargs, note)
        check(
            len(tracers) == 1,
            RuntimeError,
            f"Found multiple different tracers {list(tracers)} while trying to trace operations "
            f"{orig_method}",
        )
        tracer = next(iter(tracers))
        if _is_method(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


def _is_method(function: Any) -> bool:
    """Whether this is a method of Tensor alone, such as the in-place ones."""
    name = getattr(function, "__name__", "")
    root = sys.modules["ember"]
    own = getattr(Tensor, name, None) is function
    return own and getattr(root, name, None) is not function


def _names_unpacked_into(frame: Any) -> int:
    """How many names the running line of a frame unpacks a value into; 0 if it does not."""
    import dis  # slow to import, and only needed here

    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return int(instruction.argval) if instruction.opname == "UNPACK_SEQUENCE" else 0
    return 0


class Attribute(Proxy):
    """An attribute of a proxy: a node of `getattr` once it is used, or a method that is called."""

    def __init__(self, root: Proxy, attr: str):
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None
        modes.SPECIAL[0] += 1

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute, made when first asked for."""
        if self._node is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = made.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A proxy for a parameter, whose shape is known."""

    def __init__(self, tracer: Any, node: Node, name: str, param: Any):
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The parameter's shape."""
        return self.param.shape

    def size(self) -> Any:
        """The parameter's shape."""
        return self.param.size()

    def dim(self) -> int:
        """The parameter's number of dims."""
        return int(self.param.dim())

    @property
    def ndim(self) -> int:
        """The parameter's number of dims."""
        return int(self.param.ndim)

    def numel(self) -> int:
        """The parameter's number of elements."""
        return int(self.param.numel())

    def nelement(self) -> int:
        """The parameter's number of elements."""
        return int(self.param.nelement())


def _install_operator(name: str) -> None:
    target = getattr(operator, name)

    def record(self: Any, *args: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", target, (self, *args), {})

    def reflected(self: Any, other: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", target, (other, self), {})

    plain = name.strip("_")
    setattr(Proxy, f"__{plain}__", record)
    if name in INFIX and plain not in ("eq", "ne", "lt", "gt", "le", "ge"):
        setattr(Proxy, f"__r{plain}__", reflected)


for _name in (*INFIX, "getitem", "pos", "neg", "invert"):
    _install_operator(_name)
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]
