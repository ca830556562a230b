"""View ops: Layout in, Layout out. No backend is called; the gradient is the adjoint of the layout
map."""

from __future__ import annotations

from typing import Any

from ember.core import dispatch, modes
from ember.core.array import full
from ember.core.lifting import lifted, zeros_for
from ember.core.node import Node, edge_of
from ember.core.op import Op
from ember.core.tensor import Tensor, tensor_of
from ember.dtypes import int64
from ember.kernel.array import Array, Spec, contiguous_spec, spec_of
from ember.layout import Layout, Shape, contiguous_strides, may_overlap, product


class ViewOp(Op):
    """The function takes the layout and the op's arguments, and returns a layout or a list of them.

    What it makes of a layout does not depend on its offset, so it is kept by spec and arguments
    (`absolute` ops, whose arguments speak of the storage, are not).
    """

    def __init__(self, function: Any, *, absolute: bool = False):
        super().__init__(function)
        self.absolute = absolute
        self.plans: dict[Any, Any] = dispatch.new_plan_cache()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if modes.SPECIAL[0]:
            found = self.overridden(args, kwargs)
            if found is not NotImplemented:
                return found
            return self.on_any_level(self.bind(args, kwargs))
        try:
            return self.run(self.bind(args, kwargs))
        except TypeError:
            if not dispatch.overridden_after_all(args, kwargs):
                raise
            return self(*args, **kwargs)

    def run(self, values: list[Any]) -> Any:
        """The view, or views, of bound arguments."""
        tensor = values[0]
        self.check_input(tensor)
        spec = tensor._array.spec
        try:
            plan = self.plans.get((spec, *values[1:]))
        except TypeError:  # a list among the arguments
            return self.run([tensor, *(tuple(v) if isinstance(v, list) else v for v in values[1:])])
        if plan is None:
            plan = self._plan(tensor, values)
        if type(plan) is tuple:
            return self._recorded(tensor, _alias(tensor, plan), values)
        return self._recorded_many(tensor, [_alias(tensor, p) for p in plan], values)

    def on_any_level(self, values: list[Any]) -> Any:
        """The view of bound arguments, of a whole batch if they belong to one."""
        frame, values = lifted(values)
        return self.run(values) if frame is None else self._above(frame, values)

    def _above(self, frame: Any, values: list[Any]) -> Any:
        """The view of each element of a batch."""
        tensor = values[0]
        self.check_input(tensor)
        found = frame.run(self, values)
        if isinstance(found, Tensor):
            return self._recorded(tensor, _over(tensor, found._array), values)
        return self._recorded_many(tensor, [_over(tensor, f._array) for f in found], values)

    def _plan(self, tensor: Tensor, values: list[Any]) -> Any:
        """(spec, distance of the first element) of the result, or a list of them."""
        spec = tensor._array.spec
        offset = tensor._array.offset if self.absolute else 0
        found = self.function(Layout(spec.shape, spec.strides, offset), *values[1:])

        def planned(layout: Layout) -> tuple[Spec, int]:
            made = spec_of(layout.shape, layout.strides, spec.dtype, spec.device)
            return made, layout.offset - offset

        plan: Any = (
            planned(found) if isinstance(found, Layout) else [planned(layout) for layout in found]
        )
        if not self.absolute:
            if len(self.plans) > LIMIT:
                self.plans.clear()
            self.plans[(spec, *values[1:])] = plan
        return plan

    def _recorded(self, tensor: Tensor, out: Tensor, values: list[Any]) -> Tensor:
        if (
            modes.state.grad
            and (tensor._requires_grad or tensor._base is not None)
            and dispatch.needs_grad(tensor)
        ):
            node = dispatch.node_type(ViewNode, self.name)((edge_of(tensor),), (out._array.spec,))
            node.op, node.shape, node.arguments = self, tensor._array.spec.shape, values[1:]
            out._grad_fn, out._requires_grad = node, True
        return out

    def _recorded_many(
        self, tensor: Tensor, outs: list[Tensor], values: list[Any]
    ) -> tuple[Tensor, ...]:
        for out in outs:
            out._view_of_many = True
        if outs and modes.state.grad and dispatch.needs_grad(tensor):
            specs = tuple(o._array.spec for o in outs)
            node = dispatch.node_type(ViewNode, self.name)((edge_of(tensor),), specs)
            node.op, node.shape, node.arguments = self, tensor._array.spec.shape, values[1:]
            dispatch.attach(node, outs)
        return tuple(outs)


