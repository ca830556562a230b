"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from numbers import Number
from typing import Any

from ember import linalg, ops
from ember.distributions import constraints
from ember.distributions.chi2 import Chi2
from ember.distributions.exp_family import ExponentialFamily
from ember.distributions.multivariate_normal import (
    half_log_det,
    matrix_parameter,
    scale_tril_of,
)
from ember.distributions.utils import lazy_property
from ember.errors import check
from ember.layout import Size, broadcast_shapes

__all__ = ["Wishart"]

_TRIES = 10


def _mvdigamma(x: Any, p: int) -> Any:
    """The derivative of mvlgamma."""
    steps = ops.arange(p, dtype=x.dtype, device=x.device)
    return (x.unsqueeze(-1) - steps.div(2)).digamma().sum(-1)


class Wishart(ExponentialFamily):
    """X Xᵀ of p × df normal numbers whose columns have a covariance: positive definite matrices.

    Given by the covariance, its inverse, or its lower Cholesky factor. AssertionError unless
    exactly one is given, ValueError for df <= p - 1.

    >>> import ember as torch
    >>> torch.distributions.Wishart(torch.tensor(3.0), torch.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _expands = ("df", "covariance_matrix", "scale_tril", "precision_matrix")

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        named = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        check(
            sum(matrix is not None for matrix in named.values()) == 1,
            AssertionError,
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.",
        )
        name, matrix = matrix_parameter(named)
        if isinstance(df, Number):
            df = ops.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch = Size(broadcast_shapes(df.shape, matrix.shape[:-2]))
        event = matrix.shape[-2:]
        self.df = df.expand(batch)
        check(
            not bool(df.le(event[-1] - 1).any()),
            ValueError,
            f"Value of df={df} expected to be greater than ndim - 1 = {event[-1] - 1}.",
        )
        setattr(self, name, matrix.expand(batch + event))
        super().__init__(batch, event, validate_args=validate_args)
        self._batch_dims = [-(x + 1) for x in range(len(batch))]
        self._unbroadcasted_scale_tril = scale_tril_of(name, matrix)
        self._dist_chi2 = self._diagonal_distribution(batch)

    def _diagonal_distribution(self, batch: Size) -> Chi2:
        """That of the squared diagonal of the Bartlett factor: fewer degrees in each row."""
        size = self._event_shape[-1]
        rows = ops.arange(size, dtype=self.df.dtype, device=self.df.device)
        return Chi2(df=self.df.unsqueeze(-1) - rows.expand(batch + Size((size,))))

    def _expand_more(self, new: Any, batch_shape: Any) -> None:
        new._batch_dims = [-(x + 1) for x in range(len(batch_shape))]
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        new._dist_chi2 = new._diagonal_distribution(batch_shape)

    @property
    def arg_constraints(self) -> Any:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def _whole(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance of the columns."""
        tril = self._unbroadcasted_scale_tril
        return self._whole(tril @ tril.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return self._whole(ops.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Any:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Any:
        factor = self.df - self._event_shape[-1] - 1
        return factor.masked_fill(factor <= 0, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Any:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        products = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df[..., None, None] * (covariance.pow(2) + products)

    def _bartlett_sampling(self, sample_shape: Any = ()) -> Any:
        """L A Aᵀ Lᵀ: A has √χ² numbers on its diagonal and normal ones below (Bartlett 1933)."""
        size = self._event_shape[-1]
        diagonal = self._dist_chi2.rsample(sample_shape).sqrt()
        rows, columns = ops.tril_indices(size, size, offset=-1, device=diagonal.device)
        count = size * (size - 1) // 2
        shape = Size([*sample_shape, *self._batch_shape, count])
        below = ops.randn(shape, dtype=diagonal.dtype, device=diagonal.device)
        flat = below.new_zeros(Size([*shape[:-1], size * size]))
        places = (rows * size + columns).expand(shape)
        noise = flat.scatter(-1, places, below).reshape(*shape[:-1], size, size)
        factor = self._unbroadcasted_scale_tril @ (noise + diagonal.diag_embed())
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Any:
        """Draws as a function of the parameters; those that rounded to singular matrices, which is
        rare and warned of, are drawn anew up to `max_try_correction` times."""
        sample = self._bartlett_sampling(Size(sample_shape))
        singular = ~self._definite(sample)
        if bool(singular.any()):
            warnings.warn("Singular sample detected.")
            for _ in range(_TRIES if max_try_correction is None else max_try_correction):
                again = self._bartlett_sampling(Size(sample_shape))
                sample = ops.where(singular[..., None, None], again, sample)
                singular = ~self._definite(sample)
                if not bool(singular.any()):
                    break
        return sample

    @staticmethod
    def _definite(sample: Any) -> Any:
        return linalg.cholesky_ex(sample.detach()).info.eq(0)

    def log_prob(self, value: Any) -> Any:
        value = self._checked(value)
        size, tril = self._event_shape[-1], self._unbroadcasted_scale_tril
        log_det = linalg.slogdet(value).logabsdet
        trace = ops.cholesky_solve(value, tril).diagonal(dim1=-2, dim2=-1).sum(-1)
        scale = self.df * (size * math.log(2) / 2 + half_log_det(tril))
        constant = scale + ops.mvlgamma(self.df / 2, p=size)
        return (self.df - size - 1) / 2 * log_det - trace / 2 - constant

    def entropy(self) -> Any:
        size, half = self._event_shape[-1], self.df / 2
        scale = size * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril)
        slope = (self.df - size - 1) / 2 * _mvdigamma(half, p=size)
        volume = (size + 1) * scale + ops.mvlgamma(half, p=size)
        return volume - slope + self.df * size / 2

    @property
    def _natural_params(self) -> Any:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        size = self._event_shape[-1]
        half = y + (size + 1) / 2
        log_det = linalg.slogdet(-2 * x).logabsdet
        return half * (size * math.log(2) - log_det) + ops.mvlgamma(half, p=size)
