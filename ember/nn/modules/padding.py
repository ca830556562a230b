"""Padding modules: borders added to the last 1, 2 or 3 dims."""

from ember.errors import check
from ember.nn import functional as F
from ember.nn.modules.module import Module
from ember.nn.modules.utils import _ntuple, _pair, _quadruple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]

_sextuple = _ntuple(6)


class _ModePadNd(Module):
    """A border made from the input itself, as `mode` says; padding = (left, right, top, ...)."""

    __constants__ = ["padding"]
    mode = ""
    _sizes = staticmethod(_pair)

    def __init__(self, padding):
        super().__init__()
        self.padding = self._sizes(padding)

    def _check_input_dim(self, input):
        """Only circular padding asks for a number of dims of its own."""

    def forward(self, input):
        self._check_input_dim(input)
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self):
        return f"{self.padding}"


class _CircularPadNd(_ModePadNd):
    """A border that goes on at the other end."""

    mode = "circular"
    wanted_dims = ()

    def _check_input_dim(self, input):
        check(
            input.dim() in self.wanted_dims,
            ValueError,
            lambda: "expected {}D or {}D input (got {}D input)".format(
                *self.wanted_dims, input.dim()
            ),
        )


class CircularPad1d(_CircularPadNd):
    """(N, C, W) or (C, W) continued at the other end.

    >>> import ember as torch
    >>> torch.nn.CircularPad1d(1)(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1., 2., 3., 1.]])
    """

    wanted_dims = (2, 3)


class CircularPad2d(_CircularPadNd):
    """(N, C, H, W) or (C, H, W) continued at the other end."""

    wanted_dims = (3, 4)
    _sizes = staticmethod(_quadruple)


class CircularPad3d(_CircularPadNd):
    """(N, C, D, H, W) or (C, D, H, W) continued at the other end."""

    wanted_dims = (4, 5)
    _sizes = staticmethod(_sextuple)


class _ConstantPadNd(Module):
    """A border of one value."""

    __constants__ = ["padding", "value"]

    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """`value` beside the last dim.

    >>> import ember as torch
    >>> torch.nn.ConstantPad1d((1, 0), 9.0)(torch.zeros(1, 2))
    tensor([[9., 0., 0.]])
    """

    def __init__(self, padding, value):
        super().__init__(value)
        self.padding = _pair(padding)


class ConstantPad2d(_ConstantPadNd):
    """`value` around the last two dims."""

    def __init__(self, padding, value):
        super().__init__(value)
        self.padding = _quadruple(padding)


class ConstantPad3d(_ConstantPadNd):
    """`value` around the last three dims."""

    def __init__(self, padding, value):
        super().__init__(value)
        self.padding = _sextuple(padding)


class _ReflectionPadNd(_ModePadNd):
    """A border that mirrors the input without repeating its edge."""

    mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """(N, C, W) or (C, W) mirrored at its ends.

    >>> import ember as torch
    >>> torch.nn.ReflectionPad1d(2)(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """


class ReflectionPad2d(_ReflectionPadNd):
    """(N, C, H, W) or (C, H, W) mirrored at its edges."""

    _sizes = staticmethod(_quadruple)


class ReflectionPad3d(_ReflectionPadNd):
    """(N, C, D, H, W) or (C, D, H, W) mirrored at its edges."""

    _sizes = staticmethod(_sextuple)


class _ReplicationPadNd(_ModePadNd):
    """A border that repeats the edge."""

    mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """(N, C, W) or (C, W) with its ends repeated.

    >>> import ember as torch
    >>> torch.nn.ReplicationPad1d(1)(torch.tensor([[1.0, 2.0]]))
    tensor([[1., 1., 2., 2.]])
    """


class ReplicationPad2d(_ReplicationPadNd):
    """(N, C, H, W) or (C, H, W) with its edges repeated."""

    _sizes = staticmethod(_quadruple)


class ReplicationPad3d(_ReplicationPadNd):
    """(N, C, D, H, W) or (C, D, H, W) with its edges repeated."""

    _sizes = staticmethod(_sextuple)


class ZeroPad1d(ConstantPad1d):
    """Zeros beside the last dim.

    >>> import ember as torch
    >>> torch.nn.ZeroPad1d(1)(torch.ones(1, 1))
    tensor([[0., 1., 0.]])
    """

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Zeros around the last two dims."""

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Zeros around the last three dims."""

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"
