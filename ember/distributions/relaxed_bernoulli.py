"""The relaxed Bernoulli distribution."""

from __future__ import annotations

from typing import Any

from ember import ops
from ember.distributions import constraints
from ember.distributions.distribution import Distribution
from ember.distributions.probabilities import ProbsOrLogits
from ember.distributions.transformed_distribution import TransformedDistribution
from ember.distributions.transforms import SigmoidTransform
from ember.distributions.utils import broadcast_all, clamp_probs

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(ProbsOrLogits, Distribution):
    """The logits of `RelaxedBernoulli`: (logits + a logistic number) / temperature.

    >>> import ember as torch
    >>> from ember.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
    >>> LogitRelaxedBernoulli(torch.tensor(1.0), logits=torch.zeros(2)).batch_shape
    torch.Size([2])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    _expands = ("probs", "logits", "_param")

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(self._give_one(probs, logits), validate_args=validate_args)

    def _expand_more(self, new: Any, batch_shape: Any) -> None:
        new.temperature = self.temperature

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(ops.rand(shape, dtype=probs.dtype, device=probs.device))
        logistic = u.log() - (-u).log1p()
        return (logistic + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Any:
        logits, value = broadcast_all(self.logits, self._checked(value))
        distance = logits - value * self.temperature
        return self.temperature.log() + distance - 2 * distance.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers in (0, 1) that near Bernoulli's 0 and 1 as the temperature falls.

    Maddison, Mnih & Teh 2016, "The concrete distribution"; Jang, Gu & Poole 2016.

    >>> import ember as torch
    >>> torch.distributions.RelaxedBernoulli(torch.tensor(0.5), torch.tensor([0.3])).has_rsample
    True
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _expands = ()

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """How far from 0 and 1 the numbers are."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """log(p / (1 - p))."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """The probability of 1 in the limit."""
        return self.base_dist.probs
