"""Pooling over windows: the greatest, the mean, the p-norm; and max pools undone."""

import operator

from ember.backends.library import Library
from ember.core.registry import FUNCTION, F, composite, library_op
from ember.dtypes import int64
from ember.errors import check

_WORDS = {1: "one int", 2: "two ints", 3: "three ints"}


@library_op(Library.max_pool, follows=(0,))
def max_pool(input, kernel, stride, padding, dilation, output_size):
    """The greatest of each window of (N, C, *spatial), and its index in the plane laid out flat."""
    spec = input.spec.with_shape((*input.shape[:2], *output_size))
    return spec, spec.with_dtype(int64)


@library_op(Library.max_pool_backward, follows=(0, 1))
def max_pool_backward(grad, indices, input_shape, dims):
    """`grad` put back where a max pool found its values, added up where windows overlap."""
    return grad.spec.with_shape(tuple(input_shape))


def _picked(g, indices):
    """The elements of g, one plane of it laid out flat, that the indices name."""
    return g.flatten(2).gather(2, indices.flatten(2)).view(indices.shape)


max_pool.grad = lambda g, input_spec, result: max_pool_backward(
    g[0], result[1], input_spec.shape, input_spec.ndim - 2
)
max_pool_backward.grad = lambda g, indices: (_picked(g, indices), None)


@library_op(Library.average_pool, follows=(0,), ranks=(4,))
def average_pool(input, kernel, stride, padding, output_size, count_include_pad, divisor):
    """The sum of each window over its size, or over the divisor."""
    return input.spec.with_shape((*input.shape[:2], *output_size))


@library_op(Library.average_pool_backward, follows=(0,), ranks=(4,))
def average_pool_backward(grad, input_shape, kernel, stride, padding, count_include_pad, divisor):
    """`grad` shared out over the windows that it comes from."""
    return grad.spec.with_shape(tuple(input_shape))


def _average_grad(g, input_spec, kernel, stride, padding, count_include_pad, divisor):
    how = (kernel, stride, padding, count_include_pad, divisor)
    return average_pool_backward(g, input_spec.shape, *how)


def _average_backward_grad(g, grad_spec, kernel, stride, padding, count_include_pad, divisor):
    output_size = grad_spec.shape[2:]
    return average_pool(g, kernel, stride, padding, output_size, count_include_pad, divisor)


average_pool.grad = _average_grad
max_pool.flat = average_pool.flat = True
average_pool_backward.grad = _average_backward_grad


def _window(name, argument, value, count):
    """`value` once for each of `count` dims; RuntimeError for another number of values."""
    values = tuple(value) if hasattr(value, "__iter__") else (value,)
    try:
        values = tuple(operator.index(v) for v in values)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(
            f"{name}(): argument '{argument}' must be tuple of ints, not {kind}"
        ) from None
    optional = "be omitted, " if argument == "stride" else ""
    either = "" if optional else "either "
    check(
        len(values) in (1, count),
        RuntimeError,
        lambda: (
            f"{name}: {argument} must {optional}{either}be a single int, or a tuple of "
            f"{_WORDS[count]} (got {len(values)})"
        ),
    )
    return values * count if len(values) == 1 else values


def _stride_or(name, stride, kernel, count):
    if stride is None or (hasattr(stride, "__len__") and len(stride) == 0):
        return kernel
    return _window(name, "stride", stride, count)


def _check_window(name, kernel, stride, padding, dilation):
    check(
        all(k > 0 for k in kernel),
        RuntimeError,
        f"{name}() kernel_size must be greater than zero, but got {list(kernel)}",
    )
    check(
        all(s > 0 for s in stride),
        RuntimeError,
        f"{name}() stride must be greater than zero: stride should not be zero",
    )
    check(
        all(d > 0 for d in dilation),
        RuntimeError,
        f"{name}() dilation should be greater than zero, but got {list(dilation)}",
    )
    for k, p, d in zip(kernel, padding, dilation):
        check(p >= 0, RuntimeError, f"{name}() pad must be non-negative, but got pad: {p}")
        check(
            p <= (d * (k - 1) + 1) // 2,
            RuntimeError,
            f"pad should be at most half of effective kernel size, but got pad={p}, "
            f"kernel_size={k} and dilation={d}",
        )


