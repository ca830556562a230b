"""The negative log-likelihood of classes, as compositions of other ops."""

from ember.dtypes import int64


def of_targets(input, target, dim):
    """The elements of `input` that the classes in `target` name along `dim`."""
    try:
        return input.gather(dim, target.unsqueeze(dim)).squeeze(dim)
    except (IndexError, RuntimeError) as error:
        # Looked for only now, so that good targets are not read twice.
        if target.is_meta:
            raise
        classes = input.size(dim)
        outside = target[(target < 0) | (target >= classes)]
        if outside.numel() == 0:
            raise
        raise IndexError(
            f"Target {int(outside[0])} is out of bounds. "
            f"Classes are numbered 0 to {classes - 1} here."
        ) from error


def likelihoods(input, target, weight, ignore_index, dim):
    """The loss of each target, and what the mean is divided by."""
    ignored = target == ignore_index
    target = target.masked_fill(ignored, 0)
    loss = -of_targets(input, target, dim)
    if weight is None:
        return loss.masked_fill(ignored, 0), (~ignored).sum()
    weights = weight.index_select(0, target.reshape(-1)).reshape(target.shape)
    weights = weights.masked_fill(ignored, 0)
    return loss.masked_fill(ignored, 0) * weights, weights.sum()


def along(weight, ndim, dim):
    """A vector of weights, shaped to multiply along `dim`."""
    return weight.view(*(-1 if d == dim else 1 for d in range(ndim)))


def smoothed(logarithm, target, weight, ignore_index, reduction, label_smoothing, dim):
    """Classes mixed with the uniform distribution: the two losses are averages of their own."""
    squeezed = logarithm.dim() == 1 and target.dim() == 1
    target = (target.squeeze(0) if squeezed else target).to(int64)
    likelihood, total = likelihoods(logarithm, target, weight, ignore_index, dim)
    weighted = logarithm
    if weight is not None:
        weighted = logarithm * along(weight, logarithm.dim(), dim)
    smooth = -weighted.sum(dim)
    smooth = smooth.masked_fill(target == ignore_index, 0)
    share = label_smoothing / logarithm.size(dim)
    if reduction == "none":
        loss = likelihood * (1 - label_smoothing) + smooth * share
        return loss.unsqueeze(0) if squeezed else loss
    loss = likelihood.sum() * (1 - label_smoothing) + smooth.sum() * share
    return loss / total if reduction == "mean" else loss


def composed_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing):
    """Cross-entropy of scores (N, C) and classes (N,) through their log_softmax."""
    logarithm = input.log_softmax(1)
    if label_smoothing > 0.0:
        settings = (ignore_index, reduction, label_smoothing, 1)
        return smoothed(logarithm, target, weight, *settings)
    loss, total = likelihoods(logarithm, target.to(int64), weight, ignore_index, 1)
    if reduction == "none":
        return loss
    return loss.sum() / total if reduction == "mean" else loss.sum()
