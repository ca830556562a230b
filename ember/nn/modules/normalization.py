"""Normalization over the dims of one sample."""

import numbers

import ember.ops as ops
from ember.errors import check
from ember.nn import functional as F
from ember.nn import init
from ember.nn.modules.module import Module
from ember.nn.parameter import Parameter

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LocalResponseNorm(Module):
    """x / (k + alpha/n Σ x²)^beta, the sum over n = `size` neighbouring channels.

    Krizhevsky et al., 2012.

    >>> import ember as torch
    >>> torch.nn.LocalResponseNorm(2)(torch.ones(1, 3, 2)).shape
    torch.Size([1, 3, 2])
    """

    __constants__ = ["size", "alpha", "beta", "k"]

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0):
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input):
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self):
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """x / (k + alpha/size Σ x²)^beta over neighbouring channels of (N, C, H, W), as old Torch did.

    >>> import ember as torch
    >>> torch.nn.CrossMapLRN2d(3)(torch.ones(1, 3, 2, 2)).shape
    torch.Size([1, 3, 2, 2])
    """

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1):
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input):
        check(
            input.dim() == 4,
            ValueError,
            lambda: f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.",
        )
        reach = min((self.size - 1) // 2, input.size(1) - 1)
        squares = input * input
        padded = F.pad(squares, (0, 0, 0, 0, reach, reach))
        channels = input.size(1)
        near = sum(padded[:, start : start + channels] for start in range(2 * reach + 1))
        # PyTorch's running sum never drops channel 0; kept, for the same results.
        later = ops.arange(channels, device=input.device).view(1, -1, 1, 1) > reach
        near = near + squares[:, :1] * later
        return input / (near * (self.alpha / self.size) + self.k) ** self.beta

    def extra_repr(self):
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LayerNorm(Module):
    """(x - mean) / √(var + eps) · weight + bias over the last dims (Ba et al., 2016).

    `normalized_shape` is the shape of those dims; the variance is the biased one.

    >>> import ember as torch
    >>> torch.nn.LayerNorm(2)(torch.tensor([[1.0, 3.0]])).shape
    torch.Size([1, 2])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape,
        eps=1e-5,
        elementwise_affine=True,
        bias=True,
        device=None,
        dtype=None,
    ):
        factory = {"device": device, "dtype": dtype}
        super().__init__()
        if isinstance(normalized_shape, numbers.Integral):
            normalized_shape = (normalized_shape,)
        self.normalized_shape = tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        weight = Parameter(ops.empty(shape, **factory)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        has_bias = elementwise_affine and bias
        self.register_parameter(
            "bias", Parameter(ops.empty(shape, **factory)) if has_bias else None
        )
        self.reset_parameters()

    def reset_parameters(self):
        """Set the weight to 1 and the bias to 0."""
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Each of num_groups groups of channels of (N, C, *) normalized (Wu and He, 2018).

    >>> import ember as torch
    >>> torch.nn.GroupNorm(3, 6)(torch.randn(2, 6, 4)).shape
    torch.Size([2, 6, 4])
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self,
        num_groups,
        num_channels,
        eps=1e-5,
        affine=True,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        factory = {"device": device, "dtype": dtype}
        super().__init__()
        check(
            num_channels % num_groups == 0,
            ValueError,
            f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})",
        )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        weight = Parameter(ops.empty(num_channels, **factory)) if affine else None
        self.register_parameter("weight", weight)
        has_bias = affine and bias
        self.register_parameter(
            "bias", Parameter(ops.empty(num_channels, **factory)) if has_bias else None
        )
        self.reset_parameters()

    def reset_parameters(self):
        """Set the weight to 1 and the bias to 0."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """x / √(mean(x²) + eps) · weight over the last dims (Zhang and Sennrich, 2019).

    eps=None is the machine epsilon of the input's dtype.

    >>> import ember as torch
    >>> torch.nn.RMSNorm(2)(torch.tensor([[3.0, 3.0]])).shape
    torch.Size([1, 2])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None
    ):
        factory = {"device": device, "dtype": dtype}
        super().__init__()
        if isinstance(normalized_shape, numbers.Integral):
            normalized_shape = (normalized_shape,)
        self.normalized_shape = tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        weight = Parameter(ops.empty(shape, **factory)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self):
        """Set the weight to 1."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )
