"""Losses of scores against classes: negative log-likelihood, cross-entropy, margins."""

from ember.core import modes
from ember.core.lifting import whole
from ember.core.registry import F, composite, elementwise
from ember.core.second_order import flat_beyond
from ember.dtypes import FLOATING, INTEGRAL, int64, uint8
from ember.errors import check
from ember.ops.class_loss import class_loss, is_one_op
from ember.ops.linear import linear, rounds_late, widened
from ember.ops.losses import check_reduction, chosen, reduced
from ember.ops.negative_log_likelihood import along, likelihoods, smoothed
from ember.scalar import primitives as s


def _check_class_shapes(input, target):
    """Raise for a target that is no (N, ...) for an input (N, C, ...), or no number for (C,)."""
    check(
        input.dim() >= 1,
        ValueError,
        lambda: f"Expected 1 or more dimensions (got {input.dim()})",
    )
    if input.dim() == 1:
        check(
            target.numel() == 1 and target.dim() <= 1,
            ValueError,
            lambda: (
                "For 1D input, target must be a single class index, "
                f"got a target of size {list(target.shape)}"
            ),
        )
        return
    check(
        target.dim() >= 1 and input.size(0) == target.size(0),
        ValueError,
        lambda: (
            f"Expected input batch_size ({input.size(0)}) to match target batch_size "
            f"({target.size(0) if target.dim() else 1})."
        ),
    )
    expected = (input.size(0), *input.shape[2:])
    if input.dim() == 2:
        message = "0D or 1D target tensor expected, multi-target not supported"
        check(target.dim() == 1, RuntimeError, message)
    check(
        tuple(target.shape) == expected,
        RuntimeError,
        lambda: (
            f"size mismatch (got input: {list(input.shape)} , target: {list(target.shape)}: "
            f"Expected target size {list(expected)}, got {list(target.shape)}"
        ),
    )


def _check_class_target(input, target, weight, classes):
    check(
        target.dtype in (int64, uint8),
        RuntimeError,
        lambda: f"expected target dtype to be Long or Byte, but got {target.dtype.title}",
    )
    check(
        weight is None or tuple(weight.shape) == (classes,),
        RuntimeError,
        lambda: (
            f"weight tensor should be defined either for all {classes} classes or no classes but "
            f"got weight tensor of shape: {list(weight.shape)}"
        ),
    )
    check(
        weight is None or weight.dtype is input.dtype,
        RuntimeError,
        lambda: f"expected scalar type {input.dtype.title} but found {weight.dtype.title}",
    )


@composite(export=F)
def nll_loss(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
):
    """−weight[target]·input[target] of log-probabilities (N, C, ...) and classes (N, ...).

    The mean is divided by the weights' sum. Targets equal to `ignore_index` count for nothing.
    IndexError for a class out of bounds; ValueError or RuntimeError for shapes that do not fit.

    >>> import ember as torch
    >>> x = torch.tensor([[-0.5, -1.0], [-2.0, -0.1]])
    >>> torch.nn.functional.nll_loss(x, torch.tensor([0, 0]))
    tensor(1.2500)
    """
    reduction = chosen(reduction, size_average, reduce)
    check_reduction(reduction)
    _check_class_shapes(input, target)
    dim = 0 if input.dim() == 1 else 1
    _check_class_target(input, target, weight, input.size(dim))
    flat = input.dim() == 1 and target.dim() == 1
    target = target.squeeze(0) if flat else target
    loss, total = likelihoods(flat_beyond(input), target.to(int64), weight, ignore_index, dim)
    if reduction == "none":
        return loss.unsqueeze(0) if flat else loss
    return loss.sum() / total if reduction == "mean" else loss.sum()


@composite(export=F)
def cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    """−log softmax(input)[target] of scores (N, C, ...), with classes (N, ...) or probabilities.

    Probabilities are a floating-point target of the input's shape. `label_smoothing` ε mixes the
    target with the uniform distribution, (1 − ε)·target + ε/C (Szegedy et al., arXiv:1512.00567).
    Raises as `nll_loss` does.

    >>> import ember as torch
    >>> torch.nn.functional.cross_entropy(torch.zeros(2, 4), torch.tensor([1, 3]))
    tensor(1.3863)
    """
    reduction = chosen(reduction, size_average, reduce)
    check_reduction(reduction)
    check(
        input.dim() >= 1,
        ValueError,
        lambda: f"Expected 1 or more dimensions (got {input.dim()})",
    )
    check(
        label_smoothing <= 1.0 and (label_smoothing >= 0.0 or input.shape != target.shape),
        RuntimeError,
        f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}",
    )
    dim = 0 if input.dim() == 1 else 1
    if input.shape == target.shape:
        check(
            target.is_floating_point(),
            RuntimeError,
            lambda: (
                "Expected floating point type for target with class probabilities, "
                f"got {target.dtype.title}"
            ),
        )
        message = "ignore_index is not supported for floating point target"
        check(ignore_index < 0, RuntimeError, message)
        return _with_probabilities(input, target, weight, reduction, label_smoothing, dim)
    if is_one_op(input, weight, label_smoothing):
        _check_class_shapes(input, target)
        _check_class_target(input, target, weight, input.size(dim))
        smoothing = max(float(label_smoothing), 0.0)
        loss = class_loss(input, target, weight, ignore_index, smoothing, reduction)[0]
        wide = loss.dtype is input.dtype or modes.autocast_state(input.device.type)[0]
        return loss if wide else loss.to(input.dtype)
    logarithm = input.log_softmax(dim)
    if label_smoothing <= 0.0:
        return nll_loss(logarithm, target, weight, ignore_index=ignore_index, reduction=reduction)
    _check_class_shapes(input, target)
    _check_class_target(input, target, weight, input.size(dim))
    return smoothed(logarithm, target, weight, ignore_index, reduction, label_smoothing, dim)


