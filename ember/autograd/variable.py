"""`Variable`: the name that tensors with gradients once had."""

from ember.core.tensor import Tensor as Variable

__all__ = ["Variable"]
