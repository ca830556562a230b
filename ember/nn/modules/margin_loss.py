"""Losses with a margin, for rankings, embeddings and several labels."""

from ember.errors import check
from ember.nn import functional as F
from ember.nn.modules.distance import PairwiseDistance
from ember.nn.modules.loss_base import _Loss, _WeightedLoss

__all__ = [
    "CosineEmbeddingLoss",
    "HingeEmbeddingLoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class HingeEmbeddingLoss(_Loss):
    """x where y = 1, max(0, margin - x) where y = -1.

    >>> import ember as torch
    >>> torch.nn.HingeEmbeddingLoss()(torch.tensor([2.0, 0.5]), torch.tensor([1.0, -1.0]))
    tensor(1.2500)
    """

    __constants__ = ["margin", "reduction"]

    def __init__(self, margin=1.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input, target):
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Σ max(0, 1 - (x[y_j] - x[i])) / C over the labels y_j before the first -1, the others i.

    >>> import ember as torch
    >>> x = torch.tensor([0.1, 0.2, 0.4, 0.8])
    >>> torch.nn.MultiLabelMarginLoss()(x, torch.tensor([3, 0, -1, 1]))
    tensor(0.8500)
    """

    def forward(self, input, target):
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-y x)), y being 1 or -1.

    >>> import ember as torch
    >>> torch.nn.SoftMarginLoss()(torch.zeros(1), torch.ones(1))
    tensor(0.6931)
    """

    def forward(self, input, target):
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """-mean over C of weight (y log sigmoid(x) + (1 - y) log sigmoid(-x)).

    >>> import ember as torch
    >>> torch.nn.MultiLabelSoftMarginLoss()(torch.zeros(1, 2), torch.ones(1, 2))
    tensor(0.6931)
    """

    def forward(self, input, target):
        return F.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


class CosineEmbeddingLoss(_Loss):
    """1 - cos(x₁, x₂) where y = 1, max(0, cos(x₁, x₂) - margin) where y = -1.

    >>> import ember as torch
    >>> x, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    >>> torch.nn.CosineEmbeddingLoss()(x, y, torch.ones(1))
    tensor(1.)
    """

    __constants__ = ["margin", "reduction"]

    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1, input2, target):
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(_Loss):
    """max(0, -y (x₁ - x₂) + margin).

    >>> import ember as torch
    >>> torch.nn.MarginRankingLoss()(torch.ones(1), torch.zeros(1), -torch.ones(1))
    tensor(1.)
    """

    __constants__ = ["margin", "reduction"]

    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1, input2, target):
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MultiMarginLoss(_WeightedLoss):
    """Σ over i ≠ y of max(0, weight[y] (margin - x[y] + x[i]))ᵖ / C, p being 1 or 2.

    >>> import ember as torch
    >>> torch.nn.MultiMarginLoss()(torch.tensor([[0.1, 0.2, 0.4, 0.8]]), torch.tensor([3]))
    tensor(0.3250)
    """

    __constants__ = ["p", "margin", "reduction"]

    def __init__(
        self, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"
    ):
        super().__init__(weight, size_average, reduce, reduction)
        check(p in (1, 2), ValueError, "only p == 1 and p == 2 supported")
        check(
            weight is None or weight.dim() == 1,
            ValueError,
            lambda: (
                "MultiMarginLoss: expected weight to be None or 1D tensor, got "
                f"{weight.dim()}D instead"
            ),
        )
        self.p = p
        self.margin = margin

    def forward(self, input, target):
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


class TripletMarginLoss(_Loss):
    """max(0, d(a, p) - d(a, n) + margin), d the p-norm distance (Balntas et al., 2016).

    >>> import ember as torch
    >>> a = torch.zeros(1, 2)
    >>> torch.nn.TripletMarginLoss()(a, a, a)
    tensor(1.)
    """

    __constants__ = ["margin", "p", "eps", "swap", "reduction"]

    def __init__(
        self,
        margin=1.0,
        p=2.0,
        eps=1e-6,
        swap=False,
        size_average=None,
        reduce=None,
        reduction="mean",
    ):
        super().__init__(size_average, reduce, reduction)
        check(
            margin > 0,
            ValueError,
            f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead",
        )
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor, positive, negative):
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with any distance function, the Euclidean one by default.

    >>> import ember as torch
    >>> a = torch.zeros(1, 2)
    >>> torch.nn.TripletMarginWithDistanceLoss(margin=2.0)(a, a, a)
    tensor(2.)
    """

    __constants__ = ["margin", "swap", "reduction"]

    def __init__(self, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
        super().__init__(reduction=reduction)
        check(
            margin > 0,
            ValueError,
            "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got "
            f"{margin} instead",
        )
        chosen = PairwiseDistance() if distance_function is None else distance_function
        self.distance_function = chosen
        self.margin = margin
        self.swap = swap

    def forward(self, anchor, positive, negative):
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
