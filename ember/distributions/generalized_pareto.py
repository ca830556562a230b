"""The generalized Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

from ember import ops
from ember.distributions import constraints
from ember.distributions.distribution import Distribution
from ember.distributions.utils import batch_of, broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Survival (1 + c z)^(-1/c), or exp(-z) at c = 0; z = (x - loc)/scale, c the concentration.

    >>> import ember as torch
    >>> torch.distributions.GeneralizedPareto(0.0, 1.0, 0.5).cdf(torch.tensor(2.0))
    tensor(0.7500)
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _expands = ("loc", "scale", "concentration")

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        shape = batch_of(self.loc, loc, scale, concentration)
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, ops.where(self.concentration < 0, end, math.inf))

    def _is_exponential(self) -> Any:
        return ops.isclose(self.concentration, ops.zeros_like(self.concentration))

    def _where(self, exponential: Any, otherwise: Any) -> Any:
        """The one or the other formula; the other's concentration is never 0."""
        is_zero = self._is_exponential()
        safe = ops.where(is_zero, ops.ones_like(self.concentration), self.concentration)
        return ops.where(is_zero, exponential, otherwise(safe))

    def _z(self, value: Any) -> Any:
        return (value - self.loc) / self.scale

    @property
    def mean(self) -> Any:
        c = self.concentration
        safe = ops.where(c < 1, c, 0.5)
        return ops.where(c < 1, self.loc + self.scale / (1 - safe), math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        c = self.concentration
        safe = ops.where(c < 0.5, c, 0.25)
        finite = self.scale**2 / ((1 - safe) ** 2 * (1 - 2 * safe))
        return ops.where(c < 0.5, finite, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(ops.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Any) -> Any:
        z = self._z(self._checked(value))
        return self._where(-z, lambda c: -(1 + 1 / c) * ops.log1p(c * z)) - self.scale.log()

    def log_survival_function(self, value: Any) -> Any:
        """log of the probability of a draw greater than the value."""
        z = self._z(self._checked(value))
        return self._where(-z, lambda c: -ops.log1p(c * z) / c)

    def log_cdf(self, value: Any) -> Any:
        """log of the probability of a draw no greater than the value."""
        return ops.log1p(-self.log_survival_function(value).exp())

    def cdf(self, value: Any) -> Any:
        return self.log_cdf(value).exp()

    def icdf(self, value: Any) -> Any:
        log_survival = ops.log1p(-value)
        z = self._where(-log_survival, lambda c: ops.expm1(-c * log_survival) / c)
        return self.loc + self.scale * z

    def entropy(self) -> Any:
        return self.scale.log() + self.concentration + 1
