"""The tape that transforms of gradients use: the graph of autograd, with ends of their own.

Each level of vmap has a graph; a gradient transform marks its inputs there with an `Input`, and
asks the engine for what arrives at it. Transforms nest without confusion, because each has other
ends, and a gradient is recorded in turn where something outside is still to be differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember.core import engine, modes
from ember.core.array import full
from ember.core.dispatch import is_differentiable, needs_grad
from ember.core.levels import Frame, LevelArray
from ember.core.lifting import lift
from ember.core.node import NO_EDGE, AccumulateGrad, Edge, Node, edge_of
from ember.core.tensor import Tensor, connected, tensor_of
from ember.errors import check
from ember.func.frames import innermost
from ember.kernel.array import Spec, contiguous_spec


class Input(Node):
    """Where a transform's input enters: a gradient passes on to where the input came from."""

    __slots__ = ("frame",)

    def __init__(self, tensor: Tensor, frame: Any, outside: bool):
        edge = edge_of(tensor) if outside and needs_grad(tensor) else NO_EDGE
        super().__init__((edge,), (tensor._array.spec,))
        self.frame = frame

    def name(self) -> str:
        """What users see as the input's grad_fn."""
        return "TransformInput"

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """The gradient as it is."""
        return tuple(grads)


class GradFrame(Frame):
    """A gradient transform in force: ops record inside, whatever the mode outside; in forward mode
    even where gradients are switched off."""

    def __init__(self, forward: bool = False):
        self.forward = forward

    def __enter__(self) -> GradFrame:
        self.batch = innermost()  # on whose level the inputs are, and the tape
        self.enter()
        state = modes.state
        self.before, self.forward_before = state.grad, state.forward
        state.grad, state.forward = True, self.forward
        return self

    def __exit__(self, *exc: object) -> None:
        modes.state.grad, modes.state.forward = self.before, self.forward_before
        self.leave()

    def input(self, value: Any) -> Any:
        """A tensor as an input of this transform."""
        if self.batch is not None:
            value = lift(value, self.batch)
        check(
            is_differentiable(value._array.spec.dtype),
            RuntimeError,
            "only Tensors of floating point dtype can require gradients",
        )
        return connected(value._array, Input(value, self, self.before))


class Recording:
    """A block in which the engine runs: what it switches here does not reach below a vmap, where
    ops record if `mode` says so."""

    def __init__(self, mode: bool):
        self.frame, self.mode = GradFrame(), mode

    def __enter__(self) -> None:
        self.before = modes.state.grad
        self.frame.enter()
        self.frame.before = modes.state.grad = self.mode

    def __exit__(self, *exc: object) -> None:
        modes.state.grad = self.before
        self.frame.leave()


def leads_outside(tensors: Sequence[Any]) -> bool:
    """Whether the history of any tensor, on any level, reaches a leaf or the input of a transform
    in force."""
    stack: list[Any] = []
    for tensor in tensors:
        while isinstance(tensor, Tensor):
            if needs_grad(tensor):
                stack.append(edge_of(tensor)[0])
            array = tensor._array
            tensor = array.value if isinstance(array, LevelArray) else None
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node is None:
            continue
        if isinstance(node, AccumulateGrad) or (isinstance(node, Input) and _in_force(node)):
            return True
        for target, _ in node.edges:
            if target is not None and target not in seen:
                seen.add(target)
                stack.append(target)
    return False


def _in_force(node: Input) -> bool:
    return node.frame is not None and node.frame.alive


def outside(value: Any, recording: bool) -> Any:
    """A result as the outside sees it: without the history that ends in transforms that are
    over."""
    if not isinstance(value, Tensor) or not needs_grad(value):
        return value
    if recording and leads_outside([value]):
        return value
    return connected(value._array, None)


def differentiable_outputs(outputs: Sequence[Any], batch: Any) -> list[bool]:
    """Which results are on the tape of a level."""
    return [
        needs_grad(o) and level_of(o) is batch and is_differentiable(o._array.spec.dtype)
        for o in outputs
    ]


def level_of(tensor: Any) -> Any:
    """The vmap that a tensor belongs to; None outside."""
    array = tensor._array
    return array.frame if isinstance(array, LevelArray) else None


def gradients(
    outputs: Sequence[Any], inputs: Sequence[Edge], weights: Sequence[Any], batch: Any
) -> list[Any]:
    """The gradients of weighted outputs at graph edges; zeros where nothing depends on them."""
    live = [
        (edge_of(o), w)
        for o, w, on in zip(outputs, weights, differentiable_outputs(outputs, batch), strict=True)
        if on
    ]
    found: list[Any] = [None] * len(inputs)
    create = modes.state.grad and leads_outside([*outputs, *weights])
    if live:
        edges, given = zip(*live, strict=True)
        with Recording(create):
            found = engine.run(
                list(edges),
                list(given),
                retain_graph=True,
                create_graph=create,
                inputs=list(inputs),
                accumulate=False,
            )
    return [
        zeros_of(node.out_specs[index]) if g is None else outside(g, create)
        for g, (node, index) in zip(found, inputs, strict=True)
    ]


def zeros_of(spec: Spec, value: Any = 0) -> Any:
    """Zeros (or another number) of a shape, the same for all elements of a batch."""
    return tensor_of(full(contiguous_spec(spec.shape, spec.dtype, spec.device), value))
