"""The LKJ distribution of Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from typing import Any

from ember import linalg, ops
from ember.core.modes import no_grad
from ember.distributions import constraints
from ember.distributions.beta import Beta
from ember.distributions.distribution import Distribution
from ember.distributions.utils import broadcast_all
from ember.dtypes import finfo
from ember.errors import check
from ember.layout import Size

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Cholesky factors of dim × dim correlation matrices M of density ∝ det(M)^(concentration - 1).

    Lewandowski, Kurowicka & Joe 2009, "Generating random correlation matrices based on vines and
    extended onion method". ValueError for a dim below 2.

    >>> import ember as torch
    >>> torch.distributions.LKJCholesky(2, 1.0).log_prob(torch.eye(2))
    tensor(-0.6931)
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _expands = ("concentration",)

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        check(
            dim >= 2,
            ValueError,
            f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.",
        )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        options = {"dtype": self.concentration.dtype, "device": self.concentration.device}
        before = ops.arange(-1, dim - 1, **options).clamp(min=0)  # entries of rows 1, 2, ... less 1
        largest = self.concentration + 0.5 * (dim - 2)
        self._beta = Beta(before + 0.5, largest.unsqueeze(-1) - 0.5 * before)
        super().__init__(self.concentration.size(), Size((dim, dim)), validate_args)

    def _expand_more(self, new: Any, batch_shape: Any) -> None:
        new.dim = self.dim
        new._beta = self._beta.expand(batch_shape + Size((self.dim,)))

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws by the onion method, without a gradient: row after row, a squared length below the
        diagonal and a direction."""
        with no_grad():
            square = self._beta.sample(sample_shape).unsqueeze(-1)
            shape, like = self._extended_shape(sample_shape), self.concentration
            directions = ops.randn(shape, dtype=like.dtype, device=like.device).tril(-1)
            directions = directions / linalg.vector_norm(directions, dim=-1, keepdim=True)
            directions[..., 0, :].fill_(0.0)
            below = square.sqrt() * directions
            left = (1 - (below**2).sum(-1)).clamp(min=finfo(below.dtype).tiny)
            return below + ops.diag_embed(left.sqrt())

    def log_prob(self, value: Any) -> Any:
        # det(M)^(concentration - 1) times the Jacobian from M to its factor
        diagonal = self._checked(value).diagonal(dim1=-1, dim2=-2)[..., 1:]
        rows = ops.arange(2, self.dim + 1, device=self.concentration.device)
        powers = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - rows
        return (powers * diagonal.log()).sum(-1) - self._log_volume()

    def _log_volume(self) -> Any:
        """The logarithm of the constant of page 1999 of the paper."""
        rest = self.dim - 1
        alpha = self.concentration + 0.5 * rest
        above = ops.mvlgamma(alpha - 0.5, rest)
        return 0.5 * rest * math.log(math.pi) + above - alpha.lgamma() * rest
