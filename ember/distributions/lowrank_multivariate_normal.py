"""The multivariate normal distribution of a low-rank covariance plus a diagonal."""

from __future__ import annotations

import math
from typing import Any

from ember import linalg, ops
from ember.distributions import constraints
from ember.distributions.distribution import Distribution
from ember.distributions.multivariate_normal import (
    _batch_mahalanobis,
    _batch_mv,
    half_log_det,
)
from ember.distributions.utils import _standard_normal, lazy_property
from ember.errors import check
from ember.layout import Size, broadcast_shapes

__all__ = ["LowRankMultivariateNormal"]


def _batch_capacitance_tril(W: Any, D: Any) -> Any:
    """The Cholesky factor of I + Wᵀ D⁻¹ W, for matrices W and diagonals D."""
    size = W.shape[-1]
    inner = (W.mT / D.unsqueeze(-2)) @ W
    return linalg.cholesky(inner + ops.eye(size, dtype=W.dtype, device=W.device))


def _batch_lowrank_logdet(W: Any, D: Any, capacitance_tril: Any) -> Any:
    """log det(W Wᵀ + D) = log det(I + Wᵀ D⁻¹ W) + log det D (the determinant lemma)."""
    return 2 * half_log_det(capacitance_tril) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Any, D: Any, x: Any, capacitance_tril: Any) -> Any:
    """xᵀ (W Wᵀ + D)⁻¹ x, by the Woodbury identity."""
    inner = _batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance_tril, inner)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of covariance W Wᵀ + D: `cov_factor` W is n × m, `cov_diag` the diagonal of D.

    The Woodbury identity asks for Cholesky factors of m × m matrices only.

    >>> import ember as torch
    >>> from ember.distributions import LowRankMultivariateNormal
    >>> LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(2)).variance
    tensor([2., 2.])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _expands = (
        "loc",
        "cov_factor",
        "cov_diag",
        "covariance_matrix",
        "scale_tril",
        "precision_matrix",
    )

    def __init__(
        self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None
    ) -> None:
        check(loc.dim() >= 1, ValueError, "loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        check(
            cov_factor.dim() >= 2,
            ValueError,
            "cov_factor must be at least two-dimensional, with optional leading batch dimensions",
        )
        check(
            cov_factor.shape[-2:-1] == event,
            ValueError,
            f"cov_factor must be a batch of matrices with shape {event[0]} x m",
        )
        check(
            cov_diag.shape[-1:] == event,
            ValueError,
            f"cov_diag must be a batch of vectors with shape {event}",
        )
        batch = broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        batch = Size(batch)
        self.loc = loc.expand(batch + event)
        self.cov_factor = cov_factor.expand(batch + cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(batch + event)
        super().__init__(batch, event, validate_args=validate_args)
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)

    def _expand_more(self, new: Any, batch_shape: Any) -> None:
        new._unbroadcasted_cov_factor = self._unbroadcasted_cov_factor
        new._unbroadcasted_cov_diag = self._unbroadcasted_cov_diag
        new._capacitance_tril = self._capacitance_tril

    def _whole(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        """The diagonal of the covariance."""
        diagonal = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return diagonal.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance: √D times that of D^-½ W Wᵀ D^-½ + I."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        identity = ops.eye(self._event_shape[0], dtype=scaled.dtype, device=scaled.device)
        return self._whole(root * linalg.cholesky(scaled @ scaled.mT + identity))

    @lazy_property
    def covariance_matrix(self) -> Any:
        """W Wᵀ + D."""
        factor = self._unbroadcasted_cov_factor
        diagonal = ops.diag_embed(self._unbroadcasted_cov_diag)
        return self._whole(factor @ factor.mT + diagonal)

    @lazy_property
    def precision_matrix(self) -> Any:
        """D⁻¹ - D⁻¹ W (I + Wᵀ D⁻¹ W)⁻¹ Wᵀ D⁻¹."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        solved = linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        inverse = ops.diag_embed(self._unbroadcasted_cov_diag.reciprocal())
        return self._whole(inverse - solved.mT @ solved)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        options = {"dtype": self.loc.dtype, "device": self.loc.device}
        factors = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], **options)
        own = _standard_normal(shape, **options)
        shared = _batch_mv(self._unbroadcasted_cov_factor, factors)
        return self.loc + shared + self._unbroadcasted_cov_diag.sqrt() * own

    def _log_det(self) -> Any:
        return _batch_lowrank_logdet(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        )

    def log_prob(self, value: Any) -> Any:
        square = _batch_lowrank_mahalanobis(
            self._unbroadcasted_cov_factor,
            self._unbroadcasted_cov_diag,
            self._checked(value) - self.loc,
            self._capacitance_tril,
        )
        size = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (size + self._log_det() + square)

    def entropy(self) -> Any:
        size = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (0.5 * (size + self._log_det())).expand(self._batch_shape)
