"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

from ember import linalg, ops
from ember.distributions import constraints
from ember.distributions.distribution import Distribution
from ember.distributions.utils import _standard_normal, lazy_property
from ember.errors import check
from ember.layout import Size, broadcast_shapes

__all__ = ["MultivariateNormal"]


def _batch_mv(bmat: Any, bvec: Any) -> Any:
    """Matrices times vectors, batches broadcast."""
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Any, bx: Any) -> Any:
    """xᵀ (L Lᵀ)⁻¹ x for lower triangular L; batches broadcast."""
    if bL.dim() == 2:  # one solution for all vectors
        columns = bx.reshape(-1, bx.shape[-1]).mT
        solved = linalg.solve_triangular(bL, columns, upper=False)
        return solved.pow(2).sum(0).reshape(bx.shape[:-1])
    return linalg.solve_triangular(bL, bx.unsqueeze(-1), upper=False).pow(2).sum((-2, -1))


def _precision_to_scale_tril(P: Any) -> Any:
    """L with L Lᵀ = P⁻¹: P = Uᵀ U backwards, and L = U⁻¹."""
    backwards = linalg.cholesky(ops.flip(P, (-2, -1)))
    factor = ops.flip(backwards, (-2, -1)).mT
    identity = ops.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return linalg.solve_triangular(factor, identity, upper=False)


def matrix_parameter(named: dict[str, Any]) -> tuple[str, Any]:
    """The one matrix that is given, and its name; ValueError if it has too few dims."""
    ((name, matrix),) = [item for item in named.items() if item[1] is not None]
    check(
        matrix.dim() >= 2,
        ValueError,
        f"{name} must be at least two-dimensional, with optional leading batch dimensions",
    )
    return name, matrix


def scale_tril_of(name: str, matrix: Any) -> Any:
    """The lower triangular factor of the covariance that a named matrix gives."""
    if name == "scale_tril":
        return matrix
    return (
        linalg.cholesky(matrix) if name == "covariance_matrix" else _precision_to_scale_tril(matrix)
    )


def half_log_det(tril: Any) -> Any:
    """log |det L| of lower triangular L: half that of L Lᵀ."""
    return tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(Distribution):
    """Normal vectors of a mean and a covariance, or its inverse, or its lower Cholesky factor.

    log p(x) = -½ ((x - loc)ᵀ Σ⁻¹ (x - loc) + n log 2π + log det Σ). ValueError unless exactly one
    matrix is given.

    >>> import ember as torch
    >>> normal = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
    >>> normal.log_prob(torch.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _expands = ("loc", "covariance_matrix", "scale_tril", "precision_matrix")

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        check(loc.dim() >= 1, ValueError, "loc must be at least one-dimensional.")
        named = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        check(
            sum(matrix is not None for matrix in named.values()) == 1,
            ValueError,
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.",
        )
        name, matrix = matrix_parameter(named)
        batch = Size(broadcast_shapes(matrix.shape[:-2], loc.shape[:-1]))
        setattr(self, name, matrix.expand(batch + matrix.shape[-2:]))
        self.loc = loc.expand(batch + loc.shape[-1:])
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = scale_tril_of(name, matrix)

    def _expand_more(self, new: Any, batch_shape: Any) -> None:
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril

    def _whole(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        tril = self._unbroadcasted_scale_tril
        return self._whole(tril @ tril.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return self._whole(ops.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        diagonal = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return diagonal.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        noise = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Any) -> Any:
        distance = self._checked(value) - self.loc
        square = _batch_mahalanobis(self._unbroadcasted_scale_tril, distance)
        size = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (size + square) - half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self) -> Any:
        size = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        entropy = size + half_log_det(self._unbroadcasted_scale_tril)
        return entropy.expand(self._batch_shape)
