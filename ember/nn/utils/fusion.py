"""A batch norm folded into the layer before it, for evaluation."""

import copy

import ember.ops as ops
from ember.errors import check
from ember.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """Weight and bias of the convolution that does what convolution and batch norm do in a row.

    w' = w · γ/√(var + eps) for each output channel, b' = (b - mean) · γ/√(var + eps) + β.
    """
    conv_b = ops.zeros_like(bn_rm) if conv_b is None else conv_b
    bn_w = ops.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = ops.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = bn_w * (bn_rv + bn_eps).rsqrt()
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    bias = ((conv_b - bn_rm) * scale + bn_b).to(conv_b.dtype)
    return Parameter(weight, conv_w.requires_grad), Parameter(bias, conv_b.requires_grad)


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A copy of `conv` that also does what `bn` does. AssertionError unless both evaluate.

    >>> import ember as torch
    >>> conv, norm = torch.nn.Conv1d(2, 3, 1).eval(), torch.nn.BatchNorm1d(3).eval()
    >>> torch.nn.utils.fuse_conv_bn_eval(conv, norm)
    Conv1d(2, 3, kernel_size=(1,), stride=(1,))
    """
    check(not (conv.training or bn.training), AssertionError, "Fusion only for eval!")
    check(
        bn.running_mean is not None and bn.running_var is not None,
        AssertionError,
        "the batch norm keeps no running values to fold in",
    )
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight,
        fused.bias,
        bn.running_mean,
        bn.running_var,
        bn.eps,
        bn.weight,
        bn.bias,
        transpose,
    )
    return fused


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """Weight and bias of the linear layer that does what it and a batch norm do in a row."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_linear_bn_eval(linear, bn):
    """A copy of `linear` that also does what `bn` does. AssertionError unless both evaluate.

    >>> import ember as torch
    >>> linear, norm = torch.nn.Linear(2, 3).eval(), torch.nn.BatchNorm1d(3).eval()
    >>> torch.nn.utils.fuse_linear_bn_eval(linear, norm)
    Linear(in_features=2, out_features=3, bias=True)
    """
    check(not (linear.training or bn.training), AssertionError, "Fusion only for eval!")
    check(
        bn.num_features in (linear.out_features, 1),
        AssertionError,
        "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
        f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}",
    )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused
