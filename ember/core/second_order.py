"""Zeros for second derivatives: what an op that is linear in its input gives back to it.

PyTorch counts the input of a pool, a border or a loss among what its backward depends on, so a
second backward arrives there with zeros and not with nothing. Ops whose rule does not name their
input get the same link here, without keeping the input.
"""

from __future__ import annotations

from typing import Any

from ember.core import modes
from ember.core.array import full
from ember.core.node import Edge, Node, edge_of
from ember.core.tensor import Tensor, connected, needs_grad, tensor_of
from ember.kernel.array import Spec, contiguous_spec


class LinkBackward0(Node):
    """A gradient that counts as depending on an input: all of what arrives goes to the gradient,
    zeros to the input."""

    __slots__ = ("spec",)
    spec: Spec

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """What arrived, and zeros in the input's shape."""
        spec = self.spec
        return grads[0], tensor_of(full(contiguous_spec(spec.shape, spec.dtype, spec.device), 0))


class AliasBackward0(Node):
    """The input of a function as the function sees it: links the gradient that leaves it."""

    __slots__ = ()

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """The gradient, linked while a graph of the backward pass is made."""
        return (linked(grads[0], self.edges[0], self.out_specs[0]),)


def linked(grad: Any, edge: Edge, spec: Spec) -> Any:
    """A gradient of an input with this edge and spec that depends on it with a derivative of
    zero."""
    if not modes.state.grad:
        return grad
    node = LinkBackward0((edge_of(grad), edge), (grad._array.spec,))
    node.spec = spec
    return connected(grad._array, node)


def flat_beyond(input: Tensor) -> Tensor:
    """The input of a function whose second derivative by it is zero, and not missing."""
    if not (modes.state.grad and needs_grad(input)):
        return input
    return connected(input._array, AliasBackward0((edge_of(input),), (input._array.spec,)))
