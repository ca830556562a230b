"""`FloatFunctional`: arithmetic as a module, so that quantization could watch its results."""

import ember.ops as ops
from ember.nn.modules.linear import Identity
from ember.nn.modules.module import Module


class FloatFunctional(Module):
    """Additions and products as methods of a module; on floats, what the operators give.

    >>> import ember as torch
    >>> torch.nn.quantized.FloatFunctional().add(torch.ones(1), 2)
    tensor([3.])
    """

    def __init__(self):
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x):
        """RuntimeError: call one of the methods."""
        raise RuntimeError(
            "FloatFunctional is not intended to use the 'forward'. Please use the underlying "
            "operation"
        )

    def add(self, x, y):
        """x + y."""
        return self.activation_post_process(ops.add(x, y))

    def add_scalar(self, x, y):
        """x + y for a number y."""
        return ops.add(x, y)

    def mul(self, x, y):
        """x·y."""
        return self.activation_post_process(ops.mul(x, y))

    def mul_scalar(self, x, y):
        """x·y for a number y."""
        return ops.mul(x, y)

    def cat(self, x, dim=0):
        """The tensors one after another."""
        return self.activation_post_process(ops.cat(x, dim=dim))

    def add_relu(self, x, y):
        """x + y, where it is positive."""
        return self.activation_post_process(ops.relu(ops.add(x, y)))

    def matmul(self, x, y):
        """The matrix product."""
        return self.activation_post_process(ops.matmul(x, y))
