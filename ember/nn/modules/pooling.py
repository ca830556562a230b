"""Pooling modules over `torch.nn.functional`'s pooling functions."""

import ember.nn.functional as F
from ember.errors import check
from ember.nn.modules.module import Module


def _tuple(value, count):
    return tuple(value) if hasattr(value, "__iter__") else (value,) * count


class _MaxPoolNd(Module):
    """The greatest of each window."""

    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    _function = None

    def __init__(
        self,
        kernel_size,
        stride=None,
        padding=0,
        dilation=1,
        return_indices=False,
        ceil_mode=False,
    ):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def extra_repr(self):
        names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)

    def forward(self, input):
        return type(self)._function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


class MaxPool1d(_MaxPoolNd):
    """The greatest of each window of (N, C, L) or (C, L); with its index if `return_indices`.

    L' = floor((L + 2·padding − dilation·(kernel_size − 1) − 1) / stride) + 1 (ceil if `ceil_mode`).

    >>> import ember as torch
    >>> torch.nn.MaxPool1d(2)(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]]))
    tensor([[[3., 2.]]])
    """

    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """The greatest of each window of (N, C, H, W) or (C, H, W).

    >>> import ember as torch
    >>> torch.nn.MaxPool2d(3, stride=2)(torch.zeros(1, 2, 7, 9)).shape
    torch.Size([1, 2, 3, 4])
    """

    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """The greatest of each window of (N, C, D, H, W) or (C, D, H, W).

    >>> import ember as torch
    >>> torch.nn.MaxPool3d(2)(torch.zeros(1, 2, 4, 4, 6)).shape
    torch.Size([1, 2, 2, 2, 3])
    """

    _function = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(Module):
    """Values put back to where a max pool found them."""

    _ndim = 0
    _function = None

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        self.kernel_size = _tuple(kernel_size, self._ndim)
        self.stride = _tuple(kernel_size if stride is None else stride, self._ndim)
        self.padding = _tuple(padding, self._ndim)

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"

    def forward(self, input, indices, output_size=None):
        return type(self)._function(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool1d(_MaxUnpoolNd):
    """The partial inverse of `MaxPool1d`: zeros but for the values at `indices`.

    >>> import ember as torch
    >>> pool, unpool = torch.nn.MaxPool1d(2, return_indices=True), torch.nn.MaxUnpool1d(2)
    >>> unpool(*pool(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]])))
    tensor([[[0., 3., 2., 0.]]])
    """

    _ndim = 1
    _function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """The partial inverse of `MaxPool2d`: zeros but for the values at `indices`.

    >>> import ember as torch
    >>> pool, unpool = torch.nn.MaxPool2d(2, return_indices=True), torch.nn.MaxUnpool2d(2)
    >>> unpool(*pool(torch.zeros(1, 1, 4, 4))).shape
    torch.Size([1, 1, 4, 4])
    """

    _ndim = 2
    _function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """The partial inverse of `MaxPool3d`: zeros but for the values at `indices`.

    >>> import ember as torch
    >>> pool, unpool = torch.nn.MaxPool3d(2, return_indices=True), torch.nn.MaxUnpool3d(2)
    >>> unpool(*pool(torch.zeros(1, 1, 4, 4, 2))).shape
    torch.Size([1, 1, 4, 4, 2])
    """

    _ndim = 3
    _function = staticmethod(F.max_unpool3d)


class _AvgPoolNd(Module):
    """The mean of each window."""

    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of (N, C, L) or (C, L).

    L' = floor((L + 2·padding − kernel_size) / stride) + 1 (ceil if `ceil_mode`).

    >>> import ember as torch
    >>> torch.nn.AvgPool1d(2)(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]]))
    tensor([[[2., 1.]]])
    """

    def __init__(
        self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True
    ):
        super().__init__()
        self.kernel_size = _tuple(kernel_size, 1)
        self.stride = _tuple(kernel_size if stride is None else stride, 1)
        self.padding = _tuple(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input):
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class _DividedAvgPool(_AvgPoolNd):
    """An average pool whose divisor can be given."""

    __constants__ = [*_AvgPoolNd.__constants__, "divisor_override"]
    _function = None

    def __init__(
        self,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input):
        return type(self)._function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_DividedAvgPool):
    """The mean of each window of (N, C, H, W) or (C, H, W).

    `divisor_override` replaces the number of elements that the sum of a window is divided by.

    >>> import ember as torch
    >>> torch.nn.AvgPool2d(2)(torch.tensor([[[1.0, 3.0], [2.0, 0.0]]]))
    tensor([[[1.5000]]])
    """

    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_DividedAvgPool):
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W).

    >>> import ember as torch
    >>> torch.nn.AvgPool3d(2)(torch.ones(1, 1, 2, 2, 4))
    tensor([[[[[1., 1.]]]]])
    """

    _function = staticmethod(F.avg_pool3d)


