"""Activations with a second argument or with random numbers: glu, prelu, rrelu, gumbel_softmax."""

from ember.core.registry import FUNCTION, METHOD, F, composite, elementwise
from ember.dtypes import FLOATING, float64
from ember.errors import check
from ember.ops.create import empty
from ember.ops.likes import empty_like, ones_like, zeros_like
from ember.scalar.primitives import sigmoid, where
from ember.source_lines import warn


@elementwise(accepts=FLOATING)
def gated(a, b):
    """a·σ(b)."""
    return a * sigmoid(b)


@composite(export=F)
def glu(input, dim=-1):
    """a·σ(b) of the two halves a, b of the input along `dim` (Dauphin et al., arXiv:1612.08083).

    RuntimeError unless the size of `dim` is even.

    >>> import ember as torch
    >>> torch.nn.functional.glu(torch.tensor([2.0, 0.0]))
    tensor([1.])
    """
    message = "glu does not support scalars because halving size must be even"
    check(input.dim() > 0, RuntimeError, message)
    size = input.size(dim)
    check(
        size % 2 == 0,
        RuntimeError,
        lambda: f"Halving dimension must be even, but dimension {dim % input.dim()} is size {size}",
    )
    return gated(input.narrow(dim, 0, size // 2), input.narrow(dim, size // 2, size // 2))


@elementwise(accepts=FLOATING)
def sloped(input, weight):
    """x where x > 0, else weight·x."""
    return where(input > 0, input, weight * input)


@composite(export=FUNCTION | METHOD | F)
def prelu(input, weight):
    """x where x > 0, else weight·x; one weight, or one for each channel (He et al., 2015).

    RuntimeError for another number of weights.

    >>> import ember as torch
    >>> torch.prelu(torch.tensor([-2.0, 3.0]), torch.tensor([0.5]))
    tensor([-1.,  3.])
    """
    check(
        input.dtype is weight.dtype,
        RuntimeError,
        lambda: (
            f"prelu: Type promoting not supported. Got {input.dtype.title} and {weight.dtype.title}"
        ),
    )
    check(
        weight.dim() <= 1,
        RuntimeError,
        lambda: (
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}"
        ),
    )
    if weight.numel() == 1:
        return sloped(input, weight.reshape(()) if input.dim() == 0 else weight.reshape(-1))
    check(input.dim() > 0, RuntimeError, "Not allow zero-dim input tensor.")
    channels = input.size(1) if input.dim() > 1 else 1
    check(
        weight.numel() == channels,
        RuntimeError,
        lambda: (
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
            f"{weight.numel()} and channel size = {channels}."
        ),
    )
    return sloped(input, weight.view(-1, *(1,) * (input.dim() - 2)))


def _drawn_slopes(input, lower, upper):
    """A slope for each element. On the CPU numbers are drawn, in float64, for those that need one
    only: PyTorch's for the same seed."""
    if input.device.type != "cpu":
        return empty_like(input).uniform_(lower, upper)
    wanted = input.detach() <= 0
    drawn = empty(int(wanted.sum()), dtype=float64).uniform_(lower, upper)
    return ones_like(input.detach()).masked_scatter(wanted, drawn.to(input.dtype))


def _random_slopes(input, lower, upper, training, inplace):
    check(
        lower <= upper,
        RuntimeError,
        "Lower bound should be less than or equal to the upper bound",
    )
    slope = (lower + upper) / 2
    if training:
        slope = _drawn_slopes(input, lower, upper)
    result = sloped(input, slope)
    return input.copy_(result) if inplace else result


@composite(export=F)
def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """x where x ≥ 0, else a·x, a uniform in [lower, upper), or their mean when not `training`.

    >>> import ember as torch
    >>> torch.nn.functional.rrelu(torch.tensor([-2.0, 3.0]), 0.25, 0.75)
    tensor([-1.,  3.])
    """
    return _random_slopes(input, lower, upper, training, inplace)


@composite(export=FUNCTION, name="rrelu")
def rrelu_of(input, lower=1.0 / 8, upper=1.0 / 3, training=False, generator=None):
    """`torch.nn.functional.rrelu`."""
    return _random_slopes(input, lower, upper, training, False)


@composite(export=FUNCTION | F)
def rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False):
    """`rrelu` in place."""
    return _random_slopes(input, lower, upper, training, True)


@composite(export=F)
def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """softmax((logits + Gumbel noise) / tau); `hard` gives its one-hot, with the soft gradient.

    A sample of a categorical distribution that can be differentiated (Jang et al.,
    arXiv:1611.01144).

    >>> import ember as torch
    >>> torch.nn.functional.gumbel_softmax(torch.zeros(1, 4), hard=True).sum()
    tensor(1.)
    """
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    noise = -empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one = zeros_like(logits).scatter_(dim, index, 1.0)
    return one - soft.detach() + soft
