"""Distances and similarities between vectors, and the losses made of them."""

import numpy as np

from ember.core.registry import FUNCTION, F, composite
from ember.dtypes import promote_types
from ember.errors import check
from ember.layout import broadcast_shapes
from ember.ops.create import from_numpy
from ember.ops.losses import check_reduction, chosen, reduced


@composite(export=FUNCTION | F)
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """x1·x2 / (max(‖x1‖, eps)·max(‖x2‖, eps)) along `dim`; the arguments broadcast.

    RuntimeError for integers and complex numbers.

    >>> import ember as torch
    >>> torch.cosine_similarity(torch.ones(1, 2), torch.tensor([[1.0, 1.0]]))
    tensor([1.0000])
    """
    common = promote_types(x1.dtype, x2.dtype)
    check(
        common.is_floating_point,
        RuntimeError,
        lambda: f"expected common dtype to be floating point, yet common dtype is {common.title}",
    )
    x1, x2 = x1.to(common), x2.to(common)
    if x1.shape != x2.shape:
        # The norms are those of the broadcast vectors.
        shape = broadcast_shapes(tuple(x1.shape), tuple(x2.shape))
        x1, x2 = x1.expand(shape), x2.expand(shape)
    return (_unit(x1, dim, eps) * _unit(x2, dim, eps)).sum(dim)


def _unit(x, dim, eps):
    return x / x.norm(2, dim, True).clamp(min=eps)


@composite(export=FUNCTION | F)
def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """‖x1 − x2 + eps‖_p over the last dim; the arguments broadcast.

    >>> import ember as torch
    >>> torch.pairwise_distance(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
    tensor([5.0000])
    """
    dim = max(x1.dim(), x2.dim()) - 1
    return (x1 - x2 + eps).norm(p, dim, keepdim)


@composite(export=FUNCTION | F)
def pdist(input, p=2.0):
    """‖xᵢ − xⱼ‖_p for every pair i < j of rows of (N, M): a vector of N(N − 1)/2.

    RuntimeError for another rank, a negative p or integers.

    >>> import ember as torch
    >>> torch.pdist(torch.tensor([[0.0], [1.0], [3.0]]))
    tensor([1., 3., 2.])
    """
    check(
        input.dim() == 2,
        RuntimeError,
        lambda: f"pdist only supports 2D tensors, got: {input.dim()}D",
    )
    check(input.is_floating_point(), RuntimeError, "pdist only supports floating-point dtypes")
    check(p >= 0, RuntimeError, "pdist only supports non-negative p values")
    first, second = (
        from_numpy(index).to(input.device) for index in np.triu_indices(input.size(0), 1)
    )
    return _norm(input.index_select(0, first) - input.index_select(0, second), p)


def _norm(difference, p):
    """‖difference‖_p over the last dim, with a zero gradient where it is zero."""
    if difference.size(-1) == 0:
        return difference.sum(-1)
    return difference.norm(p, -1)


_COMPUTE_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)


