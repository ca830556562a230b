"""Convolutions and their transposes.

The three library ops are each other's gradients, so derivatives of any order are convolutions too.
"""

import operator

from ember.backends.library import Library
from ember.core.registry import FUNCTION, F, composite, library_op
from ember.errors import check
from ember.ops.linear import rounds_late, widened
from ember.ops.padding import pad
from ember.source_lines import warn


def convolved_size(size, kernel, stride, padding, dilation):
    """The number of places at which a kernel fits."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _same_type(input, weight):
    check(
        input.dtype is weight.dtype,
        RuntimeError,
        lambda: (
            f"Input type ({input.dtype}) and weight type ({weight.dtype}) should be the same: "
            f"expected scalar type {input.dtype.title} but found {weight.dtype.title}. Convert "
            f"one, for example input = input.to({weight.dtype})."
        ),
    )


def _conjugate(tensor):
    return tensor.conj() if tensor.is_complex() else tensor


@library_op(Library.convolution, follows=(0, 1))
def convolution(input, weight, stride, padding, dilation, groups):
    """Cross-correlation of input (N, C, *spatial) with weight (O, C / groups, *kernel)."""
    _same_type(input, weight)
    geometry = zip(input.shape[2:], weight.shape[2:], stride, padding, dilation)
    sizes = (convolved_size(*g) for g in geometry)
    return input.spec.with_shape((input.size(0), weight.size(0), *sizes))


@library_op(Library.convolution_input, follows=(0, 1))
def convolution_input(grad, weight, input_shape, stride, padding, dilation, groups):
    """The gradient of a convolution by its input: the transposed convolution of `grad`."""
    _same_type(grad, weight)
    return grad.spec.with_shape(tuple(input_shape))


@library_op(Library.convolution_weight, follows=(0, 1))
def convolution_weight(grad, input, weight_shape, stride, padding, dilation, groups):
    """The gradient of a convolution by its weight: the input correlated with `grad`."""
    _same_type(grad, input)
    return grad.spec.with_shape(tuple(weight_shape))


def _convolution_grad(g, needs, input, weight, stride, padding, dilation, groups):
    how = (stride, padding, dilation, groups)
    by_input = by_weight = None
    if needs[0]:
        by_input = convolution_input(g, _conjugate(weight), tuple(input.shape), *how)
    if needs[1]:
        by_weight = convolution_weight(g, _conjugate(input), tuple(weight.shape), *how)
    return by_input, by_weight


def _input_grad(g, needs, grad, weight, stride, padding, dilation, groups):
    how = (stride, padding, dilation, groups)
    by_grad = by_weight = None
    geometry = zip(g.shape[2:], weight.shape[2:], stride, padding, dilation)
    # An output_padding of a stride or more makes room for kernel places that `grad` has not.
    excess = [convolved_size(*place) - n for place, n in zip(geometry, grad.shape[2:])]
    if needs[0]:
        by_grad = convolution(g, _conjugate(weight), *how)
        for dim, more in enumerate(excess, 2):
            by_grad = by_grad.narrow(dim, 0, by_grad.size(dim) - more) if more else by_grad
    if needs[1]:
        if any(excess):
            grad = pad(grad, [side for more in reversed(excess) for side in (0, more)])
        by_weight = convolution_weight(_conjugate(grad), g, tuple(weight.shape), *how)
    return by_grad, by_weight


def _weight_grad(g, needs, grad, input, stride, padding, dilation, groups):
    how = (stride, padding, dilation, groups)
    by_grad = convolution(_conjugate(input), g, *how) if needs[0] else None
    by_input = None
    if needs[1]:
        by_input = convolution_input(_conjugate(grad), g, tuple(input.shape), *how)
    return by_grad, by_input


convolution.grad = _convolution_grad
convolution_input.grad = _input_grad
convolution_weight.grad = _weight_grad


def _integers(name, argument, value):
    """A number or a sequence of them as a tuple; TypeError for what is no integer."""
    values = tuple(value) if hasattr(value, "__iter__") else (value,)
    try:
        return tuple(operator.index(v) for v in values)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(
            f"{name}(): argument '{argument}' must be tuple of ints, not {kind}"
        ) from None


def _per_dim(name, argument, value, count):
    """`value` once for each of `count` dims; RuntimeError for another number of values."""
    values = _integers(name, argument, value)
    check(
        len(values) in (1, count),
        RuntimeError,
        lambda: (
            f"expected {argument} to be a single integer value or a list of {count} values to "
            f"match the convolution dimensions, but got {argument}={list(values)}"
        ),
    )
    return values * count if len(values) == 1 else values


def _check_ranks(name, input, weight, count):
    check(
        input.dim() in (count + 1, count + 2),
        RuntimeError,
        lambda: (
            f"Expected {count + 1}D (unbatched) or {count + 2}D (batched) input to {name}, "
            f"but got input of size: {list(input.shape)}"
        ),
    )
    check(weight.dim() >= 3, RuntimeError, "weight should have at least three dimensions")
    check(
        weight.dim() == count + 2,
        RuntimeError,
        lambda: (
            f"Expected {count + 2}-dimensional input for {count + 2}-dimensional weight "
            f"{list(weight.shape)}, but got a {weight.dim()}-dimensional weight in {name}"
        ),
    )
    if any(size == 0 for size in weight.shape[2:]):
        words = ("depth", "height", "width")[-count:] if count > 1 else ("width",)
        named = " ".join(f"kernel_{w}: {n}" for w, n in zip(words, weight.shape[2:]))
        raise RuntimeError(f"kernel size should be greater than zero, but got {named}")


def _check_numbers(stride, padding, dilation, groups):
    check(all(s > 0 for s in stride), RuntimeError, "non-positive stride is not supported")
    check(all(p >= 0 for p in padding), RuntimeError, "negative padding is not supported")
    check(
        all(d > 0 for d in dilation),
        RuntimeError,
        lambda: f"dilation should be greater than zero, but got {list(dilation)}",
    )
    check(groups > 0, RuntimeError, "non-positive groups is not supported")


def _check_channels(input, weight, bias, groups, transposed):
    """RuntimeError where input, weight, bias and groups do not go together."""
    shape = list(weight.shape)
    check(
        weight.size(0) % groups == 0 and weight.size(0) >= groups,
        RuntimeError,
        lambda: (
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size [{shape}] instead"
        ),
    )
    wanted = weight.size(0) if transposed else weight.size(1) * groups
    check(
        input.size(1) == wanted,
        RuntimeError,
        lambda: (
            f"Given {'transposed=1' if transposed else f'groups={groups}'}, weight of size {shape},"
            f" expected input{list(input.shape)} to have {wanted} channels, but got "
            f"{input.size(1)} channels instead"
        ),
    )
    made = weight.size(1) * groups if transposed else weight.size(0)
    check(
        bias is None or tuple(bias.shape) == (made,),
        RuntimeError,
        lambda: (
            f"Given weight of size {shape}, expected bias to be 1-dimensional with {made} elements,"
            f" but got bias of size {list(bias.shape)} instead"
        ),
    )


def _sizes(values):
    return "(" + " x ".join(map(str, values)) + ")"


def _string_padding(input, weight, padding, stride, dilation):
    """The input, with a border where "same" needs an uneven one, and the padding as numbers."""
    check(padding in ("same", "valid"), RuntimeError, f"Invalid padding string: '{padding}'")
    count = len(stride)
    if padding == "valid":
        return input, (0,) * count
    message = "padding='same' is not supported for strided convolutions"
    check(all(s == 1 for s in stride), RuntimeError, message)
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
    if any(total % 2 for total in totals):
        warn(
            "Using padding='same' with even kernel lengths and odd dilation may require a "
            "zero-padded copy of the input be created"
        )
        border = [side for total in reversed(totals) for side in (0, total % 2)]
        input = pad(input, border)
    return input, tuple(total // 2 for total in totals)


def _with_bias(convolve, input, weight, bias, *how):
    """`convolve(input, weight, *how)` plus the bias."""
    if bias is None:
        return convolve(input, weight, *how)
    check(
        bias.dtype is input.dtype,
        RuntimeError,
        lambda: f"Input type ({input.dtype}) and bias type ({bias.dtype}) should be the same",
    )
    if rounds_late(input):
        return _with_bias(convolve, *widened(input, weight, bias), *how).to(input.dtype)
    out = convolve(input, weight, *how)
    return out + bias.view(-1, *(1,) * (out.dim() - 2))


def _convolve(name, count, input, weight, bias, stride, padding, dilation, groups):
    """A convolution over `count` spatial dims of checked arguments."""
    _check_ranks(name, input, weight, count)
    stride = _per_dim(name, "stride", stride, count)
    dilation = _per_dim(name, "dilation", dilation, count)
    batched = input.dim() == count + 2
    if not batched:
        input = input.unsqueeze(0)
    numbers = (0,) if isinstance(padding, str) else _per_dim(name, "padding", padding, count)
    _check_numbers(stride, numbers, dilation, groups)
    _check_channels(input, weight, bias, groups, False)
    if isinstance(padding, str):
        input, numbers = _string_padding(input, weight, padding, stride, dilation)
    padded = [size + 2 * p for size, p in zip(input.shape[2:], numbers)]
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, weight.shape[2:])]
    check(
        all(size >= span for size, span in zip(padded, spans)),
        RuntimeError,
        lambda: (
            f"Calculated padded input size per channel: {_sizes(padded)}. Kernel size: "
            f"{_sizes(spans)}. Kernel size can't be greater than actual input size"
        ),
    )
    how = (stride, numbers, dilation, groups)
    out = _with_bias(convolution, input, weight, bias, *how)
    return out if batched else out.squeeze(0)


def _transpose(name, count, input, weight, bias, stride, padding, output_padding, groups, dilation):
    """A transposed convolution over `count` spatial dims of checked arguments."""
    check(
        not isinstance(padding, str),
        TypeError,
        f"{name}(): argument 'padding' must be tuple of ints, not str",
    )
    _check_ranks(name, input, weight, count)
    stride = _per_dim(name, "stride", stride, count)
    padding = _per_dim(name, "padding", padding, count)
    dilation = _per_dim(name, "dilation", dilation, count)
    extra = _per_dim(name, "output_padding", output_padding, count)
    batched = input.dim() == count + 2
    if not batched:
        input = input.unsqueeze(0)
    _check_numbers(stride, padding, dilation, groups)
    check(all(e >= 0 for e in extra), RuntimeError, "negative output_padding is not supported")
    _check_channels(input, weight, bias, groups, True)
    check(
        all(e < s or e < d for e, s, d in zip(extra, stride, dilation)),
        RuntimeError,
        lambda: (
            "output padding must be smaller than either stride or dilation, but got "
            f"output_padding={list(extra)}, stride={list(stride)}, dilation={list(dilation)}"
        ),
    )
    sizes = [
        (size - 1) * s - 2 * p + d * (k - 1) + e + 1
        for size, s, p, d, k, e in zip(
            input.shape[2:], stride, padding, dilation, weight.shape[2:], extra
        )
    ]
    check(
        all(size > 0 for size in sizes),
        RuntimeError,
        lambda: (
            f"Given input size per channel: {_sizes(input.shape[2:])}. Calculated output size per "
            f"channel: {_sizes(sizes)}. Output size is too small"
        ),
    )
    shape = (input.size(0), weight.size(1) * groups, *sizes)
    how = (shape, stride, padding, dilation, groups)
    out = _with_bias(convolution_input, input, weight, bias, *how)
    return out if batched else out.squeeze(0)


@composite(export=FUNCTION | F)
def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """1-d cross-correlation: (N, C, L) or (C, L) with (O, C / groups, k) to (N, O, L').

    L' = floor((L + 2·padding − dilation·(k − 1) − 1) / stride) + 1; padding may be "valid" or
    "same". RuntimeError for shapes or dtypes that do not go together.

    >>> import ember as torch
    >>> torch.conv1d(torch.tensor([[[1.0, 2.0, 4.0]]]), torch.tensor([[[1.0, -1.0]]]))
    tensor([[[-1., -2.]]])
    """
    return _convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@composite(export=FUNCTION | F)
def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """2-d cross-correlation: (N, C, H, W) or (C, H, W) with (O, C / groups, h, w) to (N, O, ...).

    >>> import ember as torch
    >>> torch.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2))
    tensor([[[[4., 4.],
              [4., 4.]]]])
    """
    return _convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@composite(export=FUNCTION | F)
def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """3-d cross-correlation: (N, C, D, H, W) or (C, D, H, W) with (O, C / groups, d, h, w).

    >>> import ember as torch
    >>> torch.conv3d(torch.ones(1, 1, 3, 3, 3), torch.ones(2, 1, 2, 2, 2)).shape
    torch.Size([1, 2, 2, 2, 2])
    """
    return _convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@composite(export=FUNCTION | F)
def conv_transpose1d(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """The adjoint of `conv1d`: (N, C, L) with (C, O / groups, k) to (N, O, L').

    L' = (L − 1)·stride − 2·padding + dilation·(k − 1) + output_padding + 1. RuntimeError for shapes
    that do not go together.

    >>> import ember as torch
    >>> torch.conv_transpose1d(torch.tensor([[[1.0, 2.0]]]), torch.ones(1, 1, 2), stride=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    arguments = (input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _transpose("conv_transpose1d", 1, *arguments)


@composite(export=FUNCTION | F)
def conv_transpose2d(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """The adjoint of `conv2d`: (N, C, H, W) with (C, O / groups, h, w) to (N, O, H', W').

    >>> import ember as torch
    >>> torch.conv_transpose2d(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2), stride=2).shape
    torch.Size([1, 1, 4, 4])
    """
    arguments = (input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _transpose("conv_transpose2d", 2, *arguments)


@composite(export=FUNCTION | F)
def conv_transpose3d(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """The adjoint of `conv3d`: (N, C, D, H, W) with (C, O / groups, d, h, w) to (N, O, D', ...).

    >>> import ember as torch
    >>> torch.conv_transpose3d(torch.ones(1, 1, 2, 2, 2), torch.ones(1, 3, 2, 2, 2)).shape
    torch.Size([1, 3, 3, 3, 3])
    """
    arguments = (input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _transpose("conv_transpose3d", 3, *arguments)


@composite(export=FUNCTION | F)
def conv_tbc(input, weight, bias, pad=0):
    """1-d convolution of (time, batch, channels) with (k, C, O).

    >>> import ember as torch
    >>> torch.conv_tbc(torch.ones(4, 2, 3), torch.ones(2, 3, 5), torch.zeros(5)).shape
    torch.Size([3, 2, 5])
    """
    out = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return out.permute(2, 0, 1)
