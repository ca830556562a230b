"""The binomial distribution."""

from __future__ import annotations

from typing import Any

from ember import ops
from ember.core.modes import no_grad
from ember.distributions import constraints
from ember.distributions.distribution import Distribution
from ember.distributions.probabilities import ProbsOrLogits, exactly_one
from ember.distributions.utils import broadcast_all
from ember.errors import check

__all__ = ["Binomial"]


def _half_way_at_zero(x: Any) -> Any:
    """max(x, 0), with the gradient ½ at 0."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(ProbsOrLogits, Distribution):
    """The successes of `total_count` trials, each of probability `probs`.

    >>> import ember as torch
    >>> torch.distributions.Binomial(10, torch.tensor([0.5])).mean
    tensor([5.])
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _expands = ("total_count", "probs", "logits", "_param")

    def __init__(
        self,
        total_count: Any = 1,
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

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        mode = ((self.total_count + 1) * self.probs).floor()
        return mode.clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ops.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        n, k, logits = self.total_count, self._checked(value), self.logits
        ways = (n + 1).lgamma() - (k + 1).lgamma() - (n - k + 1).lgamma()
        # log(1 - p) of either sign of the logits without overflow
        log_failure = -(_half_way_at_zero(logits) + (-logits.abs()).exp().log1p())
        return ways + k * logits + n * log_failure

    def _one_count(self) -> int:
        total = int(self.total_count.max())
        check(
            int(self.total_count.min()) == total,
            NotImplementedError,
            "Inhomogeneous total count not supported by `enumerate_support`.",
        )
        return total

    def entropy(self) -> Any:
        total = int(self.total_count.max())
        check(
            int(self.total_count.min()) == total,
            NotImplementedError,
            "Inhomogeneous total count not supported by `entropy`.",
        )
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        count = 1 + self._one_count()
        values = ops.arange(count, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values
