"""`torch.*` functions whose arguments are not those of their namesakes in `torch.nn.functional`.

PyTorch has the two side by side: these take a reduction as a number (0 none, 1 mean, 2 sum), or
other arguments in another order.
"""

from ember import dtypes
from ember.core.registry import FUNCTION, composite
from ember.errors import check
from ember.ops import adaptive_pooling, attention, distances, embedding, losses, normalization
from ember.ops import convolution as convolutions
from ember.ops import grid_sampling as grids
from ember.ops.create import empty
from ember.ops.dropout import dropout
from ember.ops.linear import widened

_REDUCTIONS = ("none", "mean", "sum")


def _word(reduction):
    check(reduction in (0, 1, 2), ValueError, f"{reduction} is not a valid value for reduction")
    return _REDUCTIONS[reduction]


@composite(FUNCTION, name="batch_norm")
def batch_norm(
    input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled
):
    """`torch.nn.functional.batch_norm` with weight and bias first."""
    statistics = (running_mean, running_var)
    return normalization.batch_norm(input, *statistics, weight, bias, training, momentum, eps)


@composite(FUNCTION, name="instance_norm")
def instance_norm(
    input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled
):
    """`torch.nn.functional.instance_norm` with weight and bias first."""
    rest = (running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
    return normalization.instance_norm(input, *rest)


@composite(FUNCTION, name="layer_norm")
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    """`torch.nn.functional.layer_norm`; the last argument changes nothing."""
    return normalization.layer_norm(input, normalized_shape, weight, bias, eps)


@composite(FUNCTION, name="group_norm")
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    """`torch.nn.functional.group_norm`; the last argument changes nothing."""
    return normalization.group_norm(input, num_groups, weight, bias, eps)


@composite(FUNCTION, name="rms_norm")
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """`torch.nn.functional.rms_norm`."""
    return normalization.rms_norm(input, normalized_shape, weight, eps)


def _moments(input, dims, eps, keepdim):
    """The mean and 1 / √(var + eps) over dims."""
    (data,) = widened(input)
    mean, var = data.mean(dims, keepdim), data.var(dims, correction=0, keepdim=keepdim)
    return mean.to(input.dtype), (var + eps).rsqrt().to(input.dtype)


@composite(FUNCTION)
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """`layer_norm` with the mean and 1 / √(var + eps) of each row."""
    out = normalization.layer_norm(input, normalized_shape, weight, bias, eps)
    dims = tuple(range(input.dim() - len(normalized_shape), input.dim()))
    return (out, *_moments(input, dims, eps, True))


@composite(FUNCTION)
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """`group_norm` with the mean and 1 / √(var + eps) of each group: (N, groups)."""
    out = normalization.group_norm(input, group, weight, bias, eps)
    return (out, *_moments(input.reshape(N, group, C // group * HxW), -1, eps, False))


@composite(FUNCTION)
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """`batch_norm` with the batch's mean and 1 / √(var + eps), empty when not training."""
    statistics = (running_mean, running_var)
    out = normalization.batch_norm(input, *statistics, weight, bias, training, momentum, eps)
    if not training:
        return out, input.new_empty(0), input.new_empty(0)
    dims = tuple(d for d in range(input.dim()) if d != 1)
    return (out, *_moments(input, dims, eps, False))


@composite(FUNCTION)
def native_dropout(input, p, train):
    """Dropout with the mask of what was kept."""
    if train is False:
        return input.clone(), input.new_ones(input.shape).bool()
    noise = dropout(input.new_ones(input.shape), p)
    return input * noise, noise != 0


@composite(FUNCTION, name="adaptive_max_pool1d")
def adaptive_max_pool1d(input, output_size):
    """`torch.nn.functional.adaptive_max_pool1d` with its indices."""
    return adaptive_pooling.adaptive_max_pool1d(input, output_size, True)


@composite(FUNCTION, name="embedding_bag")
def embedding_bag(
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=0,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """`torch.nn.functional.embedding_bag` with the table first and the mode as a number.

    Returns what PyTorch does: the bags, and three tensors of its own bookkeeping, empty here.
    """
    word = ("sum", "mean", "max")[mode]
    found = embedding.embedding_bag(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=word,
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    nothing = empty(0, dtype=indices.dtype, device=indices.device)
    return found, nothing, nothing, nothing


@composite(FUNCTION, name="kl_div")
def kl_div(input, target, reduction=1, *, log_target=False):
    """`torch.nn.functional.kl_div` with its reduction as a number."""
    check(reduction in (0, 1, 2), ValueError, f"{reduction} is not a valid value for reduction")
    terms = losses.log_divergence if log_target else losses.divergence
    return losses.reduced(terms(input, target), _word(reduction))


@composite(FUNCTION, name="poisson_nll_loss")
def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """`torch.nn.functional.poisson_nll_loss` with its reduction as a number."""
    word = _word(reduction)
    return losses.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=word)


@composite(FUNCTION, name="binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=1):
    """`torch.nn.functional.binary_cross_entropy_with_logits` with its reduction as a number."""
    word = _word(reduction)
    return losses.binary_cross_entropy_with_logits(
        input, target, weight, reduction=word, pos_weight=pos_weight
    )


@composite(FUNCTION, name="hinge_embedding_loss")
def hinge_embedding_loss(input, target, margin=1.0, reduction=1):
    """`torch.nn.functional.hinge_embedding_loss` with its reduction as a number."""
    return distances.hinge_embedding_loss(input, target, margin, reduction=_word(reduction))


@composite(FUNCTION, name="margin_ranking_loss")
def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=1):
    """`torch.nn.functional.margin_ranking_loss` with its reduction as a number."""
    word = _word(reduction)
    return distances.margin_ranking_loss(input1, input2, target, margin, reduction=word)


@composite(FUNCTION, name="cosine_embedding_loss")
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    """`torch.nn.functional.cosine_embedding_loss` with its reduction as a number."""
    word = _word(reduction)
    return distances.cosine_embedding_loss(input1, input2, target, margin, reduction=word)


@composite(FUNCTION, name="triplet_margin_loss")
def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=1
):
    """`torch.nn.functional.triplet_margin_loss` with its reduction as a number."""
    how = (margin, p, eps, swap)
    return distances.triplet_margin_loss(
        anchor, positive, negative, *how, reduction=_word(reduction)
    )


@composite(FUNCTION, names=("grid_sampler_3d",))
def grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners):
    """`grid_sampler`."""
    return grids.grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


@composite(FUNCTION, name="convolution")
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """A convolution or transposed convolution over as many dims as the weight has after two."""
    name = f"conv{'_transpose' if transposed else ''}{weight.dim() - 2}d"
    function = getattr(convolutions, name)
    if transposed:
        return function(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return function(input, weight, bias, stride, padding, dilation, groups)


@composite(FUNCTION)
def _safe_softmax(input, dim, dtype=None):
    """softmax whose rows of −inf alone are zeros."""
    return attention.masked_softmax(input if dtype is None else input.to(dtype), dim=dim)


def _cast(name, dtype):
    def cast(input, non_blocking=False):
        return input.to(dtype, non_blocking)

    cast.__name__ = cast.__qualname__ = f"_cast_{name}"
    cast.__doc__ = f"The tensor as {dtype}; `.to` is the way to say it."
    composite(FUNCTION)(cast)


for _name, _dtype in (
    ("Byte", dtypes.uint8),
    ("Char", dtypes.int8),
    ("Double", dtypes.float64),
    ("Float", dtypes.float32),
    ("Half", dtypes.float16),
    ("Int", dtypes.int32),
    ("Long", dtypes.int64),
    ("Short", dtypes.int16),
):
    _cast(_name, _dtype)
