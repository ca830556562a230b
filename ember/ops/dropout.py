"""Dropout of elements and of whole channels (Srivastava et al., 2014)."""

import math

from ember.core.registry import FUNCTION, F, composite, elementwise
from ember.dtypes import INEXACT, INTEGRAL
from ember.errors import check
from ember.ops.likes import empty_like
from ember.source_lines import warn

# The value that SELU saturates at: α·λ (Klambauer et al., arXiv:1706.02515)
_SATURATED = 1.7580993408473766


def _check(p):
    check(
        0.0 <= p <= 1.0,
        ValueError,
        f"dropout probability has to be between 0 and 1, but got {p}",
    )


def _noise(input, p, channels):
    """1 with probability 1 − p, else 0, for each element or each (n, c)."""
    check(
        input.dtype.category > INTEGRAL,
        RuntimeError,
        lambda: f"result type Float can't be cast to the desired output type {input.dtype.title}",
    )
    if not channels:
        return empty_like(input).bernoulli_(1 - p)
    message = "Feature dropout requires at least 2 dimensions in the input"
    check(input.dim() >= 2, RuntimeError, message)
    shape = (*input.shape[:2], *(1,) * (input.dim() - 2))
    return input.new_empty(shape).bernoulli_(1 - p)


@elementwise(accepts=INEXACT)
def thinned(input, noise, kept):
    """input · noise / kept, as one kernel of a GPU: PyTorch's does not round the quotient either,
    where the CPU's does."""
    return input * (noise / kept)


thinned.grad = lambda g, input, noise, kept: (g * (noise / kept), None, None)


def _dropped(input, p, training, inplace=False, channels=False):
    """input · noise / (1 − p)."""
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return input.mul_(0) if inplace else input * 0
    noise = _noise(input, p, channels)
    if input.is_cuda and not inplace:
        return thinned(input, noise, 1 - p)
    noise.div_(1 - p)
    return input.mul_(noise) if inplace else input * noise


def _saturated(input, p, training, inplace=False, channels=False):
    """Dropped elements take SELU's saturation value; a line keeps mean 0 and variance 1."""
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return input.mul_(0) if inplace else input * 0
    noise = _noise(input, p, channels)
    a = 1 / math.sqrt((_SATURATED * _SATURATED * p + 1) * (1 - p))
    shift = (noise - 1).mul_(_SATURATED * a).add_(_SATURATED * a * p)
    noise.mul_(a)
    return input.mul_(noise).add_(shift) if inplace else input * noise + shift


@composite(export=F)
def dropout(input, p=0.5, training=True, inplace=False):
    """Each element zero with probability p, else divided by 1 − p; the input if not `training`.

    On the CPU the draws are PyTorch's for the same seed. ValueError for p outside [0, 1].

    >>> import ember as torch
    >>> torch.nn.functional.dropout(torch.ones(3), 0.5, training=False)
    tensor([1., 1., 1.])
    """
    _check(p)
    return _dropped(input, p, training, inplace)


@composite(export=F)
def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout for SELU networks: dropped elements saturate, mean and variance stay.

    >>> import ember as torch
    >>> torch.nn.functional.alpha_dropout(torch.ones(3), 0.5)
    tensor([1., 1., 1.])
    """
    _check(p)
    return _saturated(input, p, training, inplace)


@composite(export=F)
def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """`alpha_dropout` of whole channels.

    >>> import ember as torch
    >>> torch.nn.functional.feature_alpha_dropout(torch.ones(1, 3), 0.5)
    tensor([[1., 1., 1.]])
    """
    _check(p)
    return _saturated(input, p, training, inplace, channels=True)


@composite(export=F)
def dropout1d(input, p=0.5, training=True, inplace=False):
    """Whole channels of (N, C, L) or (C, L) zero with probability p. RuntimeError for other ranks.

    >>> import ember as torch
    >>> torch.nn.functional.dropout1d(torch.ones(1, 2, 3), 1.0).sum()
    tensor(0.)
    """
    _check(p)
    check(
        input.dim() in (2, 3),
        RuntimeError,
        lambda: (
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        ),
    )
    if input.dim() == 3:
        return _dropped(input, p, training, inplace, channels=True)
    return _unbatched(input, p, training, inplace)


def _unbatched(input, p, training, inplace):
    """Channels of an input without batch."""
    if inplace:
        _dropped(input.unsqueeze(0), p, training, True, channels=True)
        return input
    return _dropped(input.unsqueeze(0), p, training, False, channels=True).squeeze(0)


def _warn_of_rank(name, input, dims, ranks):
    if input.dim() not in ranks:
        warn(
            f"{name}: Received a {input.dim()}-D input to {name}, which is deprecated and will "
            "result in an error in a future release. To retain the behavior and silence this "
            f"warning, please use dropout instead. Note that {name} exists to provide channel-wise "
            f"dropout on inputs with {dims} spatial dimensions, a channel dimension, and an "
            f"optional batch dimension (i.e. {ranks[0]}D or {ranks[1]}D inputs)."
        )


@composite(export=F)
def dropout2d(input, p=0.5, training=True, inplace=False):
    """Whole channels of (N, C, H, W) zero with probability p (Tompson et al., arXiv:1411.4280).

    A 3-D input is taken as (N, C, L), with a warning, as in PyTorch.

    >>> import ember as torch
    >>> torch.nn.functional.dropout2d(torch.ones(1, 2, 3, 3), 1.0).sum()
    tensor(0.)
    """
    _check(p)
    _warn_of_rank("dropout2d", input, 2, (3, 4))
    if input.dim() == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
            "dim. This behavior will change in a future release to interpret the input as one "
            "without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
            "dropout behavior, please switch to using dropout1d instead."
        )
    return _dropped(input, p, training, inplace, channels=True)


@composite(export=F)
def dropout3d(input, p=0.5, training=True, inplace=False):
    """Whole channels of (N, C, D, H, W) or (C, D, H, W) zero with probability p.

    >>> import ember as torch
    >>> torch.nn.functional.dropout3d(torch.ones(1, 2, 3, 3, 3), 1.0).sum()
    tensor(0.)
    """
    _check(p)
    _warn_of_rank("dropout3d", input, 3, (4, 5))
    if input.dim() == 4:
        return _unbatched(input, p, training, inplace)
    return _dropped(input, p, training, inplace, channels=True)


def _plain(name, function, channels):
    """torch.NAME and torch.NAME_, whose arguments are input, p and train."""

    def call(input, p, train):
        _check(p)
        return function(input, p, train, False, channels)

    def call_in_place(input, p, train):
        _check(p)
        return function(input, p, train, True, channels)

    call.__doc__ = f"`torch.nn.functional`'s {name}, with its arguments in the order (p, train)."
    call_in_place.__doc__ = f"`{name}` in place."
    call.__name__, call_in_place.__name__ = name, name + "_"
    composite(export=FUNCTION, name=name)(call)
    composite(export=FUNCTION, name=name + "_")(call_in_place)


_plain("dropout", _dropped, False)
_plain("feature_dropout", _dropped, True)
_plain("alpha_dropout", _saturated, False)
_plain("feature_alpha_dropout", _saturated, True)
