"""Softmax and its kin: functions of whole slices along a dim."""

from ember.errors import check
from ember.nn import functional as F
from ember.nn.modules.module import Module

__all__ = ["LogSoftmax", "Softmax", "Softmax2d", "Softmin"]


class _AlongDim(Module):
    """A function of whole slices along `dim`."""

    __constants__ = ["dim"]

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "dim"):
            self.dim = None

    def extra_repr(self):
        return f"dim={self.dim}"


class Softmin(_AlongDim):
    """exp(-x) over its sum along `dim`.

    >>> import ember as torch
    >>> torch.nn.Softmin(dim=0)(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input):
        return F.softmin(input, self.dim)


class Softmax(_AlongDim):
    """exp(x) over its sum along `dim`.

    >>> import ember as torch
    >>> torch.nn.Softmax(dim=0)(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input):
        return F.softmax(input, self.dim)


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W).

    >>> import ember as torch
    >>> torch.nn.Softmax2d()(torch.zeros(1, 2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input):
        check(
            input.dim() in (3, 4),
            ValueError,
            lambda: f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead",
        )
        return F.softmax(input, -3)


class LogSoftmax(_AlongDim):
    """x minus the logarithm of the sum of exp(x) along `dim`.

    >>> import ember as torch
    >>> torch.nn.LogSoftmax(dim=0)(torch.zeros(2))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input):
        return F.log_softmax(input, self.dim)
