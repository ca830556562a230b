"""Library ops: a shape rule in Python, a kernel that each backend brings, and a gradient rule over
other ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember.backends.base import LibraryKernel
from ember.core import dispatch, executor, modes
from ember.core.dispatch import RuleNode, find_device
from ember.core.lifting import lifted
from ember.core.op import Op
from ember.core.tensor import Tensor, tensor_of
from ember.device import CPU
from ember.kernel.array import Spec, spec_of
from ember.kernel.call import LibraryCall
from ember.layout import channels_last_strides, channels_lie_last


class LibraryOp(Op):
    """The body gives the result's spec, or a tuple of them, or None where only the data tells; it
    may raise.

    `upcast` computes half precision in float32; False is for kernels that only move data. `follows`
    are the positions of arguments of which one with its channels last (of one of the `ranks`) gives
    the results the same order in memory; of a list, all must lie so.
    """

    def __init__(
        self,
        function: Any,
        kernel: LibraryKernel,
        *,
        upcast: bool = True,
        follows: tuple[int, ...] = (),
        ranks: tuple[int, ...] = (4, 5),
    ):
        super().__init__(function)
        self.kernel, self.upcast, self.follows, self.ranks = kernel, upcast, follows, ranks
        self.plans = dispatch.new_plan_cache()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if modes.SPECIAL[0]:
            found = self.overridden(args, kwargs)
            if found is not NotImplemented:
                return found
        try:
            return self.run(self.bind(args, kwargs))
        except (TypeError, AttributeError):
            if not dispatch.overridden_after_all(args, kwargs):
                raise
            return self(*args, **kwargs)

    def run(self, values: Sequence[Any]) -> Any:
        """Run for bound arguments."""
        if modes.SPECIAL[0]:
            frame, values = lifted(dispatch.autocast(self.name, values))
            if frame is not None:
                return self._recorded(values, frame.run(self, values))
        specs: list[Any] = []
        operands: list[Any] = []
        asks = False
        for value in values:
            if isinstance(value, Tensor):
                array = value._array
                specs.append(array.spec)
                operands.append(array)
                if value._requires_grad or value._base is not None:
                    asks = True
            elif value is None:
                specs.append(None)
                operands.append(None)
            else:
                asks = asks or isinstance(value, (tuple, list))
                specs.append(dispatch.hashable(value))
                operands.append(_arrays(value))
        key = tuple(specs)
        plan = self.plans.get(key)
        if plan is None:
            plan = self._plan(values)
            if len(self.plans) > 20_000:
                self.plans.clear()
            self.plans[key] = plan
        call, runner = plan
        slot = executor._slot[0]
        made = runner(*operands) if slot is None else slot.run(call, runner, tuple(operands))
        out = tuple([tensor_of(a) for a in made]) if type(made) is tuple else tensor_of(made)
        return self._recorded(values, out) if asks else out

    def _recorded(self, values: Sequence[Any], made: Any) -> Any:
        """Results, connected to the graph where an argument needs gradients."""
        if self._grad is not None and modes.state.grad and _asks(values):
            outputs = made if isinstance(made, tuple) else (made,)
            inputs: list[Any] = []
            for value in values:
                if isinstance(value, Tensor):
                    inputs.append(value)
                elif isinstance(value, (tuple, list)):
                    inputs += _tensor_list(value)
            if (outputs and dispatch.is_differentiable(outputs[0]._array.spec.dtype)) or any(
                dispatch.is_differentiable(o._array.spec.dtype) for o in outputs[1:]
            ):
                kind = dispatch.node_type(RuleNode, self.name, values)
                node = kind(self, values, inputs, outputs)
                dispatch.attach(node, outputs)
        return made

    def _plan(self, values: Sequence[Any]) -> Any:
        named = list(zip(self.parameters, values, strict=True))
        device = find_device(self.name, named, zero_dim_moves=False)
        count = self.positional
        specs = self.function(
            *values[:count], **dict(zip(self.parameters[count:], values[count:], strict=True))
        )
        outs = () if specs is None else specs if isinstance(specs, tuple) else (specs,)
        in_specs = tuple(_spec_tree(v) for v in values)
        if self.follows and outs and self._has_channels_last(values):
            outs = tuple(
                spec_of(s.shape, channels_last_strides(s.shape), s.dtype, s.device) for s in outs
            )
        call = LibraryCall(self.name, in_specs, outs, kernel=self.kernel.name, upcast=self.upcast)
        place = outs[0].device if outs else device or CPU
        return call, executor.prepare(call, place)

    def _has_channels_last(self, values: Sequence[Any]) -> bool:
        """Whether an argument that the results follow has its channels last."""
        for position in self.follows:
            value = values[position]
            parts = value if isinstance(value, (tuple, list)) else [value]
            specs = [t._array.spec for t in parts if isinstance(t, Tensor)]
            if specs and all(
                s.ndim in self.ranks and channels_lie_last(s.shape, s.strides) for s in specs
            ):
                return True
        return False


def _asks(values: Sequence[Any]) -> bool:
    """Whether a tensor among the arguments needs a gradient."""
    for value in values:
        if isinstance(value, Tensor):
            if value._requires_grad or (value._base is not None and dispatch.needs_grad(value)):
                return True
        elif isinstance(value, (tuple, list)) and any(map(_needs, value)):
            return True
    return False


def _needs(value: Any) -> bool:
    return isinstance(value, Tensor) and dispatch.needs_grad(value)


def _arrays(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value._array
    if isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value):
        return type(value)(v._array if isinstance(v, Tensor) else v for v in value)
    return value


def _spec_tree(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value._array.spec
    if isinstance(value, (tuple, list)):
        return tuple(v._array.spec if isinstance(v, Tensor) else v for v in value)
    return value


def _tensor_list(value: Any) -> list[Any]:
    """The tensors of an argument, in the order in which a rule returns their gradients (None for an
    absent one)."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value):
        return [v if isinstance(v, Tensor) else None for v in value]
    return []


__all__ = ["LibraryOp", "Spec"]
