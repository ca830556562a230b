"""Normalizations: batch, instance, layer, group, root mean square, local response, p-norm."""

from ember.core.modes import no_grad
from ember.core.registry import F, composite, elementwise, rowwise
from ember.dtypes import FLOATING, HALF
from ember.errors import check
from ember.ops.batch_statistics import (
    batch_normalized,
    batch_normalized_by,
    is_one_op,
    is_one_op_given,
    move_statistics_,
)
from ember.ops.formats import in_order_of, plain_order
from ember.ops.linear import widened
from ember.ops.padding import pad
from ember.scalar.primitives import make, row_mean


@rowwise(accepts=FLOATING)
def standardized(input, weight, bias, eps):
    """(x − mean) / √(var + eps) over a row, times weight, plus bias (None leaves them out)."""
    centered = input - row_mean(input)
    result = centered * make("rsqrt", row_mean(centered * centered) + eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


@rowwise(accepts=FLOATING)
def root_mean_square_scaled(input, weight, eps):
    """x / √(mean(x²) + eps) over a row, times weight."""
    result = input * make("rsqrt", row_mean(input * input) + eps)
    return result if weight is None else result * weight


@composite(export=F)
def batch_norm(
    input,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training=False,
    momentum=0.1,
    eps=1e-5,
):
    """(x − mean) / √(var + eps) · weight + bias over all dims but the second.

    Mean and variance are the batch's in training, which also moves the running ones by `momentum`
    (the variance's unbiased form), and the running ones else (Ioffe and Szegedy,
    arXiv:1502.03167). ValueError in training with one value per channel.

    >>> import ember as torch
    >>> x = torch.tensor([[1.0], [3.0]])
    >>> torch.nn.functional.batch_norm(x, None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if training:
        count = input.numel() // max(input.size(1), 1) if input.dim() > 1 else 2
        check(
            count != 1,
            ValueError,
            lambda: (
                "Expected more than 1 value per channel when training, "
                f"got input size {input.size()}"
            ),
        )
    check(
        eps > 0 or not training,
        ValueError,
        f"batch_norm eps must be positive during training, but got {eps}",
    )
    check(eps >= 0, ValueError, f"batch_norm eps must be non-negative, but got {eps}")
    _check_statistics(running_mean, running_var, not training)
    channels = input.size(1) if input.dim() > 1 else 0
    _check_channels(channels, running_mean, running_var, weight, bias)
    _check_floating("batch_norm", input)
    _check_mixed(input, weight, bias, running_mean, running_var)
    dims = tuple(d for d in range(input.dim()) if d != 1)
    if not training:
        return _with_statistics(input, running_mean, running_var, weight, bias, eps)
    if is_one_op(input, weight, bias):
        result, mean, var = batch_normalized(input, weight, bias, float(eps))
        if running_mean is not None:
            found = mean.detach(), var.detach()
            _move_both(running_mean, running_var, *found, momentum, count / (count - 1))
        return result
    if running_mean is not None and input.numel():
        _move_statistics(input, running_mean, running_var, momentum, dims)
    ndim = input.dim()
    weight, bias = _as_channels(weight, ndim), _as_channels(bias, ndim)
    return in_order_of(input, _in_dtype(standardized(input, weight, bias, eps, dim=dims), input))


def _check_statistics(mean, var, needed):
    check(
        (mean is None) == (var is None) or needed,
        ValueError,
        "running_mean and running_var must either both be None or neither be None",
    )
    for name, value in (("running_mean", mean), ("running_var", var)):
        message = f"{name} must be defined in evaluation mode"
        check(value is not None or not needed, RuntimeError, message)
        check(
            value is None or not value.requires_grad,
            RuntimeError,
            f"batch_norm is not differentiable with respect to argument '{name}'. "
            "This input cannot have requires_grad True.",
        )


def _check_channels(channels, running_mean, running_var, weight, bias):
    named = ("running_mean", running_mean), ("running_var", running_var)
    for name, value in (*named, ("weight", weight), ("bias", bias)):
        check(
            value is None or value.numel() == channels,
            RuntimeError,
            lambda: f"{name} should contain {channels} elements not {value.numel()}",  # noqa: B023
        )


def _check_mixed(input, *parameters):
    """RuntimeError for parameters of another dtype; float32 ones may go with a half input."""
    given = {p.dtype for p in parameters if p is not None}
    wide = input.dtype in HALF and all(str(d) == "torch.float32" for d in given)
    check(
        wide or given <= {input.dtype},
        RuntimeError,
        lambda: (
            "mixed dtype (CPU): expect parameter to have scalar type of Float, or all inputs must "
            f"share same datatype; the input is {input.dtype}, the parameters "
            f"{', '.join(sorted(map(str, given)))}"
        ),
    )


def _check_floating(name, input):
    check(
        input.is_floating_point(),
        NotImplementedError,
        lambda: f"\"{name}\" not implemented for '{input.dtype.title}'",
    )


def _as_channels(value, ndim):
    """A vector of channels, shaped to go along dim 1."""
    return None if value is None else value.view(-1, *(1,) * (ndim - 2))


def _in_dtype(result, input):
    return result if result.dtype is input.dtype else result.to(input.dtype)


@elementwise(accepts=FLOATING)
def centered_and_scaled(input, mean, var, weight, bias, eps):
    """(x − mean) / √(var + eps), times weight, plus bias (None leaves them out)."""
    result = (input - mean) * make("rsqrt", var + eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def _with_statistics(input, mean, var, weight, bias, eps):
    if is_one_op_given(input, mean, var, weight, bias):
        return batch_normalized_by(input, weight, bias, mean, var, float(eps))
    by_channel = (_as_channels(value, input.dim()) for value in (mean, var, weight, bias))
    return _in_dtype(centered_and_scaled(input, *by_channel, eps), input)


def _move_statistics(input, running_mean, running_var, momentum, dims, over=None):
    """Running values moved towards the batch's, in float32 at least; the mean `over` instances."""
    with no_grad():
        (data,) = widened(input.detach())
        found = data.mean(dims), data.var(dims)
        found = found if over is None else tuple(f.mean(over) for f in found)
        _move_towards(tuple(zip((running_mean, running_var), found, strict=True)), momentum)


def _move_both(running_mean, running_var, mean, var, momentum, unbiased):
    """Running statistics moved towards those of a batch, as one op if all are alike."""
    if running_mean.dtype is running_var.dtype is mean.dtype:
        with no_grad():
            move_statistics_(
                running_mean, running_var, mean, var, momentum=momentum, unbiased=unbiased
            )
    else:
        pairs = (running_mean, mean), (running_var, var * unbiased)
        _move_towards(pairs, momentum)


def _move_towards(pairs, momentum):
    """Each first moved towards the second."""
    with no_grad():
        for running, now in pairs:
            running.copy_(running.to(now.dtype).lerp(now, momentum))


@composite(export=F)
def instance_norm(
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-5,
):
    """(x − mean) / √(var + eps) · weight + bias over the spatial dims of each (n, c).

    Running statistics, where given, move by `momentum`; `use_input_stats=False` normalizes with
    them (Ulyanov et al., arXiv:1607.08022). ValueError for a single spatial element.

    >>> import ember as torch
    >>> torch.nn.functional.instance_norm(torch.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    if use_input_stats:
        spatial = 1
        for size in input.shape[2:]:
            spatial *= size
        check(
            spatial != 1,
            ValueError,
            lambda: (
                f"Expected more than 1 spatial element when training, got input size {input.size()}"
            ),
        )
    check(
        use_input_stats or (running_mean is not None and running_var is not None),
        RuntimeError,
        "Expected running_mean and running_var to be defined when use_input_stats is false",
    )
    _check_statistics(running_mean, running_var, False)
    _check_channels(input.size(1), running_mean, running_var, weight, bias)
    if not use_input_stats:
        return _with_statistics(input, running_mean, running_var, weight, bias, eps)
    ndim = input.dim()
    dims = tuple(range(2, ndim))
    if running_mean is not None:
        _move_statistics(input, running_mean, running_var, momentum, dims, over=0)
    weight, bias = _as_channels(weight, ndim), _as_channels(bias, ndim)
    return _in_dtype(standardized(input, weight, bias, eps, dim=dims), input)


def _check_normalized_shape(input, normalized_shape, weight, bias, comma=", "):
    shape = tuple(normalized_shape)
    check(
        len(shape) >= 1,
        RuntimeError,
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
        f"element, but got normalized_shape = {list(shape)}",
    )
    for name, value in (("weight", weight), ("bias", bias)):
        check(
            value is None or tuple(value.shape) == shape,
            RuntimeError,
            lambda: (
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "  # noqa: B023
                f"{list(value.shape)} and normalized_shape = {list(shape)}"  # noqa: B023
            ),
        )
    check(
        tuple(input.shape[-len(shape) :]) == shape,
        RuntimeError,
        lambda: (
            f"Given normalized_shape={list(shape)}, expected input with shape "
            f"[*{comma}{', '.join(map(str, shape))}], but got input of size{list(input.shape)}"
        ),
    )
    return tuple(range(input.dim() - len(shape), input.dim()))


@composite(export=F)
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """(x − mean) / √(var + eps) · weight + bias over the last dims (Ba et al., arXiv:1607.06450).

    `normalized_shape` is the shape of those dims, of weight and of bias; else RuntimeError.

    >>> import ember as torch
    >>> torch.nn.functional.layer_norm(torch.tensor([[1.0, 3.0]]), (2,))
    tensor([[-1.0000,  1.0000]])
    """
    check(
        not isinstance(normalized_shape, int),
        TypeError,
        "layer_norm(): argument 'normalized_shape' (position 2) must be tuple of ints, not int",
    )
    dims = _check_normalized_shape(input, normalized_shape, weight, bias)
    _check_floating("layer_norm", input)
    _check_mixed(input, weight, bias)
    return _in_dtype(standardized(input, weight, bias, eps, dim=dims), input)


@composite(export=F)
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """(x − mean) / √(var + eps) over each group of channels of (N, C, ...), then · weight + bias.

    weight and bias are (C,) (Wu and He, arXiv:1803.08494). RuntimeError unless `num_groups`
    divides C; ValueError for a single value per group.

    >>> import ember as torch
    >>> torch.nn.functional.group_norm(torch.tensor([[1.0, 3.0, 5.0, 9.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    check(
        input.dim() >= 2,
        RuntimeError,
        lambda: f"Expected at least 2 dimensions for input tensor but received {input.dim()}",
    )
    check(
        num_groups > 0, RuntimeError, f"Expected num groups to be greater than 0, got {num_groups}"
    )
    channels = input.size(1)
    count = input.size(0) * channels // num_groups
    for size in input.shape[2:]:
        count *= size
    check(
        count != 1,
        ValueError,
        lambda: (
            "Expected more than 1 value per channel when training, "
            f"got input size {list(input.shape)}"
        ),
    )
    check(
        channels % num_groups == 0,
        RuntimeError,
        lambda: (
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(input.shape)} and num_groups={num_groups}"
        ),
    )
    for name, value in (("weight", weight), ("bias", bias)):
        check(
            value is None or (value.dim() == 1 and value.numel() == channels),
            RuntimeError,
            lambda: (
                f"Expected {name} to be a vector of size equal to the number of channels in input, "  # noqa: B023
                f"but got {name} of shape {list(value.shape)} and input of shape "  # noqa: B023
                f"{list(input.shape)}"
            ),
        )
    _check_floating("group_norm", input)
    _check_mixed(input, weight, bias)
    grouped = plain_order(input).unflatten(1, (num_groups, channels // num_groups))
    ones = (1,) * (input.dim() - 2)
    weight, bias = (
        None if value is None else value.view(num_groups, -1, *ones) for value in (weight, bias)
    )
    dims = tuple(range(2, grouped.dim()))
    result = standardized(grouped, weight, bias, eps, dim=dims).flatten(1, 2)
    return in_order_of(input, _in_dtype(result, input))


@composite(export=F)
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x / √(mean(x²) + eps) · weight over the last dims (Zhang and Sennrich, arXiv:1910.07467).

    `eps` is by default the machine epsilon of the dtype that it is computed in.

    >>> import ember as torch
    >>> torch.nn.functional.rms_norm(torch.tensor([[3.0, 4.0]]), (2,))
    tensor([[0.8485, 1.1314]])
    """
    dims = _check_normalized_shape(input, normalized_shape, weight, None, comma="")
    if eps is None:
        eps = 2.0**-52 if input.dtype.itemsize == 8 and not input.dtype.is_complex else 2.0**-23
    if input.is_complex():
        scaled = input * ((input * input).mean(dims, keepdim=True) + eps).rsqrt()
        return scaled if weight is None else scaled * weight
    return root_mean_square_scaled(input, weight, eps, dim=dims).to(input.dtype)


@composite(export=F)
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha · mean(x²))^beta, the mean over `size` neighbouring channels.

    Input (N, C, ...) of three dims or more, else ValueError (Krizhevsky et al., 2012).

    >>> import ember as torch
    >>> torch.nn.functional.local_response_norm(torch.ones(1, 2, 1), 2, alpha=2.0, beta=1.0)
    tensor([[[0.5000],
             [0.3333]]])
    """
    check(
        input.dim() >= 3,
        ValueError,
        lambda: f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)",
    )
    if input.numel() == 0:
        return input
    channels = input.size(1)
    squares = input * input
    padded = pad(squares, (*(0, 0) * (input.dim() - 2), size // 2, (size - 1) // 2))
    total = sum(padded.narrow(1, i, channels) for i in range(size))
    mean = total / size if input.is_floating_point() else total.div(size, rounding_mode="trunc")
    return input / (mean * alpha + k) ** beta


@composite(export=F)
def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """x / max(‖x‖_p, eps) along `dim`.

    >>> import ember as torch
    >>> torch.nn.functional.normalize(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    length = input.norm(p, dim, keepdim=True).clamp(min=eps).expand_as(input)
    return input.div(length) if out is None else input.div(length, out=out)
