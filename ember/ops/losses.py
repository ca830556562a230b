"""Losses of numbers against numbers: squared, absolute, binary cross-entropy, divergences."""

import math

from ember.core.lifting import whole
from ember.core.registry import F, composite, elementwise
from ember.dtypes import FLOATING
from ember.errors import check
from ember.scalar import primitives as s
from ember.source_lines import warn


def reduced(loss, reduction):
    """The mean or sum of a loss, or the loss itself; ValueError for another word."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    check_reduction(reduction)
    return loss


def check_reduction(reduction):
    """ValueError unless it is "none", "mean" or "sum"."""
    check(
        reduction in ("none", "mean", "sum"),
        ValueError,
        f"{reduction} is not a valid value for reduction",
    )


def chosen(reduction, size_average, reduce):
    """The reduction that the old arguments size_average and reduce mean, else the new one."""
    if size_average is None and reduce is None:
        return reduction
    average = size_average is None or size_average
    chosen = ("mean" if average else "sum") if reduce is None or reduce else "none"
    warn(
        f"size_average and reduce args will be deprecated, please use reduction='{chosen}' instead."
    )
    return chosen


def _warn_of_broadcasting(input, target):
    if target.shape != input.shape:
        warn(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size."
        )


def _weighted(loss, weight, input, reduction):
    """A loss times weights; the mean is over the weights."""
    check(
        weight.size() == input.size(),
        ValueError,
        "Weights and input must have the same size.",
    )
    loss = loss * weight
    return loss.sum() / weight.sum() if reduction == "mean" else reduced(loss, reduction)


@elementwise(accepts=FLOATING)
def squared_error(input, target):
    """(input − target)²."""
    difference = input - target
    return difference * difference


@composite(export=F)
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """(input − target)², averaged, summed or as it is; warns where shapes differ.

    With a `weight` of the input's shape, its products; the mean is divided by the weights' sum.

    >>> import ember as torch
    >>> torch.nn.functional.mse_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    tensor(2.)
    """
    _warn_of_broadcasting(input, target)
    reduction = chosen(reduction, size_average, reduce)
    check_reduction(reduction)
    loss = squared_error(input, target)
    return reduced(loss, reduction) if weight is None else _weighted(loss, weight, input, reduction)


@composite(export=F)
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """|input − target|, averaged, summed or as it is; warns where shapes differ.

    >>> import ember as torch
    >>> torch.nn.functional.l1_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    tensor(1.)
    """
    _warn_of_broadcasting(input, target)
    reduction = chosen(reduction, size_average, reduce)
    check_reduction(reduction)
    loss = (input - target).abs()
    return reduced(loss, reduction) if weight is None else _weighted(loss, weight, input, reduction)


@elementwise(accepts=FLOATING)
def smooth_absolute_error(input, target, beta):
    """d² / (2β) where d = |input − target| < β, else d − β/2."""
    distance = s.abs(input - target)
    return s.where(distance < beta, 0.5 * distance * distance / beta, distance - 0.5 * beta)


@composite(export=F)
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """A parabola near zero, |input − target| − β/2 beyond β (Girshick, arXiv:1504.08083).

    RuntimeError for a negative `beta`; 0 gives `l1_loss`.

    >>> import ember as torch
    >>> torch.nn.functional.smooth_l1_loss(torch.tensor([0.0, 3.0]), torch.zeros(2))
    tensor(1.2500)
    """
    _warn_of_broadcasting(input, target)
    reduction = chosen(reduction, size_average, reduce)
    check_reduction(reduction)
    message = "smooth_l1_loss does not support negative values for beta."
    check(beta >= 0, RuntimeError, message)
    if beta == 0:
        return reduced((input - target).abs(), reduction)
    return reduced(smooth_absolute_error(input, target, float(beta)), reduction)


@elementwise(accepts=FLOATING)
def huber_error(input, target, delta):
    """d²/2 where d = |input − target| ≤ δ, else δ·(d − δ/2)."""
    distance = s.abs(input - target)
    inside = 0.5 * distance * distance
    return s.where(distance <= delta, inside, delta * (distance - 0.5 * delta))


@composite(export=F)
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """d²/2 where d = |input − target| ≤ δ, else δ·(d − δ/2) (Huber, 1964).

    RuntimeError unless `delta` is positive.

    >>> import ember as torch
    >>> torch.nn.functional.huber_loss(torch.tensor([0.0, 3.0]), torch.zeros(2))
    tensor(1.2500)
    """
    _warn_of_broadcasting(input, target)
    check_reduction(reduction)
    message = "huber_loss does not support non-positive values for delta."
    check(delta > 0, RuntimeError, message)
    loss = huber_error(input, target, float(delta))
    if weight is not None:
        message = "Weights and input must have the same size."
        check(weight.size() == input.size(), ValueError, message)
        loss = loss * weight
    return reduced(loss, reduction)


@elementwise(accepts=FLOATING)
def binary_cross_entropy_terms(input, target):
    """−(t·log x + (1 − t)·log(1 − x)), the logarithms not below −100."""
    one = s.maximum(s.log(input), -100)
    other = s.maximum(s.log1p(-input), -100)
    return (target - 1) * other - target * one


def _binary_cross_entropy_grad(g, input, target):
    """By x: (x − t) / (x·(1 − x)), without dividing by zero; by t: log(1 − x) − log x, cut off."""
    slope = (input - target) / s.maximum((1 - input) * input, 1e-12)
    by_target = s.maximum(s.log1p(-input), -100) - s.maximum(s.log(input), -100)
    return g * slope, g * by_target


binary_cross_entropy_terms.grad = _binary_cross_entropy_grad


@composite(export=F)
def binary_cross_entropy(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """−(t·log x + (1 − t)·log(1 − x)) of probabilities x, the logarithms not below −100.

    ValueError where the shapes differ; on the CPU, RuntimeError for x outside [0, 1]; RuntimeError
    inside autocast: use `binary_cross_entropy_with_logits`.

    >>> import ember as torch
    >>> torch.nn.functional.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([1.0]))
    tensor(0.6931)
    """
    reduction = chosen(reduction, size_average, reduce)
    check(
        target.size() == input.size(),
        ValueError,
        lambda: (
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}) is deprecated. Please ensure they have the same size."
        ),
    )
    check_reduction(reduction)
    check(
        input.dtype == target.dtype,
        RuntimeError,
        lambda: f"Found dtype {target.dtype.title} but expected {input.dtype.title}",
    )
    if input.device.type == "cpu":
        # As a comparison that NaN fails. On a GPU the answer would stop the queue, so it is not
        # asked for there.
        message = "all elements of input should be between 0 and 1"
        check(bool(whole((input >= 0) & (input <= 1)).all()), RuntimeError, message)
    loss = binary_cross_entropy_terms(input, target)
    if weight is not None:
        loss = loss * weight.expand(loss.shape)
    return reduced(loss, reduction)


@elementwise(accepts=FLOATING)
def logit_cross_entropy(input, target):
    """(1 − t)·x − log σ(x), which neither overflows nor cancels."""
    log_sigmoid = s.minimum(input, 0) - s.log1p(s.exp(-s.abs(input)))
    return (1 - target) * input - log_sigmoid


@elementwise(accepts=FLOATING)
def weighted_logit_cross_entropy(input, target, pos_weight):
    """(1 − t)·x − (1 + (w − 1)·t)·log σ(x)."""
    log_sigmoid = s.minimum(input, 0) - s.log1p(s.exp(-s.abs(input)))
    return (1 - target) * input - ((pos_weight - 1) * target + 1) * log_sigmoid


@composite(export=F)
def binary_cross_entropy_with_logits(
    input,
    target,
    weight=None,
    size_average=None,
    reduce=None,
    reduction="mean",
    pos_weight=None,
):
    """`binary_cross_entropy` of sigmoid(input), stable for any input.

    `pos_weight` multiplies the terms of positive targets. ValueError where the shapes differ.

    >>> import ember as torch
    >>> torch.nn.functional.binary_cross_entropy_with_logits(torch.zeros(2), torch.ones(2))
    tensor(0.6931)
    """
    reduction = chosen(reduction, size_average, reduce)
    check(
        target.size() == input.size(),
        ValueError,
        lambda: f"Target size ({target.size()}) must be the same as input size ({input.size()})",
    )
    check_reduction(reduction)
    if pos_weight is None:
        loss = logit_cross_entropy(input, target)
    else:
        loss = weighted_logit_cross_entropy(input, target, pos_weight)
    if weight is not None:
        loss = loss * weight.expand(loss.shape)
    return reduced(loss, reduction)


@elementwise(accepts=FLOATING)
def divergence(input, target):
    """t·(log t − x), 0 where t is 0."""
    return s.where(s.eq(target, 0), 0, target * s.log(target)) - target * input


def _divergence_grad(g, input, target):
    """By t: log t + 1 − x, without the logarithm where it or the gradient that comes is zero."""
    silent = s.logical_and(s.eq(g, 0), s.eq(target, target))
    neither = s.logical_or(silent, s.eq(target, 0))
    return -target * g, s.where(neither, 0, g * s.log(target)) + s.where(s.eq(target, 0), 0, g) - (
        g * input
    )


divergence.grad = _divergence_grad


@elementwise(accepts=FLOATING)
def log_divergence(input, target):
    """e^t·(t − x)."""
    return s.exp(target) * (target - input)


@composite(export=F)
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """The Kullback-Leibler divergence t·(log t − x) of log-probabilities x from t.

    `log_target` says that targets are logarithms too. "batchmean" divides the sum by the size of
    the first dim, which is the divergence's definition; "mean" by all elements.

    >>> import ember as torch
    >>> p = torch.tensor([[0.5, 0.5]])
    >>> torch.nn.functional.kl_div(p.log(), p, reduction="batchmean")
    tensor(0.)
    """
    reduction = chosen(reduction, size_average, reduce)
    if reduction == "mean":
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next "
            "major release."
        )
    check(
        not _integral(input) and not _integral(target),
        RuntimeError,
        "kl_div: Integral inputs not supported.",
    )
    loss = (log_divergence if log_target else divergence)(input, target)
    if reduction != "batchmean":
        return reduced(loss, reduction)
    return loss.sum() / input.size(0) if input.dim() else loss.sum()


def _integral(tensor):
    return not (tensor.is_floating_point() or tensor.is_complex())


@composite(export=F)
def poisson_nll_loss(
    input,
    target,
    log_input=True,
    full=False,
    size_average=None,
    eps=1e-8,
    reduce=None,
    reduction="mean",
):
    """exp(x) − t·x, or x − t·log(x + eps) unless `log_input`; `full` adds Stirling's log t!.

    >>> import ember as torch
    >>> torch.nn.functional.poisson_nll_loss(torch.zeros(2), torch.ones(2))
    tensor(1.)
    """
    reduction = chosen(reduction, size_average, reduce)
    check_reduction(reduction)
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduced(loss, reduction)


@composite(export=F)
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """(log var + (input − target)² / var) / 2, var not below `eps`; `full` adds log(2π) / 2.

    `var` has the input's shape, lacks its last dim, has 1 for one dim, or is a number. ValueError
    for another shape or a negative entry (Nix and Weigend, 1994).

    >>> import ember as torch
    >>> torch.nn.functional.gaussian_nll_loss(torch.ones(2), torch.zeros(2), torch.ones(2))
    tensor(0.5000)
    """
    if isinstance(var, (int, float)):
        check(var >= 0, ValueError, "var has negative entry/entries")
        var = input.new_full(input.shape, var)
    else:
        if var.dim() and var.size() != input.size():
            if input.size()[:-1] == var.size():
                var = var.unsqueeze(-1)
            else:
                differ = [v for v, n in zip(var.shape, input.shape) if v != n]
                fits = var.dim() == input.dim() and differ == [1]
                check(fits, ValueError, "var is of incorrect size")
        negative = bool(whole(var < 0).any())
        check(not negative, ValueError, "var has negative entry/entries")
    check(reduction in ("none", "mean", "sum"), ValueError, f"{reduction} is not valid")
    # The floor is no function of var: what it cuts still gets a gradient, as in PyTorch.
    floored = var + (var.detach().clamp(min=eps) - var.detach())
    loss = 0.5 * (floored.log() + (input - target).square() / floored)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)
