"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

from ember import ops
from ember.core.modes import no_grad
from ember.distributions import constraints
from ember.distributions.distribution import Distribution
from ember.distributions.gamma import Gamma
from ember.distributions.probabilities import ProbsOrLogits, exactly_one
from ember.distributions.utils import broadcast_all, lazy_property
from ember.ops.activations import logsigmoid

__all__ = ["NegativeBinomial"]


class NegativeBinomial(ProbsOrLogits, Distribution):
    """The successes, of probability `probs`, before `total_count` failures.

    >>> import ember as torch
    >>> torch.distributions.NegativeBinomial(2.0, torch.tensor(0.5)).mean
    tensor(2.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _expands = ("total_count", "probs", "logits", "_param")

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        exactly_one(probs, logits)
        given = logits if probs is None else probs
        self.total_count, self._param = broadcast_all(total_count, given)
        self.total_count = self.total_count.type_as(self._param)
        setattr(self, "logits" if probs is None else "probs", self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.total_count * ops.exp(self.logits)

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / ops.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Any:
        rate = ops.exp(-self.logits)
        return Gamma(concentration=self.total_count, rate=rate, validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return ops.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value: Any) -> Any:
        n, k = self.total_count, self._checked(value)
        powers = n * logsigmoid(-self.logits) + k * logsigmoid(self.logits)
        ways = (n + k).lgamma() - (k + 1).lgamma() - n.lgamma()
        nothing_asked = n + k == 0.0  # no failures to wait for: the count is 0 for sure
        return powers + ways.masked_fill(nothing_asked, 0.0)
