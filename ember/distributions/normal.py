"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

from ember.distributions import constraints
from ember.distributions.exp_family import ExponentialFamily
from ember.distributions.utils import _standard_normal, batch_of, broadcast_all

__all__ = ["Normal"]

_LOG_SQRT_TAU = 0.5 * math.log(2 * math.pi)


class Normal(ExponentialFamily):
    """exp(-(x - loc)² / (2 scale²)) / (scale √(2π)).

    >>> import ember as torch
    >>> torch.distributions.Normal(0.0, 1.0).log_prob(torch.tensor(0.0))
    tensor(-0.9189)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0
    _expands = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(batch_of(self.loc, loc, scale), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = _standard_normal(
            self._extended_shape(sample_shape), self.loc.dtype, self.loc.device
        )
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Any:
        distance = self._checked(value) - self.loc
        return -(distance**2) / (2 * self.scale**2) - self.scale.log() - _LOG_SQRT_TAU

    def cdf(self, value: Any) -> Any:
        distance = self._checked(value) - self.loc
        return 0.5 * (1 + (distance * self.scale.reciprocal() / math.sqrt(2)).erf())

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + _LOG_SQRT_TAU + self.scale.log()

    @property
    def _natural_params(self) -> Any:
        precision = self.scale.pow(2).reciprocal()
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return -0.25 * x.pow(2) / y + 0.5 * (-math.pi / y).log()
