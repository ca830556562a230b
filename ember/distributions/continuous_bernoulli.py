"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

from ember import ops
from ember.core.modes import no_grad
from ember.distributions import constraints
from ember.distributions.exp_family import ExponentialFamily
from ember.distributions.probabilities import ProbsOrLogits
from ember.distributions.utils import broadcast_all, clamp_probs
from ember.errors import check
from ember.ops.losses import binary_cross_entropy_with_logits

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """C(p) p^x (1 - p)^(1 - x) over [0, 1] (Loaiza-Ganem & Cunningham 2019).

    Within `lims` of p the formulas, which are 0/0 at ½, give way to their Taylor series.

    >>> import ember as torch
    >>> torch.distributions.ContinuousBernoulli(torch.tensor([0.5])).mean
    tensor([0.5000])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _expands = ("probs", "logits", "_param")

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        shape = self._give_one(probs, logits)
        if probs is not None:
            if validate_args is not None and validate_args:
                check(
                    bool(self.arg_constraints["probs"].check(self.probs).all()),
                    ValueError,
                    "The parameter probs has invalid values",
                )
            self.probs = self._param = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(shape, validate_args=validate_args)

    def _expand_more(self, new: Any, batch_shape: Any) -> None:
        new._lims = self._lims

    def _outside_unstable_region(self) -> Any:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Any:
        edge = ops.full_like(self.probs, self._lims[0])
        return ops.where(self._outside_unstable_region(), self.probs, edge)

    def _cont_bern_log_norm(self) -> Any:
        """log C(p), with C = 2 artanh(1 - 2p) / (1 - 2p)."""
        cut = self._cut_probs()
        below = ops.where(cut <= 0.5, cut, ops.zeros_like(cut))
        above = ops.where(cut >= 0.5, cut, ops.ones_like(cut))
        log_norm = ((-cut).log1p() - cut.log()).abs().log() - ops.where(
            cut <= 0.5, (-2.0 * below).log1p(), (2.0 * above - 1.0).log()
        )
        x = (self.probs - 0.5).pow(2)
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return ops.where(self._outside_unstable_region(), log_norm, series)

    @property
    def mean(self) -> Any:
        cut = self._cut_probs()
        mean = cut / (2.0 * cut - 1.0) + 1.0 / ((-cut).log1p() - cut.log())
        x = self.probs - 0.5
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x
        return ops.where(self._outside_unstable_region(), mean, series)

    @property
    def stddev(self) -> Any:
        return self.variance.sqrt()

    @property
    def variance(self) -> Any:
        cut = self._cut_probs()
        variance = cut * (cut - 1.0) / (1.0 - 2.0 * cut).pow(2)
        variance = variance + 1.0 / ((-cut).log1p() - cut.log()).pow(2)
        x = (self.probs - 0.5).pow(2)
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return ops.where(self._outside_unstable_region(), variance, series)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(ops.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Any) -> Any:
        logits, value = broadcast_all(self.logits, self._checked(value))
        loss = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._cont_bern_log_norm() - loss

    def cdf(self, value: Any) -> Any:
        value, cut = self._checked(value), self._cut_probs()
        powers = cut.pow(value) * (1.0 - cut).pow(1.0 - value)
        inside = (powers + cut - 1.0) / (2.0 * cut - 1.0)
        inside = ops.where(self._outside_unstable_region(), inside, value)
        from_below = ops.where(value <= 0.0, ops.zeros_like(value), inside)
        return ops.where(value >= 1.0, ops.ones_like(value), from_below)

    def icdf(self, value: Any) -> Any:
        cut = self._cut_probs()
        span = (-cut + value * (2.0 * cut - 1.0)).log1p() - (-cut).log1p()
        inside = span / (cut.log() - (-cut).log1p())
        return ops.where(self._outside_unstable_region(), inside, value)

    def entropy(self) -> Any:
        log_failure, log_success = (-self.probs).log1p(), self.probs.log()
        slope = self.mean * (log_failure - log_success)
        return slope - self._cont_bern_log_norm() - log_failure

    @property
    def _natural_params(self) -> Any:
        return (ops.logit(self.probs),)

    def _log_normalizer(self, x: Any) -> Any:
        out = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = ops.where(out, x, ops.full_like(x, self._lims[0] - 0.5))
        log_norm = (cut.exp() - 1).abs().log() - cut.abs().log()
        series = 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0
        return ops.where(out, log_norm, series)
