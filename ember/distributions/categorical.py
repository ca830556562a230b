"""The categorical distribution."""

from __future__ import annotations

from typing import Any

from ember import ops
from ember.core.modes import no_grad
from ember.distributions import constraints
from ember.distributions.distribution import Distribution
from ember.distributions.probabilities import ProbsOrLogits
from ember.dtypes import finfo
from ember.layout import Size

__all__ = ["Categorical"]


class Categorical(ProbsOrLogits, Distribution):
    """One of 0 ... K - 1, by K probabilities (scaled to sum 1) or their logarithms plus a constant.

    >>> import ember as torch
    >>> torch.distributions.Categorical(torch.tensor([1.0, 3.0])).probs
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _is_binary = False
    _expands = ("probs", "logits", "_param")

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        shape = self._give_row(probs, logits)
        self._num_events = self._param.size()[-1]
        super().__init__(shape, validate_args=validate_args)

    def _expand_more(self, new: Any, batch_shape: Any) -> None:
        new._num_events = self._num_events

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Any:
        return self._undefined()

    @property
    def mode(self) -> Any:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Any:
        return self._undefined()

    def _undefined(self) -> Any:
        shape = self._extended_shape()
        return ops.full(shape, float("nan"), dtype=self.probs.dtype, device=self.probs.device)

    def sample(self, sample_shape: Any = ()) -> Any:
        sample_shape = Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        with no_grad():
            drawn = ops.multinomial(rows, sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Any:
        value = self._checked(value).long().unsqueeze(-1)
        value, log_probs = ops.broadcast_tensors(value, self.logits)
        return log_probs.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)  # 0 · -inf is 0 here
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = ops.arange(self._num_events, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values
