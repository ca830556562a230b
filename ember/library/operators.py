"""Operators that programs define: their kernels by device, their gradients, what they do on tensors
without elements."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ember.autograd.function import Function
from ember.core import modes
from ember.core.dispatch import overridden
from ember.core.tensor import Tensor, needs_grad
from ember.errors import check
from ember.ops.packets import OpOverload, find, namespace
from ember.ops.schemas import FunctionSchema
from ember.pytree import tree_flatten, tree_leaves, tree_unflatten

_KEYS = {"default": "CompositeExplicitAutograd", "cpu": "CPU", "cuda": "CUDA", "meta": "Meta"}
_ANY_DEVICE = ("CompositeExplicitAutograd", "CompositeImplicitAutograd")


def dispatch_key(text: str) -> str:
    """The key of a device type, or the key itself: "cpu" -> "CPU"."""
    return _KEYS.get(text, text)


pending: dict[str, dict[str, Callable[..., Any]]] = {}  # kernels that came before the operator


def add_kernel(qualname: str, key: str, kernel: Callable[..., Any]) -> None:
    """Give an operator a kernel; one that is not defined yet gets it when it is."""
    found = find(qualname)
    if found is None:
        pending.setdefault(qualname, {})[key] = kernel
    else:
        operator_of(found).kernels[key] = kernel


class Operator:
    """What `torch.ops.NAMESPACE.NAME` runs: a schema and kernels by dispatch key."""

    def __init__(self, schema: FunctionSchema, is_custom: bool = False):
        self.schema, self.is_custom = schema, is_custom
        self.kernels: dict[str, Callable[..., Any]] = pending.pop(schema.name, {})
        self.disabled: set[str] = set()
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.autocast: dict[str, Any] = {}
        self.overload: OpOverload = _placed(self)

    @property
    def qualname(self) -> str:
        """ "namespace::name"."""
        return self.schema.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if modes.SPECIAL[0]:
            found = overridden(self.overload, args, kwargs)
            if found is not NotImplemented:
                return found
        values = self.schema.bind(args, kwargs)
        if modes.state.levels:
            found = import_module("ember.library.batched").run(self, values)
            if found is not NotImplemented:
                return found
        tensors = [t for t in tree_leaves(list(values.values())) if isinstance(t, Tensor)]
        device = next((t.device.type for t in tensors if t.device.type != "cpu"), "cpu")
        if device in self.autocast and modes.autocast_state(device)[0]:
            values = _cast(values, self.autocast[device])
        recording = modes.state.grad and any(needs_grad(t) for t in tensors)
        if modes.state.grad:
            above = self.kernels.get("Autograd") or self.kernels.get(f"Autograd{device.upper()}")
            if above is not None:
                return self._run(above, values)
        kernel = self.kernel(device)
        if recording and (self.backward is not None or self.is_custom):
            return self._recorded(kernel, values)
        return self._run(kernel, values)

    def kernel(self, device: str) -> Callable[..., Any]:
        """The kernel for a device type. NotImplementedError if there is none."""
        if device == "meta":
            found = self.fake or self.kernels.get("Meta")
            found = found or self.kernels.get("CompositeImplicitAutograd")
            check(found is not None, *self._no_fake())
            return found  # type: ignore[return-value]
        for key in (dispatch_key(device), *_ANY_DEVICE):
            if key in self.kernels and key not in self.disabled:
                return self.kernels[key]
        there = ", ".join(self.kernels) or "none"
        raise NotImplementedError(
            f"Could not run '{self.qualname}' with arguments from the '{dispatch_key(device)}' "
            "backend. This could be because the operator doesn't exist for this backend: register "
            f"a kernel for it. '{self.qualname}' is only available for these backends: [{there}]."
        )

    def _no_fake(self) -> tuple[type[Exception], str]:
        if self.is_custom:
            name = self.qualname.partition("::")[2]
            return RuntimeError, (
                f"There was no fake impl registered for <CustomOpDef({self.qualname})>. This is "
                "necessary for torch.compile/export/fx tracing to work. Please use "
                f"`{name}.register_fake` to add an fake impl."
            )
        return NotImplementedError, (
            f"{self.qualname}: attempted to run this operator with Meta tensors, but there was no "
            "fake impl or Meta kernel registered: add one with torch.library.register_fake"
        )

    def _run(self, kernel: Callable[..., Any], values: dict[str, Any]) -> Any:
        args, kwargs = self.schema.split(values)
        if not self.is_custom:
            return kernel(*args, **kwargs)
        written = [
            values[a.name]
            for a in self.schema.arguments
            if a.is_write and isinstance(values[a.name], Tensor)
        ]
        before = [t._array.storage.version for t in written]
        result = kernel(*args, **kwargs)
        for tensor, version in zip(written, before, strict=True):
            tensor._array.storage.version = max(tensor._array.storage.version, version + 1)
        self._check_fresh(result, values)
        return result

    def _check_fresh(self, result: Any, values: dict[str, Any]) -> None:
        """RuntimeError for results that share memory with arguments or each other."""
        seen = {
            id(t._array.storage)
            for t in tree_leaves(list(values.values()))
            if isinstance(t, Tensor)
        }
        for tensor in tree_leaves(result):
            if not isinstance(tensor, Tensor):
                continue
            check(
                id(tensor._array.storage) not in seen,
                RuntimeError,
                f"{self.qualname.partition('::')[2]}: The output of this custom operator (1) must "
                "not also be an input to this custom operator and (2) may not alias any inputs to "
                "this custom operator or other returns. The most common way to trigger this error "
                "is if we have y = custom_op(x) and y and x are the same Tensor. Please instead "
                "return a clone of the offending output tensor(s) (e.g. return x.clone()) or "
                "refactor the custom operator to not return y.",
            )
            seen.add(id(tensor._array.storage))

    def _recorded(self, kernel: Callable[..., Any], values: dict[str, Any]) -> Any:
        """Run as a Function whose backward is the registered one."""
        leaves, spec = tree_flatten(values)
        boxed: list[Any] = []
        operator = self

        class Recorded(Function):
            """The node of an operator."""

            @staticmethod
            def forward(*flat: Any) -> Any:
                result = operator._run(kernel, tree_unflatten(list(flat), spec))
                outputs, out_spec = tree_flatten(result)
                boxed.append(out_spec)
                return tuple(outputs)

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                bound = tree_unflatten(list(inputs), spec)
                ctx.given, ctx.keyword_only = operator.schema.split(bound)
                operator.save(ctx, tree_unflatten(list(output), boxed[0]))

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                return operator.gradients(ctx, tree_unflatten(list(grads), boxed[0]))

        name = f"GeneratedBackwardFor_{str(self.overload).replace('.', '_')}"
        Recorded.__name__ = Recorded.__qualname__ = name
        outputs = Recorded.apply(*leaves)
        return tree_unflatten(list(outputs), boxed[0])

    def save(self, ctx: Any, output: Any) -> None:
        """Let `setup_context` keep what backward needs, for arguments that are in the context."""
        if self.setup_context is not None:
            named = {"ctx": ctx, "inputs": tuple(ctx.given), "output": output}
            if ctx.keyword_only:
                named["keyword_only_inputs"] = ctx.keyword_only
            self.setup_context(**named)

    def gradients(self, ctx: Any, grads: Any) -> tuple[Any, ...]:
        """The gradients for the leaves of the arguments. RuntimeError without a backward."""
        check(
            self.backward is not None,
            RuntimeError,
            f"Trying to backward through {self.overload} but no autograd formula was registered. "
            "Please use register_autograd to add one.",
        )
        assert self.backward is not None
        found = self.backward(ctx, *(grads if isinstance(grads, tuple) else (grads,)))
        return self._spread(found if isinstance(found, tuple) else (found,), ctx)

    def _spread(self, found: tuple[Any, ...], ctx: Any) -> tuple[Any, ...]:
        """The gradients for the leaves, from those for the arguments."""
        given = ctx.given
        check(
            len(found) == len(given),
            RuntimeError,
            f"Expected the return from backward to be of the same structure as the inputs: "
            f"{self.qualname} has {len(given)} of them, and backward gave {len(found)} gradients",
        )
        flat: list[Any] = []
        for gradient, value in zip(found, given, strict=True):
            if isinstance(value, (list, tuple)):
                count = len(tree_leaves(value))
                flat += [None] * count if gradient is None else list(gradient)
            else:
                flat.append(gradient)
        return (*flat, *[None] * len(tree_leaves(list(ctx.keyword_only.values()))))


def _cast(values: dict[str, Any], dtype: Any) -> dict[str, Any]:
    leaves, spec = tree_flatten(values)
    cast = [v.to(dtype) if isinstance(v, Tensor) and v.is_floating_point() else v for v in leaves]
    found: dict[str, Any] = tree_unflatten(cast, spec)
    return found


def _placed(operator: Operator) -> OpOverload:
    place, _, name = operator.schema.name.partition("::")
    overload = operator.schema.overload_name or "default"
    return namespace(place).packet(name).add(overload, operator, operator.schema)


def operator_of(op: Any) -> Operator:
    """The operator that a qualified name, an overload, a packet or a definition means.
    RuntimeError for a name that is not defined."""
    if isinstance(op, str):
        found = find(op)
        check(found is not None, RuntimeError, f"operator {op} does not exist")
        op = found
    op = getattr(op, "_opoverload", op)
    op = getattr(op, "default", op) if not isinstance(op, OpOverload) else op
    check(
        isinstance(op, OpOverload) and isinstance(op._op, Operator),
        ValueError,
        f"{op!r} is no operator that was defined with torch.library",
    )
    return op._op  # type: ignore[no-any-return]
