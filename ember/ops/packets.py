"""`torch.ops`: namespaces of operators; an operator is a packet of overloads.

`torch.ops.aten` holds Ember's own ops under their names; libraries add namespaces
(`torch.library`).
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ember.core.registry import NAMESPACES
from ember.core.tensor import Tensor
from ember.ops.schemas import FunctionSchema

# The overloads that ATen's operators have; all of one name are the same function here.
OVERLOADS = frozenset(
    (
        "default Tensor Scalar out int dim dim_IntList Tensor_Scalar Tensor_Tensor Scalar_Tensor "
        "Scalar_out Tensor_out dim_max dim_min start start_step sizes other self Scalar_mode "
        "Tensor_mode src value correction unbiased vec p low generator ScalarOpt_dim dtype "
        "dtype_layout device this int_Tensor Tensor_indices sections indices reduce value_reduce "
        "values stable padding memory_format size data list float self_int self_Tensor two msg"
    ).split()
)


class OpOverload:
    """One operator with one schema; calling it runs it."""

    def __init__(
        self, packet: OpOverloadPacket, overload: str, run: Callable[..., Any], schema: Any = None
    ):
        self._packet, self._overloadname, self._op = packet, overload, run
        self._opname, self.namespace = packet._opname, packet._namespace
        self.__name__ = f"{packet._opname}.{overload}"
        self.__qualname__, self.__module__ = str(self), f"torch._ops.{self.namespace}"
        self.__doc__ = getattr(run, "__doc__", None)
        self.tags: list[Any] = []
        self._known_schema = schema

    @property
    def _schema(self) -> Any:
        if self._known_schema is None:
            self._known_schema = _schema_of(self)
        return self._known_schema

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """The operator that this is an overload of."""
        return self._packet

    @property
    def op(self) -> Callable[..., Any]:
        """The function that runs."""
        return self._op

    def name(self) -> str:
        """ "namespace::operator.overload"."""
        tail = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self.namespace}::{self._opname}{tail}"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._op(*args, **kwargs)

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        return (
            f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"
        )

    def __copy__(self) -> OpOverload:
        return self

    def __deepcopy__(self, memo: Any) -> OpOverload:
        return self


class OpOverloadPacket:
    """An operator: its overloads are attributes; calling it calls the one that fits."""

    def __init__(self, namespace: str, name: str, run: Callable[..., Any] | None):
        self._namespace, self._opname, self._run = namespace, name, run
        self._qualified_op_name = f"{namespace}::{name}"
        self.__name__, self.__module__ = name, f"torch._ops.{namespace}"
        self.__doc__ = getattr(run, "__doc__", None)
        self._overloads: dict[str, OpOverload] = {}

    def add(self, overload: str, run: Callable[..., Any], schema: Any) -> OpOverload:
        """A new overload of this operator."""
        made = self._overloads[overload] = OpOverload(self, overload, run, schema)
        return made

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        return list(self._overloads) or ["default"]

    def __getattr__(self, overload: str) -> Any:
        if overload.startswith("__"):
            raise AttributeError(overload)
        found = self._overloads.get(overload)
        if found is not None:
            return found
        if self._run is None or overload not in OVERLOADS:
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{overload}'")
        return self.add(overload, self._run, None)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self._run is not None:
            return self._run(*args, **kwargs)
        overloads = list(self._overloads.values())
        for overload in overloads[:-1]:
            try:
                overload._schema.bind(args, kwargs)
            except RuntimeError:
                continue
            return overload(*args, **kwargs)
        return overloads[-1](*args, **kwargs)

    def __str__(self) -> str:
        return f"{self._namespace}.{self._opname}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __copy__(self) -> OpOverloadPacket:
        return self

    def __deepcopy__(self, memo: Any) -> OpOverloadPacket:
        return self


class OpNamespace(ModuleType):
    """The operators of one library, as attributes."""

    def __init__(self, name: str):
        super().__init__(f"torch.ops.{name}")
        self.name = name
        self.packets: dict[str, OpOverloadPacket] = {}

    def packet(self, name: str) -> OpOverloadPacket:
        """The operator of that name, made if there is none."""
        if name not in self.packets:
            self.packets[name] = OpOverloadPacket(self.name, name, None)
        return self.packets[name]

    def __getattr__(self, name: str) -> OpOverloadPacket:
        found = self.packets.get(name)
        if found is None and self.name in ("aten", "prims") and not name.startswith("__"):
            run = aten_function(name)
            if run is not None:
                found = self.packets[name] = OpOverloadPacket(self.name, name, run)
        if found is None:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        return found

    def __dir__(self) -> list[str]:
        return sorted(self.packets)

    def __repr__(self) -> str:
        return f"<module 'torch.ops.{self.name}' from 'torch.ops'>"


_namespaces: dict[str, OpNamespace] = {}


def namespace(name: str) -> OpNamespace:
    """The namespace of that name: `torch.ops.NAME`."""
    if name not in _namespaces:
        _namespaces[name] = OpNamespace(name)
    return _namespaces[name]


def find(qualified: str) -> OpOverload | None:
    """The overload named "namespace::operator[.overload]"; None if it is not defined."""
    place, _, rest = qualified.partition("::")
    name, _, overload = rest.partition(".")
    packet = _namespaces[place].packets.get(name) if place in _namespaces else None
    return None if packet is None else packet._overloads.get(overload or "default")


def load_library(path: Any) -> None:
    """Load operators compiled for PyTorch: OSError, for they call into PyTorch's own C++."""
    raise OSError(
        f"Could not load this library: {path}. It is compiled against PyTorch's C++ library, which "
        "is not part of Ember; operators written in Python are defined with torch.library.custom_op"
    )


loaded_libraries: set[str] = set()
_PLACES = (("linalg_", "linalg"), ("fft_", "fft"), ("special_", "special"))


def aten_function(name: str) -> Callable[..., Any] | None:
    """Ember's function for an ATen operator, or None."""
    from_table = ATEN.get(name)
    if from_table is not None:
        return from_table
    for prefix, place in _PLACES:
        if name.startswith(prefix):
            return NAMESPACES[place].get(name[len(prefix) :]) or _declared(place, name, prefix)
    for place in ("torch", "Tensor", "nn.functional"):
        try:
            found = NAMESPACES[place][name]
        except KeyError:
            continue
        if callable(found):
            return found
    method = getattr(Tensor, name, None)
    return method if callable(method) and not name.startswith("__") else None


def _declared(place: str, name: str, prefix: str) -> Any:
    try:
        return NAMESPACES[place][name[len(prefix) :]]
    except KeyError:
        return None


def _schema_of(overload: OpOverload) -> FunctionSchema:
    """The schema of one of Ember's own ops, as far as its parameters tell."""
    plain = getattr(overload._op, "__wrapped__", overload._op)
    names = getattr(plain, "parameters", None)
    if names is None:
        code = getattr(plain, "__code__", None)
        names = code.co_varnames[: code.co_argcount] if code is not None else ("self",)
    first, *rest = names or ("self",)
    listed = ", ".join([f"Tensor {first}", *(f"Any {name}=None" for name in rest)])
    return FunctionSchema(f"{overload.name()}({listed}) -> Tensor")


ATEN: dict[str, Callable[..., Any]] = {}