class _FractionalMaxPoolNd(Module):
    """A max pool over windows of pseudo-random places (B. Graham, arXiv:1412.6071)."""

    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _ndim = 0
    _function = None

    def __init__(
        self,
        kernel_size,
        output_size=None,
        output_ratio=None,
        return_indices=False,
        _random_samples=None,
    ):
        super().__init__()
        n, name = self._ndim, type(self).__name__
        self.kernel_size = _tuple(kernel_size, n)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else _tuple(output_size, n)
        self.output_ratio = None if output_ratio is None else _tuple(output_ratio, n)
        check(
            output_size is not None or output_ratio is not None,
            ValueError,
            f"{name} requires specifying either an output size, or a pooling ratio",
        )
        check(
            output_size is None or output_ratio is None,
            ValueError,
            "only one of output_size and output_ratio may be specified",
        )
        check(
            self.output_ratio is None or all(0 < ratio < 1 for ratio in self.output_ratio),
            ValueError,
            f"output_ratio must be between 0 and 1 (got {output_ratio})",
        )

    def forward(self, input):
        return type(self)._function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """A max pool of (N, C, H, W) to a chosen size, over windows of pseudo-random places.

    Give one of `output_size` and `output_ratio` (each in (0, 1)); else ValueError.

    >>> import ember as torch
    >>> torch.nn.FractionalMaxPool2d(2, output_size=3)(torch.zeros(1, 2, 5, 5)).shape
    torch.Size([1, 2, 3, 3])
    """

    _ndim = 2
    _function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """A max pool of (N, C, D, H, W) to a chosen size, over windows of pseudo-random places.

    >>> import ember as torch
    >>> torch.nn.FractionalMaxPool3d(2, output_ratio=0.5)(torch.zeros(1, 2, 6, 6, 6)).shape
    torch.Size([1, 2, 3, 3, 3])
    """

    _ndim = 3
    _function = staticmethod(F.fractional_max_pool3d)


class _LPPoolNd(Module):
    """The p-norm of each window."""

    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]
    _function = None

    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self):
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.__constants__)

    def forward(self, input):
        return type(self)._function(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool1d(_LPPoolNd):
    """(Σ |x|^p)^(1/p) over each window of (N, C, L), p = `norm_type`.

    >>> import ember as torch
    >>> torch.nn.LPPool1d(2, 2)(torch.tensor([[[3.0, 4.0]]]))
    tensor([[[5.]]])
    """

    _function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """(Σ |x|^p)^(1/p) over each window of (N, C, H, W), p = `norm_type`.

    >>> import ember as torch
    >>> torch.nn.LPPool2d(1, (1, 2))(torch.tensor([[[[3.0, 4.0]]]]))
    tensor([[[[7.]]]])
    """

    _function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """(Σ |x|^p)^(1/p) over each window of (N, C, D, H, W), p = `norm_type`.

    >>> import ember as torch
    >>> torch.nn.LPPool3d(2, 2)(torch.ones(1, 1, 2, 2, 2)).shape
    torch.Size([1, 1, 1, 1, 1])
    """

    _function = staticmethod(F.lp_pool3d)


class _AdaptiveMaxPoolNd(Module):
    """A max pool to a chosen size."""

    __constants__ = ["output_size", "return_indices"]
    _function = None

    def __init__(self, output_size, return_indices=False):
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self):
        return f"output_size={self.output_size}"

    def forward(self, input):
        return type(self)._function(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The greatest of each of `output_size` windows that share (N, C, L) out evenly.

    >>> import ember as torch
    >>> torch.nn.AdaptiveMaxPool1d(1)(torch.tensor([[[1.0, 3.0, 2.0]]]))
    tensor([[[3.]]])
    """

    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The greatest of each window; `output_size` is (H', W'), None keeps the input's size.

    >>> import ember as torch
    >>> torch.nn.AdaptiveMaxPool2d((2, None))(torch.zeros(1, 4, 5, 7)).shape
    torch.Size([1, 4, 2, 7])
    """

    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The greatest of each window; `output_size` is (D', H', W'), None keeps the input's size.

    >>> import ember as torch
    >>> torch.nn.AdaptiveMaxPool3d(2)(torch.zeros(1, 4, 5, 7, 6)).shape
    torch.Size([1, 4, 2, 2, 2])
    """

    _function = staticmethod(F.adaptive_max_pool3d)


class _AdaptiveAvgPoolNd(Module):
    """An average pool to a chosen size."""

    __constants__ = ["output_size"]
    _function = None

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def extra_repr(self):
        return f"output_size={self.output_size}"

    def forward(self, input):
        return type(self)._function(input, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The mean of each of `output_size` windows that share (N, C, L) out evenly.

    >>> import ember as torch
    >>> torch.nn.AdaptiveAvgPool1d(1)(torch.tensor([[[1.0, 3.0, 2.0]]]))
    tensor([[[2.]]])
    """

    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The mean of each window; `output_size` is (H', W'), None keeps the input's size.

    >>> import ember as torch
    >>> torch.nn.AdaptiveAvgPool2d(1)(torch.ones(1, 4, 5, 7)).shape
    torch.Size([1, 4, 1, 1])
    """

    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The mean of each window; `output_size` is (D', H', W'), None keeps the input's size.

    >>> import ember as torch
    >>> torch.nn.AdaptiveAvgPool3d((1, None, 2))(torch.ones(1, 4, 5, 7, 6)).shape
    torch.Size([1, 4, 1, 7, 2])
    """

    _function = staticmethod(F.adaptive_avg_pool3d)


__all__ = [
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
]