def _with_probabilities(input, target, weight, reduction, label_smoothing, dim):
    classes = input.size(dim)
    check(
        weight is None or tuple(weight.shape) == (classes,),
        RuntimeError,
        lambda: (
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or "
            f"no classes but got weight tensor of shape: {list(weight.shape)}"
        ),
    )
    if label_smoothing > 0.0:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    logarithm = input.log_softmax(dim)
    if weight is not None:
        logarithm = logarithm * along(weight, input.dim(), dim)
    loss = -(logarithm * target)
    if reduction == "none":
        return loss.sum(dim)
    return loss.sum() / (input.numel() // classes) if reduction == "mean" else loss.sum()


@composite(export=F)
def linear_cross_entropy(
    input,
    linear_weight,
    target,
    *,
    linear_bias=None,
    weight=None,
    reduction="mean",
    ignore_index=None,
    label_smoothing=0.0,
    options=None,
):
    """`cross_entropy` of `linear(input, linear_weight, linear_bias)`: (N, D) or (D,), (C, ..., D).

    `options`, how PyTorch splits the work, changes nothing here.

    >>> import ember as torch
    >>> x, w = torch.zeros(2, 3), torch.ones(4, 3)
    >>> torch.nn.functional.linear_cross_entropy(x, w, torch.tensor([1, 3]))
    tensor(1.3863)
    """
    check(
        input.dim() in (1, 2),
        RuntimeError,
        lambda: f"expected input with dimensionality 1 or 2, got {input.dim()}",
    )
    rank = linear_weight.dim()
    check(
        rank >= 2,
        RuntimeError,
        f"expected linear_weight with dimensionality 2 or more, got {rank}",
    )
    check(
        rank == 2 or input.dim() == 2,
        RuntimeError,
        lambda: (
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
            f"requires batched input, got input of shape {tuple(input.shape)}"
        ),
    )
    dtype = input.dtype
    if rounds_late(input):
        input, linear_weight, linear_bias, weight = widened(
            input, linear_weight, linear_bias, weight
        )
    # Dims of the weight between its first and last are those of the target.
    bias = None if linear_bias is None else linear_bias.flatten()
    scores = linear(input, linear_weight.flatten(0, -2), bias)
    scores = scores.unflatten(-1, tuple(linear_weight.shape[:-1]))
    ignored = -100 if ignore_index is None else ignore_index
    rest = {"reduction": reduction, "label_smoothing": label_smoothing}
    return cross_entropy(scores, target, weight, ignore_index=ignored, **rest).to(dtype)


_NO_MATRIX = "Expected non-empty vector or matrix with optional 0-dim batch size, but got: {}"


@elementwise(accepts=FLOATING, literals={"squared": (True,)})
def hinge_power(distance, squared=False):
    """max(distance, 0), or its square."""
    positive = s.where(distance > 0, distance, 0)
    return positive * positive if squared else positive


@composite(export=F)
def multi_margin_loss(
    input,
    target,
    p=1,
    margin=1.0,
    weight=None,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    """Σ over i ≠ target of max(0, margin − x[target] + x[i])^p / C, times weight[target].

    Input (N, C) or (C,), target (N,) or a number; p is 1 or 2, else ValueError.

    >>> import ember as torch
    >>> torch.nn.functional.multi_margin_loss(torch.tensor([[1.0, 2.0]]), torch.tensor([0]))
    tensor(1.)
    """
    reduction = chosen(reduction, size_average, reduce)
    check_reduction(reduction)
    check(p in (1, 2), ValueError, "only p == 1 and p == 2 supported")
    message = "weight must be one-dimensional"
    check(weight is None or weight.dim() == 1, ValueError, message)
    check(
        input.dim() <= 2 and (input.dim() == 0 or input.size(-1) > 0),
        RuntimeError,
        lambda: _NO_MATRIX.format(list(input.shape)),
    )
    scores = input.reshape(1, -1) if input.dim() <= 1 else input
    count, classes = scores.shape
    check(
        target.dim() <= 1 and target.numel() == count,
        RuntimeError,
        lambda: (
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{count}], but got {list(target.shape)}. "
            f"Input has shape {list(input.shape)}."
        ),
    )
    _check_long(target)
    check(
        weight is None or (weight.dim() <= 1 and weight.numel() == classes),
        RuntimeError,
        lambda: f"inconsistent weight size, expected {classes} but got {list(weight.shape)}",
    )
    classes_wanted = target.reshape(-1, 1)
    _check_targets_inside(classes_wanted, 0, classes, "target out of range")
    terms = hinge_power(margin - scores.gather(1, classes_wanted) + scores, p == 2)
    if weight is not None:
        terms = terms * weight.reshape(-1).index_select(0, classes_wanted.squeeze(1)).unsqueeze(1)
    loss = terms.scatter(1, classes_wanted, 0).sum(1) / classes
    if reduction == "none":
        return loss if target.dim() or input.dim() == 2 else loss.squeeze(0)
    return loss.mean() if reduction == "mean" and count else loss.sum()


def _check_long(target):
    check(
        target.dtype is int64,
        RuntimeError,
        lambda: f"expected scalar type Long but found {target.dtype.title}",
    )


def _check_targets_inside(target, least, end, message):
    """RuntimeError for a class outside; only asked on the CPU, where the answer costs no wait."""
    if target.device.type == "cpu" and target.numel():
        inside = (target >= least) & (target < end)
        check(bool(whole(inside).all()), RuntimeError, message)


@composite(export=F)
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Σ over labels j and non-labels i of max(0, 1 − x[j] + x[i]) / C.

    Input and target (N, C) or (C,); a row of the target lists labels up to the first −1.

    >>> import ember as torch
    >>> x, y = torch.tensor([0.1, 0.2, 0.4, 0.8]), torch.tensor([3, 0, -1, 1])
    >>> torch.nn.functional.multilabel_margin_loss(x, y)
    tensor(0.8500)
    """
    reduction = chosen(reduction, size_average, reduce)
    check_reduction(reduction)
    check(
        input.dim() <= 2 and (input.dim() == 0 or input.size(-1) > 0),
        RuntimeError,
        lambda: _NO_MATRIX.format(list(input.shape)),
    )
    check(
        input.shape == target.shape,
        RuntimeError,
        lambda: (
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        ),
    )
    _check_long(target)
    scores, labels = (t.reshape(1, -1) if t.dim() <= 1 else t for t in (input, target))
    classes = scores.size(1)
    _check_targets_inside(labels, -1, classes, "argument #2 'target' is out of range")
    # Labels count until the first -1; what stands after it is put on class 0 with weight zero.
    given = (labels < 0).to(int64).cumsum(1) == 0
    places = labels.masked_fill(~given, 0)
    is_label = labels.new_zeros(labels.shape).scatter_add(1, places, given.to(int64)) > 0
    own = scores.gather(1, places)
    terms = hinge_power(1 - own.unsqueeze(2) + scores.unsqueeze(1))
    counted = given.unsqueeze(2) & ~is_label.unsqueeze(1)
    loss = terms.masked_fill(~counted, 0).sum((1, 2)) / classes
    if reduction == "none":
        return loss if input.dim() == 2 else loss.squeeze(0)
    return loss.mean() if reduction == "mean" and loss.numel() else loss.sum()


@composite(export=F)
def multilabel_soft_margin_loss(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """The mean over classes of −(y·log σ(x) + (1 − y)·log σ(−x)).

    >>> import ember as torch
    >>> torch.nn.functional.multilabel_soft_margin_loss(torch.zeros(1, 3), torch.ones(1, 3))
    tensor(0.6931)
    """
    reduction = chosen(reduction, size_average, reduce)
    loss = soft_labels(input, target)
    if weight is not None:
        loss = loss * weight
    loss = loss.mean(input.dim() - 1)
    check(reduction in ("none", "mean", "sum"), ValueError, f"{reduction} is not valid")
    return reduced(loss, reduction)


@elementwise(accepts=FLOATING)
def soft_labels(input, target):
    """−(y·log σ(x) + (1 − y)·log σ(−x)) = max(x, 0) − x·y + log(1 + e^−|x|)."""
    tail = s.log1p(s.exp(-s.abs(input)))
    return -(target * (s.minimum(input, 0) - tail) + (1 - target) * (s.minimum(-input, 0) - tail))


@composite(export=F)
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(−y·x)) for targets y of 1 and −1.

    >>> import ember as torch
    >>> torch.nn.functional.soft_margin_loss(torch.zeros(3), torch.ones(3))
    tensor(0.6931)
    """
    reduction = chosen(reduction, size_average, reduce)
    check_reduction(reduction)
    check(
        input.dtype.category > INTEGRAL,
        RuntimeError,
        lambda: f"result type Float can't be cast to the desired output type {input.dtype.title}",
    )
    return reduced(soft_margin(input, target), reduction)


@elementwise(accepts=FLOATING)
def soft_margin(input, target):
    """log(1 + exp(−y·x)), without overflow."""
    negative = -target * input
    return s.maximum(negative, 0) + s.log1p(s.exp(-s.abs(negative)))
