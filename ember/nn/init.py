"""Initialisers: they fill a tensor in place, without recording, and return it.

On the CPU they draw the same numbers in the same order as PyTorch's.
"""

import math

import ember.ops as ops
from ember.core.modes import no_grad
from ember.core.registry import NAMESPACES
from ember.errors import check
from ember.source_lines import warn

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_LINEAR = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "sigmoid",
)


def calculate_gain(nonlinearity, param=None):
    """The factor by which weights grow to make up for what a nonlinearity takes from the variance.

    `param` is the slope of leaky_relu. ValueError for an unknown name or a slope that is no number.

    >>> calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        check(
            isinstance(slope, (int, float)) and not isinstance(slope, bool),
            ValueError,
            f"negative_slope {slope} not a valid number",
        )
        return math.sqrt(2.0 / (1 + slope**2))
    check(nonlinearity == "selu", ValueError, f"Unsupported nonlinearity {nonlinearity}")
    return 3.0 / 4  # found by experiment, in PyTorch


def _no_grad_uniform_(tensor, a, b, generator=None):
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def _no_grad_normal_(tensor, mean, std, generator=None):
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def _no_grad_fill_(tensor, val):
    with no_grad():
        return tensor.fill_(val)


def _no_grad_zero_(tensor):
    with no_grad():
        return tensor.zero_()


def _normal_cdf(x):
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def _no_grad_trunc_normal_(tensor, mean, std, a, b, generator=None):
    """Rejection: normal numbers where most fall inside [a, b], else uniform ones, thinned."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect."
        )
    with no_grad():
        if _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std) > 0.3:
            drawn = _truncated_from_normal(tensor, mean, std, a, b, generator)
        else:
            drawn = _truncated_from_uniform(tensor, mean, std, a, b, generator)
        return tensor.copy_(drawn)


def _truncated_from_normal(like, mean, std, a, b, generator):
    # as PyTorch draws: the whole tensor anew each time, kept where the one before is outside
    low, high = (ops.tensor(bound, dtype=like.dtype, device="cpu").item() for bound in (a, b))
    drawn = ops.empty_like(like).normal_(mean, std, generator=generator)
    outside = (drawn < low) | (drawn > high)
    while bool(outside.any()):
        again = ops.empty_like(like).normal_(mean, std, generator=generator)
        drawn = ops.where(outside, again, drawn)
        outside = (drawn < low) | (drawn > high)
    return drawn


