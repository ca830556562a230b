"""`torch.library`: operators of your own, called as `torch.ops.NAMESPACE.NAME`, with kernels by
device, gradients, and shapes for tensors without elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.errors import check
from ember.library.annotations import infer_schema
from ember.library.custom_ops import CustomOpDef, custom_op
from ember.library.operators import Operator, add_kernel, dispatch_key, operator_of
from ember.missing import missing_attribute
from ember.ops.packets import find, namespace
from ember.ops.schemas import FunctionSchema

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
]
_RESERVED = ("prim",)
_defined: set[str] = set()  # namespaces that a Library of kind DEF has


class Library:
    """The operators of one namespace: kind "DEF" defines them (once a program), "FRAGMENT" adds to
    them, "IMPL" gives kernels.

    >>> import ember as torch
    >>> library = torch.library.Library("docs_library", "DEF")
    >>> library.define("plus(Tensor x, int n=1) -> Tensor")
    'plus'
    >>> library.impl("plus", lambda x, n=1: x + n, "CPU")
    >>> torch.ops.docs_library.plus(torch.zeros(2), 3)
    tensor([3., 3.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = ""):
        check(kind in ("IMPL", "DEF", "FRAGMENT"), ValueError, f"Unsupported kind: {kind}")
        check(
            ns not in _RESERVED or kind == "IMPL",
            ValueError,
            f"{ns} is a reserved namespace. Please try creating a library with another name.",
        )
        if kind == "DEF":
            check(
                ns not in _defined,
                RuntimeError,
                "Only a single TORCH_LIBRARY can be used to register the namespace "
                f"{ns}; please put all of your definitions in one Library, or use kind 'FRAGMENT'.",
            )
            _defined.add(ns)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._own: list[tuple[str, str]] = []

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator by its schema, and return its name. RuntimeError if it is defined."""
        check(
            alias_analysis in ("", "FROM_SCHEMA", "CONSERVATIVE"),
            RuntimeError,
            f"Invalid alias_analysis type {alias_analysis}",
        )
        parsed = FunctionSchema(f"{self.ns}::{schema.strip()}")
        overload = parsed.overload_name or "default"
        check(
            find(f"{parsed.name}.{overload}") is None,
            RuntimeError,
            f"Tried to register an operator ({parsed}) with the same name and overload name "
            "multiple times. Each overload's schema should only be registered with a single call "
            "to def().",
        )
        Operator(parsed)
        name = parsed.name.partition("::")[2]
        self._own.append((name, overload))
        return name if overload == "default" else f"{name}.{overload}"

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
    ) -> None:
        """Give an operator a kernel for a dispatch key: "CPU", "CUDA", "Meta", "Autograd" or the
        default "CompositeImplicitAutograd"."""
        check(
            callable(fn),
            TypeError,
            f"Input function is required to be a callable but found type {type(fn)}",
        )
        if not isinstance(op_name, str):
            op_name = op_name.name().partition("::")[2]
        qualified = op_name if "::" in op_name else f"{self.ns}::{op_name}"
        key = _key(dispatch_key or self.dispatch_key or "CompositeImplicitAutograd")
        add_kernel(qualified, key, fn)

    def fallback(self, fn: Callable[..., Any], dispatch_key: str = "", **options: Any) -> None:
        """Fallback kernels for all operators are not supported."""
        raise NotImplementedError(
            "Library.fallback(): register kernels operator by operator, or use a "
            "TorchFunctionMode to see all calls"
        )

    def _destroy(self) -> None:
        """Forget what this library defined."""
        for name, overload in self._own:
            packet = namespace(self.ns).packet(name)
            packet._overloads.pop(overload, None)
            if not packet._overloads:
                namespace(self.ns).packets.pop(name, None)
        self._own.clear()
        if self.kind == "DEF":
            _defined.discard(self.ns)


_key = dispatch_key


def define(qualname: str, schema: Any = None, *, lib: Library | None = None, tags: Any = ()) -> Any:
    """Define the operator "namespace::name" by its schema: define("lib::twice", "(Tensor x) ->
    Tensor")."""
    check(isinstance(qualname, str), ValueError, f"define(qualname): {qualname!r} is no string")
    ns, separator, name = qualname.partition("::")
    check(separator, ValueError, f"define(): the name is 'namespace::name', not {qualname!r}")
    (lib or Library(ns, "FRAGMENT")).define(name + schema, tags=tags)


def impl(
    qualname: str, types: Any, func: Callable[..., Any] | None = None, *, lib: Library | None = None
) -> Any:
    """Give an operator a kernel for device types ("cpu", "cuda", "default" for all) or dispatch
    keys; a decorator without `func`."""
    wanted = (types,) if isinstance(types, str) else types

    def register(func: Callable[..., Any]) -> None:
        for kind in wanted:
            add_kernel(qualname, dispatch_key(kind), func)

    return register if func is None else register(func)


def register_kernel(
    op: Any,
    device_types: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Give an operator a kernel for device types; a decorator without `func`."""
    types = (device_types,) if isinstance(device_types, str) else device_types

    def register(func: Callable[..., Any]) -> Callable[..., Any]:
        operator = operator_of(op)
        for kind in ("default",) if types is None else types:
            operator.kernels[dispatch_key(kind)] = func
        return func

    return register if func is None else register(func)


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """Give an operator the function for tensors on the meta device: it makes results of the right
    shape without computing. A decorator without `func`."""

    def register(func: Callable[..., Any]) -> Callable[..., Any]:
        operator_of(op).fake = func
        return func

    return register if func is None else register(func)


def impl_abstract(qualname: str, func: Any = None, *, lib: Any = None, _stacklevel: int = 1) -> Any:
    """The older name of `register_fake`."""
    return register_fake(qualname, func, lib=lib)


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """Give an operator its gradient: `setup_context(ctx, inputs, output)` saves what `backward(ctx,
    *grads)` needs; it returns one gradient (or None) for each input.

    >>> import ember as torch
    >>> @torch.library.custom_op("docs::cube", mutates_args=())
    ... def cube(x: torch.Tensor) -> torch.Tensor:
    ...     return x**3
    >>> torch.library.register_autograd(
    ...     "docs::cube",
    ...     lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2,
    ...     setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    ... )
    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> torch.autograd.grad(cube(x).sum(), x)
    (tensor([12.]),)
    """
    operator = operator_of(op)
    check(
        not operator.schema.is_mutable,
        RuntimeError,
        f"Cannot register autograd formula for non-functional operator {op} with schema "
        f"{operator.schema}. Please create a functional operator and register an autograd formula "
        "for that.",
    )
    operator.backward, operator.setup_context = backward, setup_context


def register_autocast(
    op: Any, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None
) -> None:
    """Cast the floating-point inputs of an operator inside autocast blocks of a device type."""
    operator_of(op).autocast[device_type] = cast_inputs


def register_vmap(op: Any, func: Any = None, /, *, lib: Library | None = None) -> Any:
    """Keep an operator's rule for batches: `func(info, in_dims, *args)`."""

    def register(func: Callable[..., Any]) -> Callable[..., Any]:
        operator_of(op).kernels["FuncTorchBatched"] = func
        return func

    return register if func is None else register(func)


def register_torch_dispatch(
    op: Any, torch_dispatch_class: Any, func: Any = None, /, *, lib: Library | None = None
) -> Any:
    """Rules for `__torch_dispatch__` classes are not supported."""
    raise NotImplementedError(
        "register_torch_dispatch(): operators ask __torch_function__ in Ember; give the class one"
    )


class FakeContext:
    """What `get_ctx` gives inside a fake kernel."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        """A size that only the data tells: NotImplementedError, there are no symbolic sizes."""
        raise NotImplementedError(
            "new_dynamic_size(): tensors on the meta device have sizes that are numbers, so an "
            "operator whose result's size depends on the data has no result there"
        )

    create_unbacked_symint = new_dynamic_size


def get_ctx() -> FakeContext:
    """The context of the fake kernel that runs."""
    return FakeContext()


def get_kernel(op: Any, dispatch_key: str) -> Callable[..., Any]:
    """The kernel of an operator for a dispatch key."""
    operator = operator_of(op)
    check(
        dispatch_key in operator.kernels,
        RuntimeError,
        f"{operator.qualname} has no kernel for {dispatch_key}",
    )
    return operator.kernels[dispatch_key]


def fallthrough_kernel(*args: Any, **kwargs: Any) -> Any:
    """A kernel that passes a call on cannot be called."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


_LEFT_OUT = {
    "opcheck": "compare the operator with its formula, and use torch.autograd.gradcheck",
    "triton_op": "there is no Triton; define the operator with custom_op",
    "wrap_triton": "there is no Triton; define the operator with custom_op",
}


def __getattr__(name: str) -> Any:
    if name in _LEFT_OUT:

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError(
                f"torch.library.{name} is not part of Ember: {_LEFT_OUT[name]}"
            )

        return refuse
    raise missing_attribute("torch.library", name, lambda: __all__)