def _check_input(name, input, count):
    spatial = input.shape[-count - 1 :] if input.dim() in (count + 1, count + 2) else (0,)
    check(
        all(spatial),
        RuntimeError,
        lambda: (
            f"{name}: Expected {count + 1}D or {count + 2}D (batch mode) tensor with optional 0 "
            f"dim batch size for input, non-empty, but got:{list(input.shape)}"
        ),
    )


def _pooled_sizes(name, sizes, kernel, stride, padding, dilation, ceil_mode):
    """The number of windows along each dim; none starts beyond the left border."""
    result = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation):
        room = n + 2 * p - d * (k - 1) - 1
        count = (-(-room // s) if ceil_mode else room // s) + 1
        if ceil_mode and (count - 1) * s >= n + p:
            count -= 1
        result.append(count)
    check(
        all(n >= 1 for n in result),
        RuntimeError,
        lambda: (
            f"{name}: Given input size: {tuple(sizes)}. Calculated output size: {tuple(result)}. "
            "Output size is too small"
        ),
    )
    return tuple(result)


def _max(name, count, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
    """A max pool over `count` spatial dims."""
    kernel = _window(name, "kernel_size", kernel_size, count)
    stride = _stride_or(name, stride, kernel, count)
    padding = _window(name, "padding", padding, count)
    dilation = _window(name, "dilation", dilation, count)
    _check_window(name, kernel, stride, padding, dilation)
    _check_input(name, input, count)
    batched = input.dim() == count + 2
    input = input if batched else input.unsqueeze(0)
    sizes = _pooled_sizes(name, input.shape[2:], kernel, stride, padding, dilation, ceil_mode)
    values, indices = max_pool(input, kernel, stride, padding, dilation, sizes)
    if not batched:
        values, indices = values.squeeze(0), indices.squeeze(0)
    return (values, indices) if return_indices else values


@composite(export=FUNCTION | F)
def max_pool1d(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """The greatest of each window of (N, C, L) or (C, L); with its index if `return_indices`.

    L' = floor((L + 2·padding − dilation·(kernel_size − 1) − 1) / stride) + 1 (ceil if `ceil_mode`).
    RuntimeError where no window fits or the padding exceeds half a window.

    >>> import ember as torch
    >>> torch.nn.functional.max_pool1d(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[3., 2.]]])
    """
    how = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return _max("max_pool1d", 1, input, *how)


@composite(export=FUNCTION | F)
def max_pool2d(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """The greatest of each window of (N, C, H, W) or (C, H, W); with its index if asked for.

    The index is that in the plane laid out flat, as `max_unpool2d` takes it.

    >>> import ember as torch
    >>> torch.nn.functional.max_pool2d(torch.arange(16.0).view(1, 1, 4, 4), 2)
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    how = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return _max("max_pool2d", 2, input, *how)


@composite(export=FUNCTION | F)
def max_pool3d(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """The greatest of each window of (N, C, D, H, W) or (C, D, H, W); with its index if asked for.

    >>> import ember as torch
    >>> torch.nn.functional.max_pool3d(torch.ones(1, 1, 2, 2, 4), 2).shape
    torch.Size([1, 1, 1, 1, 2])
    """
    how = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return _max("max_pool3d", 3, input, *how)


@composite(export=FUNCTION | F)
def max_pool1d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """`max_pool1d` with `return_indices=True`."""
    return _max("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, True)


@composite(export=F)
def max_pool2d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """`max_pool2d` with `return_indices=True`."""
    return _max("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, True)


@composite(export=F)
def max_pool3d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """`max_pool3d` with `return_indices=True`."""
    return _max("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def _average(
    name, count, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor
):
    """An average pool over `count` spatial dims."""
    kernel = _window(name, "kernel_size", kernel_size, count)
    stride = _stride_or(name, stride, kernel, count)
    padding = _window(name, "padding", padding, count)
    ones = (1,) * count
    _check_window(name, kernel, stride, padding, ones)
    check(divisor is None or divisor != 0, RuntimeError, "divisor must be not zero")
    check(
        input.dim() in (count + 1, count + 2),
        RuntimeError,
        lambda: (
            f"Expected {count + 1} to {count + 2} dimensions, but got {input.dim()}-dimensional "
            f"tensor for argument #1 'self' (while checking arguments for {name})"
        ),
    )
    _check_input(name, input, count)
    batched = input.dim() == count + 2
    input = input if batched else input.unsqueeze(0)
    sizes = _pooled_sizes(name, input.shape[2:], kernel, stride, padding, ones, ceil_mode)
    out = average_pool(input, kernel, stride, padding, sizes, bool(count_include_pad), divisor)
    return out if batched else out.squeeze(0)


@composite(export=FUNCTION | F)
def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """The mean of each window of (N, C, L) or (C, L); zeros of the border count unless told not to.

    L' = floor((L + 2·padding − kernel_size) / stride) + 1 (ceil if `ceil_mode`).

    >>> import ember as torch
    >>> torch.nn.functional.avg_pool1d(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[2., 1.]]])
    """
    how = (kernel_size, stride, padding, ceil_mode, count_include_pad, None)
    return _average("avg_pool1d", 1, input, *how)


@composite(export=F)
def avg_pool2d(
    input,
    kernel_size,
    stride=None,
    padding=0,
    ceil_mode=False,
    count_include_pad=True,
    divisor_override=None,
):
    """The mean of each window of (N, C, H, W) or (C, H, W), or its sum over `divisor_override`.

    >>> import ember as torch
    >>> torch.nn.functional.avg_pool2d(torch.arange(16.0).view(1, 1, 4, 4), 2)
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])
    """
    how = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _average("avg_pool2d", 2, input, *how)


@composite(export=F)
def avg_pool3d(
    input,
    kernel_size,
    stride=None,
    padding=0,
    ceil_mode=False,
    count_include_pad=True,
    divisor_override=None,
):
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W), or its sum over a divisor.

    >>> import ember as torch
    >>> torch.nn.functional.avg_pool3d(torch.ones(1, 1, 2, 2, 4), 2)
    tensor([[[[[1., 1.]]]]])
    """
    how = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _average("avg_pool3d", 3, input, *how)


def _power(average, count, input, norm_type, kernel_size, stride, ceil_mode):
    """(mean of x^p, times the window's size)^(1/p)."""
    kernel = _window(f"lp_pool{count}d", "kernel_size", kernel_size, count)
    size = 1
    for k in kernel:
        size *= k
    mean = average(input.pow(norm_type), kernel, stride, 0, ceil_mode)
    return (mean.sign() * mean.abs().relu()).mul(size).pow(1.0 / norm_type)


@composite(export=F)
def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """(Σ x^p)^(1/p) over each window of (N, C, L), p = `norm_type`.

    >>> import ember as torch
    >>> torch.nn.functional.lp_pool1d(torch.tensor([[[3.0, 4.0]]]), 2, 2)
    tensor([[[5.]]])
    """
    return _power(avg_pool1d, 1, input, norm_type, kernel_size, stride, ceil_mode)


@composite(export=F)
def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """(Σ x^p)^(1/p) over each window of (N, C, H, W), p = `norm_type`.

    >>> import ember as torch
    >>> torch.nn.functional.lp_pool2d(torch.ones(1, 1, 2, 2), 1, 2)
    tensor([[[[4.]]]])
    """
    return _power(avg_pool2d, 2, input, norm_type, kernel_size, stride, ceil_mode)


@composite(export=F)
def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """(Σ x^p)^(1/p) over each window of (N, C, D, H, W), p = `norm_type`.

    >>> import ember as torch
    >>> torch.nn.functional.lp_pool3d(torch.ones(1, 1, 2, 2, 2), 1, 2)
    tensor([[[[[8.]]]]])
    """
    return _power(avg_pool3d, 3, input, norm_type, kernel_size, stride, ceil_mode)