LIMIT = 20_000
_new = object.__new__


def _alias(tensor: Tensor, plan: tuple[Spec, int]) -> Tensor:
    array = tensor._array
    out: Tensor = _new(Tensor)
    out._array = Array(array.storage, plan[0], array.offset + plan[1])
    return _view_of(tensor, out)


def _over(tensor: Tensor, array: Array) -> Tensor:
    out: Tensor = _new(Tensor)
    out._array = array
    return _view_of(tensor, out)


def _view_of(tensor: Tensor, out: Tensor) -> Tensor:
    """Let a new tensor follow the history of the one that it views."""
    array = out._array
    if tensor._inference:  # a view of an ordinary tensor is ordinary, even in inference mode
        out._inference = True
    if tensor._silent_writes:
        out._silent_writes = True
    base = tensor if tensor._base is None else tensor._base
    if modes.state.grad:
        out._base = base
        if base._history:
            out._view_history = base._history
    elif dispatch.is_differentiable(array.spec.dtype):
        out.__dict__["_no_grad_base"] = base
    else:
        out._base = base
    return out


class ViewNode(Node):
    """A recorded view. Which elements it shows is found by applying the op to the input's index
    space."""

    __slots__ = ("arguments", "op", "shape")
    op: ViewOp
    shape: Shape
    arguments: list[Any]

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """Each gradient put back where its elements came from; where several views meet, they add
        up."""
        found = self.op.function(
            Layout(self.shape, contiguous_strides(self.shape)), *self.arguments
        )
        if isinstance(found, Layout):
            return (adjoint(grads[0], self.shape, found),)
        memory = zeros_for(grads, (product(self.shape),))
        for grad, layout in zip(grads, found, strict=True):
            if grad is not None:
                memory.as_strided(*layout).copy_(grad)
        return (memory.view(self.shape),)


def adjoint(grad: Any, shape: Shape, layout: Layout) -> Any:
    """The gradient of a tensor of `shape` from that of its view at `layout` (strides in the dense
    index space)."""
    repeated = tuple(
        d
        for d, (n, s) in enumerate(zip(layout.shape, layout.strides, strict=True))
        if s == 0 and n != 1
    )
    if repeated:  # an expanded dim: its copies add up
        grad = grad.sum(repeated)
        kept = [d for d in range(layout.ndim) if d not in repeated]
        layout = Layout(
            tuple(layout.shape[d] for d in kept),
            tuple(layout.strides[d] for d in kept),
            layout.offset,
        )
    if layout.numel == product(shape) and layout.offset == 0:
        if layout.is_contiguous:
            return grad.reshape(shape)
        order = sorted(range(layout.ndim), key=lambda d: -layout.strides[d])
        back = layout.permuted(order)
        if back.is_contiguous:
            return grad.permute(order).reshape(shape)
    memory = zeros_for([grad], (product(shape),))
    if may_overlap(layout.shape, layout.strides):
        index: Any = tensor_of(
            full(contiguous_spec((1,), int64, grad._array.spec.device), layout.offset)
        )
        for size, stride in zip(layout.shape, layout.strides, strict=True):
            steps = _steps(size, stride, grad._array.spec.device)
            index = (index.reshape(-1, 1) + steps).reshape(-1)
        return memory.index_add(0, index, grad.reshape(-1)).view(shape)
    memory.as_strided(*layout).copy_(grad)
    return memory.view(shape)


def _steps(size: int, stride: int, device: Any) -> Any:
    steps: Any = tensor_of(full(contiguous_spec((size,), int64, device), stride))
    return steps.cumsum(0) - stride