def _truncated_from_uniform(like, mean, std, a, b, generator):
    # x ~ U(a, b) stays with probability density(x) / greatest density on [a, b]
    peak = -0.5 * ((min(max(mean, a), b) - mean) / std) ** 2
    drawn, rejected = None, None
    while rejected is None or bool(rejected.any()):
        offered = ops.empty_like(like).uniform_(a, b, generator=generator)
        log_density = ((offered - mean) / std) ** 2 * -0.5 - peak
        chance = ops.empty_like(like).uniform_(generator=generator).log()
        fails = chance > log_density
        drawn = offered if drawn is None else ops.where(rejected, offered, drawn)
        rejected = fails if rejected is None else rejected & fails
    return drawn


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Numbers from U(a, b).

    >>> import ember as torch
    >>> torch.nn.init.uniform_(torch.empty(3, 5)).shape
    torch.Size([3, 5])
    """
    return _no_grad_uniform_(tensor, a, b, generator)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Numbers from N(mean, std²).

    >>> import ember as torch
    >>> torch.nn.init.normal_(torch.empty(3, 5)).shape
    torch.Size([3, 5])
    """
    return _no_grad_normal_(tensor, mean, std, generator)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Numbers from N(mean, std²), none outside [a, b].

    >>> import ember as torch
    >>> bool((torch.nn.init.trunc_normal_(torch.empty(100)).abs() <= 2).all())
    True
    """
    return _no_grad_trunc_normal_(tensor, mean, std, a, b, generator)


def constant_(tensor, val):
    """`val` everywhere.

    >>> import ember as torch
    >>> torch.nn.init.constant_(torch.empty(2), 0.3)
    tensor([0.3000, 0.3000])
    """
    return _no_grad_fill_(tensor, val)


def ones_(tensor):
    """1 everywhere."""
    return _no_grad_fill_(tensor, 1.0)


def zeros_(tensor):
    """0 everywhere."""
    return _no_grad_zero_(tensor)


def eye_(tensor):
    """The identity matrix. ValueError unless the tensor is 2-d.

    >>> import ember as torch
    >>> torch.nn.init.eye_(torch.empty(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    check(tensor.dim() == 2, ValueError, "Only tensors with 2 dimensions are supported")
    with no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1)
    return tensor


def dirac_(tensor, groups=1):
    """The convolution weight (3-d to 5-d) that gives its input back, in each of `groups` groups.

    >>> import ember as torch
    >>> torch.nn.init.dirac_(torch.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    check(
        tensor.dim() in (3, 4, 5),
        ValueError,
        "Only tensors with 3, 4, or 5 dimensions are supported",
    )
    outputs, inputs, *kernel = tensor.shape
    check(outputs % groups == 0, ValueError, "dim 0 must be divisible by groups")
    a_group = outputs // groups
    centre = tuple(size // 2 for size in kernel)
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(a_group, inputs)):
                tensor[(group * a_group + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    """(inputs of one output, outputs of one input) of a weight (out, in, *kernel)."""
    check(
        tensor.dim() >= 2,
        ValueError,
        "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions",
    )
    kernel = math.prod(tensor.shape[2:])
    return tensor.size(1) * kernel, tensor.size(0) * kernel


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    modes = ["fan_in", "fan_out"]
    check(mode in modes, ValueError, f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """U(-a, a) with a = gain √(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010).

    >>> import ember as torch
    >>> bool((torch.nn.init.xavier_uniform_(torch.empty(3, 3)).abs() <= 1).all())
    True
    """
    std = gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    bound = math.sqrt(3.0) * std
    return _no_grad_uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """N(0, gain² 2 / (fan_in + fan_out)) (Glorot and Bengio, 2010).

    >>> import ember as torch
    >>> torch.nn.init.xavier_normal_(torch.empty(3, 5)).shape
    torch.Size([3, 5])
    """
    std = gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return _no_grad_normal_(tensor, 0.0, std, generator)


def _is_empty(tensor):
    if 0 not in tensor.shape:
        return False
    warn("Initializing zero-element tensors is a no-op")
    return True


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """U(-b, b) with b = gain √(3 / fan), the gain that of `nonlinearity` (He et al., 2015).

    `a` is the slope of leaky_relu; `mode` "fan_in" keeps the variance forward, "fan_out" backward.

    >>> import ember as torch
    >>> torch.nn.init.kaiming_uniform_(torch.empty(3, 5), nonlinearity="relu").shape
    torch.Size([3, 5])
    """
    if _is_empty(tensor):
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    bound = math.sqrt(3.0) * (calculate_gain(nonlinearity, a) / math.sqrt(fan))
    return _no_grad_uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """N(0, gain² / fan), the gain that of `nonlinearity` (He et al., 2015).

    >>> import ember as torch
    >>> torch.nn.init.kaiming_normal_(torch.empty(3, 5), mode="fan_out").shape
    torch.Size([3, 5])
    """
    if _is_empty(tensor):
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    std = calculate_gain(nonlinearity, a) / math.sqrt(fan)
    return _no_grad_normal_(tensor, 0, std, generator)


def orthogonal_(tensor, gain=1, generator=None):
    """A (semi-)orthogonal matrix times gain, dims after the first taken as one.

    Q of the QR decomposition of a normal matrix, its columns with the signs that make it unique
    (Saxe et al., 2013).

    >>> import ember as torch
    >>> q = torch.nn.init.orthogonal_(torch.empty(3, 3))
    >>> torch.allclose(q @ q.T, torch.eye(3), atol=1e-5)
    True
    """
    check(tensor.dim() >= 2, ValueError, "Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    cols = tensor.numel() // rows
    with no_grad():
        flat = ops.empty((rows, cols), dtype=tensor.dtype, device=tensor.device)
        flat.normal_(0, 1, generator=generator)
        if rows < cols:
            flat = flat.t()
        q, r = NAMESPACES["linalg"]["qr"](flat)
        q = q * r.diagonal().sign()
        if rows < cols:
            q = q.t()
        tensor.view_as(q).copy_(q)
        tensor.mul_(gain)
    return tensor


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """N(0, std²) with a share `sparsity` of each column 0 (Martens, 2010). The tensor is 2-d.

    >>> import ember as torch
    >>> (torch.nn.init.sparse_(torch.empty(10, 2), 0.3) == 0).sum(0)
    tensor([3, 3])
    """
    check(tensor.dim() == 2, ValueError, "Only tensors with 2 dimensions are supported")
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for col in range(cols):
            order = ops.randperm(rows, device="cpu")
            tensor[order[:zeros].to(tensor.device), col] = 0
    return tensor


def _make_deprecate(function):
    new = function.__name__
    old = new[:-1]

    def deprecated(*args, **kwargs):
        warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning)
        return function(*args, **kwargs)

    deprecated.__name__ = old
    deprecated.__doc__ = f"The old name of `{new}`."
    return deprecated


uniform = _make_deprecate(uniform_)
normal = _make_deprecate(normal_)
constant = _make_deprecate(constant_)
eye = _make_deprecate(eye_)
dirac = _make_deprecate(dirac_)
xavier_uniform = _make_deprecate(xavier_uniform_)
xavier_normal = _make_deprecate(xavier_normal_)
kaiming_uniform = _make_deprecate(kaiming_uniform_)
kaiming_normal = _make_deprecate(kaiming_normal_)
orthogonal = _make_deprecate(orthogonal_)
sparse = _make_deprecate(sparse_)
