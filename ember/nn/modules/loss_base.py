"""What all losses share: the reduction, and a weight."""

from ember.core.tensor import Tensor
from ember.nn.modules.module import Module
from ember.source_lines import warn


def _reduction_of(size_average, reduce):
    """The `reduction` that the two deprecated flags mean."""
    if reduce is False:
        reduction = "none"
    else:
        reduction = "sum" if size_average is False else "mean"
    warn(
        "size_average and reduce args will be deprecated, please use "
        f"reduction='{reduction}' instead."
    )
    return reduction


class _Loss(Module):
    """A loss with a reduction."""

    __constants__ = ["reduction"]

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = _reduction_of(size_average, reduce)
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """A loss with a weight, which moves and is saved with the module."""

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.weight: Tensor | None
