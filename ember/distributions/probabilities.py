"""`ProbsOrLogits`: distributions given by probabilities or by their logits, one of the two."""

from __future__ import annotations

from typing import Any

from ember.distributions.utils import (
    broadcast_all,
    is_number,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from ember.errors import check
from ember.layout import Size


class ProbsOrLogits:
    """Keeps the parameter given as `_param`; the other one is computed at its first use.

    >>> import ember as torch
    >>> torch.distributions.Bernoulli(logits=torch.tensor(0.0)).probs
    tensor(0.5000)
    """

    _is_binary = True
    _param: Any

    def _give_one(self, probs: Any, logits: Any) -> Size:
        """Keep the parameter of yes-or-no events; the shape of the batch."""
        exactly_one(probs, logits)
        given = logits if probs is None else probs
        (self._param,) = broadcast_all(given)
        setattr(self, "logits" if probs is None else "probs", self._param)
        return Size() if is_number(given) else self._param.size()

    def _give_row(self, probs: Any, logits: Any) -> Size:
        """Keep the parameter of one of several events, rows along the last dim; their batch."""
        exactly_one(probs, logits)
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        check(given.dim() >= 1, ValueError, f"`{name}` parameter must be at least one-dimensional.")
        if probs is None:
            self._param = self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        else:
            self._param = self.probs = probs / probs.sum(-1, keepdim=True)
        return Size(self._param.size()[:-1])

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self) -> Any:
        """The logarithms of the odds, or of the probabilities."""
        return probs_to_logits(self.probs, is_binary=self._is_binary)

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=self._is_binary)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._param.size()


def exactly_one(probs: Any, logits: Any) -> None:
    """ValueError unless one of the two is given."""
    check(
        (probs is None) != (logits is None),
        ValueError,
        "Either `probs` or `logits` must be specified, but not both.",
    )
