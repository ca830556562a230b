"""`custom_op`: an operator from a Python function with annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ember.errors import check
from ember.library.annotations import check_mutated, infer_schema
from ember.library.operators import Operator, dispatch_key
from ember.ops.schemas import FunctionSchema


class CustomOpDef:
    """An operator made by `custom_op`; calling it runs it, its methods give it more."""

    def __init__(self, namespace: str, name: str, schema: str, fn: Callable[..., Any]):
        self._namespace, self._name, self._schema = namespace, name, schema
        self._init_fn = fn
        self._operator = Operator(FunctionSchema(f"{namespace}::{name}{schema}"), is_custom=True)
        self.__name__, self.__doc__ = name, fn.__doc__

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    @property
    def _opoverload(self) -> Any:
        return self._operator.overload

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._operator(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def register_kernel(self, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """Run `fn` for tensors on these device types ("cpu", "cuda", or None for all)."""
        types = (device_types,) if isinstance(device_types, str) else device_types

        def register(fn: Callable[..., Any]) -> Callable[..., Any]:
            for kind in ("default",) if types is None else types:
                self._operator.kernels[dispatch_key(kind)] = fn
            return fn

        return register if fn is None else register(fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Run `fn` for tensors on the meta device: it makes results of the right shape."""
        self._operator.fake = fn
        return fn

    def register_autograd(
        self,
        backward: Callable[..., Any],
        /,
        *,
        setup_context: Callable[..., Any] | None = None,
    ) -> None:
        """Give the gradient: `setup_context(ctx, inputs, output)` saves what `backward(ctx,
        *grads)` needs; it returns one gradient (or None) for each input."""
        check(
            not self._operator.schema.is_mutable,
            RuntimeError,
            f"Cannot register autograd formula for non-functional operator {self} with schema "
            f"{self._operator.schema}. Please create a functional operator and register an "
            "autograd formula for that.",
        )
        self._operator.backward, self._operator.setup_context = backward, setup_context

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Cast floating-point inputs to a dtype inside autocast blocks of a device type."""
        self._operator.autocast[device_type] = cast_inputs

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Keep a rule for batches: `func(info, in_dims, *args)`. Without one vmap loops."""

        def register(func: Callable[..., Any]) -> Callable[..., Any]:
            self._operator.kernels["FuncTorchBatched"] = func
            return func

        return register if func is None else register(func)

    @contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """A block with the kernel of a device type switched on or off."""
        key, disabled = dispatch_key(device_type), self._operator.disabled
        before = key in disabled
        (disabled.discard if enabled else disabled.add)(key)
        try:
            yield
        finally:
            (disabled.add if before else disabled.discard)(key)


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Any,
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Define the operator "namespace::name" by a Python function, which runs on tensors of all
    devices or of `device_types`.

    `mutates_args` names the arguments that it writes into. Its results must be fresh: RuntimeError
    if they share memory with arguments. Gradients do not go through it until it is given some.

    >>> import ember as torch
    >>> @torch.library.custom_op("docs::twice", mutates_args=())
    ... def twice(x: torch.Tensor) -> torch.Tensor:
    ...     return torch.from_numpy(x.numpy() * 2)
    >>> torch.ops.docs.twice(torch.ones(2))
    tensor([2., 2.])
    """
    check_mutated(mutates_args)

    def define(fn: Callable[..., Any]) -> CustomOpDef:
        namespace, separator, own = name.partition("::")
        check(
            separator and own,
            ValueError,
            f"custom_op(): the name is given as 'namespace::name', not {name!r}",
        )
        text = schema or infer_schema(fn, mutates_args=mutates_args)
        made = CustomOpDef(namespace, own, text, fn)
        made.register_kernel(device_types, fn)
        return made

    return define if fn is None else define(fn)