@composite(export=FUNCTION)
def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """‖x1ᵢ − x2ⱼ‖_p for every pair of rows: (..., P, M) and (..., R, M) to (..., P, R).

    Euclidean distances of more than 25 rows are found by a matrix product, unless `compute_mode`
    says otherwise: faster, and less exact for near points. RuntimeError for ranks below 2,
    different M, a negative p or integers.

    >>> import ember as torch
    >>> torch.cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    for name, x in (("X1", x1), ("X2", x2)):
        check(
            x.is_floating_point(),
            RuntimeError,
            lambda: f"cdist only supports floating-point dtypes, {name} got: {x.dtype.title}",  # noqa: B023
        )
        check(
            x.dim() >= 2,
            RuntimeError,
            lambda: f"cdist only supports at least 2D tensors, {name} got: {x.dim()}D",  # noqa: B023
        )
    check(
        x1.size(-1) == x2.size(-1),
        RuntimeError,
        lambda: (
            f"X1 and X2 must have the same number of columns. X1: {x1.size(-1)} X2: {x2.size(-1)}"
        ),
    )
    check(p >= 0, RuntimeError, "cdist only supports non-negative p values")
    check(
        compute_mode in _COMPUTE_MODES,
        ValueError,
        f"{compute_mode} is not a valid value for compute_mode",
    )
    many = max(x1.size(-2), x2.size(-2)) > 25
    if p == 2 and (
        compute_mode == "use_mm_for_euclid_dist"
        or (compute_mode == "use_mm_for_euclid_dist_if_necessary" and many)
    ):
        return _euclidean(x1, x2)
    return _norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


def _euclidean(x1, x2):
    """‖a‖² + ‖b‖² − 2a·b, then the root; the subgradient of a zero distance is zero."""
    squares = x1.square().sum(-1, True) + x2.square().sum(-1, True).transpose(-2, -1)
    squares = (squares - 2 * (x1 @ x2.transpose(-2, -1))).clamp(min=0)
    zero = squares.detach() == 0
    return squares.masked_fill(zero, 1).sqrt().masked_fill(zero, 0)


def _same_rank(anchor, positive, negative):
    check(
        anchor.dim() == positive.dim() == negative.dim(),
        RuntimeError,
        lambda: (
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and "
            f"negative {negative.dim()}D inputs"
        ),
    )


@composite(export=F)
def triplet_margin_loss(
    anchor,
    positive,
    negative,
    margin=1.0,
    p=2,
    eps=1e-6,
    swap=False,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    """max(d(a, p) − d(a, n) + margin, 0), d the p-norm of the difference over the last dim.

    `swap` uses the nearer of a and p to n (Balntas et al., 2016). ValueError unless the margin is
    positive; RuntimeError for different ranks.

    >>> import ember as torch
    >>> a, p, n = torch.zeros(1, 2), torch.zeros(1, 2), torch.ones(1, 2)
    >>> torch.nn.functional.triplet_margin_loss(a, p, n, margin=2.0)
    tensor(0.5858)
    """
    reduction = chosen(reduction, size_average, reduce)
    check_reduction(reduction)
    check(margin > 0, ValueError, f"margin must be greater than 0, got {margin}")

    def distance(x, y):
        return pairwise_distance(x, y, p, eps)

    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)


@composite(export=F)
def triplet_margin_with_distance_loss(
    anchor,
    positive,
    negative,
    *,
    distance_function=None,
    margin=1.0,
    swap=False,
    reduction="mean",
):
    """`triplet_margin_loss` for any distance function of two tensors.

    >>> import ember as torch
    >>> a, p, n = torch.zeros(1, 2), torch.zeros(1, 2), torch.ones(1, 2)
    >>> city = lambda x, y: (x - y).abs().sum(-1)
    >>> F = torch.nn.functional
    >>> F.triplet_margin_with_distance_loss(a, p, n, distance_function=city, margin=3.0)
    tensor(1.)
    """
    check_reduction(reduction)
    check(margin > 0, ValueError, f"margin must be greater than 0, got {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)


def _triplet(anchor, positive, negative, distance, margin, swap, reduction):
    _same_rank(anchor, positive, negative)
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((margin + near - far).clamp(min=0), reduction)


@composite(export=F)
def cosine_embedding_loss(
    input1,
    input2,
    target,
    margin=0,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    """1 − cos(x1, x2) where the target is 1, max(0, cos(x1, x2) − margin) where it is −1.

    Inputs (N, D) with target (N,), or (D,) with a number; else RuntimeError.

    >>> import ember as torch
    >>> x = torch.ones(2, 3)
    >>> torch.nn.functional.cosine_embedding_loss(x, -x, torch.tensor([1, -1]))
    tensor(1.)
    """
    reduction = chosen(reduction, size_average, reduce)
    check_reduction(reduction)
    rank = target.dim()
    check(rank <= 1, RuntimeError, "0D or 1D target tensor expected, multi-target not supported")
    check(
        input1.dim() == input2.dim() == rank + 1,
        RuntimeError,
        lambda: (
            f"{rank}D target tensor expects {rank + 1}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        ),
    )
    # The norms' floor is added to their squares, as this loss has always had it.
    floor = 1e-12
    dot = (input1 * input2).sum(rank)
    squares = (input1.square().sum(rank) + floor) * (input2.square().sum(rank) + floor)
    cosine = dot / squares.sqrt()
    alike = (1 - cosine).masked_fill(target != 1, 0)
    unlike = (cosine - margin).clamp(min=0).masked_fill(target != -1, 0)
    return reduced(alike + unlike, reduction)


@composite(export=F)
def margin_ranking_loss(
    input1,
    input2,
    target,
    margin=0,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    """max(0, −y·(x1 − x2) + margin): y = 1 ranks x1 higher, y = −1 ranks x2 higher.

    >>> import ember as torch
    >>> x, y = torch.tensor([1.0]), torch.tensor([3.0])
    >>> torch.nn.functional.margin_ranking_loss(x, y, torch.tensor([1.0]))
    tensor(2.)
    """
    reduction = chosen(reduction, size_average, reduce)
    check_reduction(reduction)
    check(
        input1.dim() == input2.dim() == target.dim(),
        RuntimeError,
        lambda: (
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        ),
    )
    gap = -target * (input1 - input2) + float(margin)
    return reduced(gap.clamp(min=0), reduction)


@composite(export=F)
def hinge_embedding_loss(
    input,
    target,
    margin=1.0,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    """x where the target is 1, max(0, margin − x) where it is −1, both for other targets.

    >>> import ember as torch
    >>> x = torch.tensor([0.3, 0.3])
    >>> torch.nn.functional.hinge_embedding_loss(x, torch.tensor([1.0, -1.0]))
    tensor(0.5000)
    """
    reduction = chosen(reduction, size_average, reduce)
    check_reduction(reduction)
    unlike = (float(margin) - input).clamp(min=0).masked_fill(target == 1, 0)
    alike = input.masked_fill(target == -1, 0)
    return reduced(unlike + alike, reduction)
