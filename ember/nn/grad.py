"""The gradients of convolutions by their input and by their weight, as functions."""

import ember.ops as ops
from ember.core.modes import enable_grad
from ember.nn import functional as F

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]


def _gradient(function, input, weight, grad_output, wanted, how):
    with enable_grad():
        inputs = [input.detach().requires_grad_(), weight.detach().requires_grad_()]
        function(*inputs, None, *how).backward(grad_output)
    return inputs[wanted].grad


def _by_input(function, input_size, weight, grad_output, how):
    size = tuple(input_size)
    blank = ops.zeros(size, dtype=grad_output.dtype, device=grad_output.device)
    return _gradient(function, blank, weight, grad_output, 0, how)


def _by_weight(function, input, weight_size, grad_output, how):
    size = tuple(weight_size)
    blank = ops.zeros(size, dtype=grad_output.dtype, device=grad_output.device)
    return _gradient(function, input, blank, grad_output, 1, how)


def conv1d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of `conv1d` by its input.

    >>> import ember as torch
    >>> from ember.nn.grad import conv1d_input
    >>> conv1d_input((1, 1, 3), torch.ones(1, 1, 2), torch.ones(1, 1, 2))
    tensor([[[1., 2., 1.]]])
    """
    return _by_input(F.conv1d, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv1d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of `conv1d` by its weight."""
    how = (stride, padding, dilation, groups)
    return _by_weight(F.conv1d, input, weight_size, grad_output, how)


def conv2d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of `conv2d` by its input."""
    return _by_input(F.conv2d, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv2d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of `conv2d` by its weight."""
    how = (stride, padding, dilation, groups)
    return _by_weight(F.conv2d, input, weight_size, grad_output, how)


def conv3d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of `conv3d` by its input."""
    return _by_input(F.conv3d, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv3d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of `conv3d` by its weight."""
    how = (stride, padding, dilation, groups)
    return _by_weight(F.conv3d, input, weight_size, grad_output, how)
