"""The gamma distribution."""

from __future__ import annotations

from typing import Any

from ember import ops
from ember.distributions import constraints
from ember.distributions.exp_family import ExponentialFamily
from ember.distributions.utils import batch_of, broadcast_all
from ember.dtypes import finfo

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """rate^a x^(a - 1) exp(-rate x) / Γ(a) for x >= 0, with the concentration a.

    >>> import ember as torch
    >>> torch.distributions.Gamma(3.0, 2.0).mean
    tensor(1.5000)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _expands = ("concentration", "rate")

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        shape = batch_of(self.concentration, concentration, rate)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        value = ops._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.data.clamp_(min=finfo(value.dtype).tiny)  # 0 has no density; the gradient stays
        return value

    def log_prob(self, value: Any) -> Any:
        value = self._checked(ops.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device))
        a = self.concentration
        return ops.xlogy(a, self.rate) + ops.xlogy(a - 1, value) - self.rate * value - ops.lgamma(a)

    def cdf(self, value: Any) -> Any:
        return ops.igamma(self.concentration, self.rate * self._checked(value))

    def entropy(self) -> Any:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()

    @property
    def _natural_params(self) -> Any:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()
