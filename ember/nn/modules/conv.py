"""Convolution modules: `Conv1d`, `Conv2d`, `Conv3d` and their transposes."""

import math

import ember.nn.functional as F
import ember.ops as ops
from ember.errors import check
from ember.nn import init
from ember.nn.modules.lazy import LazyModuleMixin
from ember.nn.modules.module import Module
from ember.nn.parameter import Parameter, UninitializedParameter

_STRING_PADDINGS = ("valid", "same")
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _expanded(value, count):
    """`value` once for each of `count` dims; an iterable as a tuple."""
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return (value,) * count
    return tuple(value)


class _ConvNd(Module):
    """What all convolutions share: the checks, the parameters, their first values, the text."""

    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        bias,
        padding_mode,
        device=None,
        dtype=None,
    ):
        super().__init__()
        _check_arguments(in_channels, out_channels, groups, padding, stride, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = _pad_amounts(padding, kernel_size, dilation)
        first = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        shape = (first[0], first[1] // groups, *kernel_size)
        self.weight = Parameter(ops.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ops.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw weight and bias anew from U(-k, k), k = 1 / sqrt(fan_in)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self):
        zeros, ones = (0,) * len(self.kernel_size), (1,) * len(self.kernel_size)
        parts = [f"{self.in_channels}, {self.out_channels}"]
        parts += [f"kernel_size={self.kernel_size}", f"stride={self.stride}"]
        for name, default in (("padding", zeros), ("dilation", ones), ("output_padding", zeros)):
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "padding_mode"):
            self.padding_mode = "zeros"


def _check_arguments(in_channels, out_channels, groups, padding, stride, padding_mode):
    check(groups > 0, ValueError, "groups must be a positive integer")
    check(in_channels % groups == 0, ValueError, "in_channels must be divisible by groups")
    check(out_channels % groups == 0, ValueError, "out_channels must be divisible by groups")
    if isinstance(padding, str):
        check(
            padding in _STRING_PADDINGS,
            ValueError,
            f"Invalid padding string {padding!r}, should be one of {set(_STRING_PADDINGS)}",
        )
        check(
            padding != "same" or all(s == 1 for s in stride),
            ValueError,
            "padding='same' is not supported for strided convolutions",
        )
    check(
        padding_mode in _PADDING_MODES,
        ValueError,
        f"padding_mode must be one of {set(_PADDING_MODES)}, but got {padding_mode=}",
    )


def _pad_amounts(padding, kernel_size, dilation):
    """What `F.pad` takes: before and after each dim, the last dim first."""
    if not isinstance(padding, str):
        return tuple(p for p in reversed(padding) for _ in range(2))
    amounts = []
    for size, step in zip(reversed(kernel_size), reversed(dilation)):
        total = step * (size - 1) if padding == "same" else 0
        amounts += [total // 2, total - total // 2]
    return amounts


class _Conv(_ConvNd):
    """A convolution over the class's number of spatial dims."""

    _ndim = 0
    _function = None

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        bias=True,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        n = self._ndim
        super().__init__(
            in_channels,
            out_channels,
            _expanded(kernel_size, n),
            _expanded(stride, n),
            padding if isinstance(padding, str) else _expanded(padding, n),
            _expanded(dilation, n),
            False,
            (0,) * n,
            groups,
            bias,
            padding_mode,
            device=device,
            dtype=dtype,
        )

    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode != "zeros":
            # The border is made first; the convolution then adds none.
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self._ndim
        function = type(self)._function
        return function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """1-d cross-correlation with a learned kernel: (N, C, L) or (C, L) to (N, O, L').

    L' = floor((L + 2·padding − dilation·(kernel_size − 1) − 1) / stride) + 1. `weight` is
    (O, C / groups, kernel_size). Raises ValueError for channels that groups do not divide.

    >>> import ember as torch
    >>> torch.nn.Conv1d(4, 6, 3, padding=1)(torch.zeros(2, 4, 10)).shape
    torch.Size([2, 6, 10])
    """

    _ndim = 1
    _function = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """2-d cross-correlation with a learned kernel: (N, C, H, W) or (C, H, W) to (N, O, H', W').

    `weight` is (O, C / groups, h, w); `padding` may be "same" or "valid"; `padding_mode` says
    what lies beyond the border. Raises ValueError for channels that groups do not divide.

    >>> import ember as torch
    >>> torch.nn.Conv2d(3, 8, 3, stride=2)(torch.zeros(1, 3, 9, 9)).shape
    torch.Size([1, 8, 4, 4])
    """

    _ndim = 2
    _function = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """3-d cross-correlation with a learned kernel: (N, C, D, H, W) to (N, O, D', H', W').

    >>> import ember as torch
    >>> torch.nn.Conv3d(1, 2, 2)(torch.zeros(1, 1, 4, 4, 4)).shape
    torch.Size([1, 2, 3, 3, 3])
    """

    _ndim = 3
    _function = staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    """A transposed convolution over the class's number of spatial dims."""

    _ndim = 0
    _function = None

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        output_padding=0,
        groups=1,
        bias=True,
        dilation=1,
        padding_mode="zeros",
        device=None,
        dtype=None,
    ):
        check(
            padding_mode == "zeros",
            ValueError,
            f'Only "zeros" padding mode is supported for {type(self).__name__}',
        )
        n = self._ndim
        super().__init__(
            in_channels,
            out_channels,
            _expanded(kernel_size, n),
            _expanded(stride, n),
            _expanded(padding, n),
            _expanded(dilation, n),
            True,
            _expanded(output_padding, n),
            groups,
            bias,
            padding_mode,
            device=device,
            dtype=dtype,
        )

    def _output_padding(
        self, input, output_size, stride, padding, kernel_size, num_spatial_dims, dilation=None
    ):
        """The `output_padding` that makes the result `output_size`, or the module's own."""
        if output_size is None:
            return _expanded(self.output_padding, num_spatial_dims)
        n = num_spatial_dims
        if len(output_size) == input.dim() and input.dim() in (n + 1, n + 2):
            output_size = output_size[-n:]
        batched = input.dim() == n + 2
        check(
            len(output_size) == n,
            ValueError,
            lambda: (
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or "
                f"{n + 2 if batched else n + 1} elements (got {len(output_size)})"
            ),
        )
        dilation = dilation or (1,) * n
        least = [
            (input.size(d - n) - 1) * stride[d] - 2 * padding[d]
            + dilation[d] * (kernel_size[d] - 1) + 1
            for d in range(n)
        ]  # fmt: skip
        most = [least[d] + stride[d] - 1 for d in range(n)]
        check(
            all(low <= size <= high for low, size, high in zip(least, output_size, most)),
            ValueError,
            lambda: (
                f"requested an output size of {output_size}, but valid sizes range from {least} "
                f"to {most} (for an input of {input.size()[-n:]})"
            ),
        )
        return tuple(size - low for size, low in zip(output_size, least))

    def forward(self, input, output_size=None):
        output_padding = self._output_padding(
            input,
            output_size,
            self.stride,
            self.padding,
            self.kernel_size,
            self._ndim,
            self.dilation,
        )
        return type(self)._function(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTransposeNd):
    """The adjoint of a 1-d convolution, with a learned kernel: (N, C, L) to (N, O, L').

    L' = (L − 1)·stride − 2·padding + dilation·(kernel_size − 1) + output_padding + 1. `weight` is
    (C, O / groups, kernel_size). `output_size` picks among the sizes that fit; ValueError if none.

    >>> import ember as torch
    >>> torch.nn.ConvTranspose1d(4, 2, 3, stride=2)(torch.zeros(1, 4, 5)).shape
    torch.Size([1, 2, 11])
    """

    _ndim = 1
    _function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """The adjoint of a 2-d convolution, with a learned kernel: (N, C, H, W) to (N, O, H', W').

    >>> import ember as torch
    >>> up = torch.nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1)
    >>> up(torch.zeros(1, 4, 5, 5), output_size=(10, 10)).shape
    torch.Size([1, 2, 10, 10])
    """

    _ndim = 2
    _function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """The adjoint of a 3-d convolution, with a learned kernel: (N, C, D, H, W) to (N, O, D', ...).

    >>> import ember as torch
    >>> torch.nn.ConvTranspose3d(2, 1, 2)(torch.zeros(1, 2, 3, 3, 3)).shape
    torch.Size([1, 1, 4, 4, 4])
    """

    _ndim = 3
    _function = staticmethod(F.conv_transpose3d)


class _LazyConvMixin(LazyModuleMixin):
    """A convolution whose number of input channels the first input tells."""

    def __init__(self, out_channels, kernel_size, *args, **kwargs):
        # Made without channels and bias, so that no parameter has a shape yet.
        names = _LAZY_TRANSPOSE_NAMES if issubclass(type(self), _ConvTransposeNd) else _LAZY_NAMES
        settings = {**dict(zip(names, args)), **kwargs}
        bias = settings.pop("bias", True)
        super().__init__(0, 0, kernel_size, bias=False, **settings)
        factory = {"device": settings.get("device"), "dtype": settings.get("dtype")}
        self.weight = UninitializedParameter(**factory)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(**factory)

    def reset_parameters(self):
        if self.in_channels != 0 and not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, input, *args, **kwargs):
        """Give the weight and the bias the shapes that this input asks for."""
        if not self.has_uninitialized_params():
            return
        n = self._ndim
        check(
            input.dim() in (n + 1, n + 2),
            RuntimeError,
            lambda: (
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            ),
        )
        self.in_channels = input.size(-n - 1)
        message = "in_channels must be divisible by groups"
        check(self.in_channels % self.groups == 0, ValueError, message)
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        self.weight.materialize((first, second // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


_LAZY_NAMES = ("stride", "padding", "dilation", "groups", "bias", "padding_mode")
_LAZY_NAMES += ("device", "dtype")
_LAZY_TRANSPOSE_NAMES = ("stride", "padding", "output_padding", "groups", "bias", "dilation")
_LAZY_TRANSPOSE_NAMES += ("padding_mode", "device", "dtype")


class LazyConv1d(_LazyConvMixin, Conv1d):
    """A `Conv1d` without its first argument, which the first input tells.

    >>> import ember as torch
    >>> layer = torch.nn.LazyConv1d(4, 3)
    >>> layer(torch.zeros(1, 2, 5)).shape, layer.in_channels
    (torch.Size([1, 4, 3]), 2)
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvMixin, Conv2d):
    """A `Conv2d` without its first argument, which the first input tells."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvMixin, Conv3d):
    """A `Conv3d` without its first argument, which the first input tells."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvMixin, ConvTranspose1d):
    """A `ConvTranspose1d` without its first argument, which the first input tells."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvMixin, ConvTranspose2d):
    """A `ConvTranspose2d` without its first argument, which the first input tells."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvMixin, ConvTranspose3d):
    """A `ConvTranspose3d` without its first argument, which the first input tells."""

    cls_to_become = ConvTranspose3d


__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]
