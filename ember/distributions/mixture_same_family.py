"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any

from ember import ops
from ember.core.modes import no_grad
from ember.distributions import constraints
from ember.distributions.categorical import Categorical
from ember.distributions.distribution import Distribution
from ember.errors import check
from ember.layout import Size

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """Draws of components, chosen by a `Categorical`; they lie along the last batch dim.

    ValueError where the distributions or their batches do not fit together.

    >>> import ember as torch
    >>> from ember.distributions import Categorical, MixtureSameFamily, Normal
    >>> mixture = Categorical(torch.tensor([0.25, 0.75]))
    >>> MixtureSameFamily(mixture, Normal(torch.tensor([0.0, 4.0]), 1.0)).mean
    tensor(3.)
    """

    arg_constraints: dict[str, Any] = {}
    has_rsample = False
    _expands = ()

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        _check_parts(mixture_distribution, component_distribution)
        self._num_component = mixture_distribution.logits.shape[-1]
        event_shape = component_distribution._event_shape
        self._event_ndims = len(event_shape)
        batch_shape = component_distribution.batch_shape[:-1]
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def _expand_more(self, new: Any, batch_shape: Any) -> None:
        new._mixture_distribution = self.mixture_distribution.expand(batch_shape)
        inner = Size([*batch_shape, self._num_component])
        new._component_distribution = self.component_distribution.expand(inner)
        new._num_component = self._num_component
        new._event_ndims = self._event_ndims

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """The distribution of the component's number."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components, along the last batch dim."""
        return self._component_distribution

    def _weights(self) -> Any:
        return self._pad_mixture_dimensions(self.mixture_distribution.probs)

    @property
    def mean(self) -> Any:
        parts = self._weights() * self.component_distribution.mean
        return ops.sum(parts, dim=-1 - self._event_ndims)

    @property
    def variance(self) -> Any:
        weights, dim = self._weights(), -1 - self._event_ndims
        distance = self.component_distribution.mean - self._pad(self.mean)
        within = ops.sum(weights * self.component_distribution.variance, dim=dim)
        return within + ops.sum(weights * distance.pow(2.0), dim=dim)

    def cdf(self, x: Any) -> Any:
        parts = self.component_distribution.cdf(self._pad(x))
        return ops.sum(parts * self.mixture_distribution.probs, dim=-1)

    def log_prob(self, x: Any) -> Any:
        parts = self.component_distribution.log_prob(self._pad(self._checked(x)))
        weights = ops.log_softmax(self.mixture_distribution.logits, dim=-1)
        return ops.logsumexp(parts + weights, dim=-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            drawn, events = len(sample_shape), self.event_shape
            dim = drawn + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            samples = self.component_distribution.sample(sample_shape)
            place = chosen.reshape(chosen.shape + Size([1] * (len(events) + 1)))
            place = place.expand(chosen.shape + Size([1]) + events)
            return ops.gather(samples, dim, place).squeeze(dim)

    def _pad(self, x: Any) -> Any:
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Any) -> Any:
        return x.reshape(x.shape + Size([1] * self._event_ndims))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(\n  {self.mixture_distribution},\n"
            f"  {self.component_distribution})"
        )


def _check_parts(mixture: Any, component: Any) -> None:
    check(
        isinstance(mixture, Categorical),
        ValueError,
        " The Mixture distribution needs to be an  instance of torch.distributions.Categorical",
    )
    check(
        isinstance(component, Distribution),
        ValueError,
        "The Component distribution needs to be an instance of torch.distributions.Distribution",
    )
    batch, inner = mixture.batch_shape, component.batch_shape[:-1]
    for one, other in zip(reversed(batch), reversed(inner)):
        check(
            one == 1 or other == 1 or one == other,
            ValueError,
            f"`mixture_distribution.batch_shape` ({batch}) is not compatible with "
            f"`component_distribution.batch_shape`({inner})",
        )
    count, other = mixture.logits.shape[-1], component.batch_shape[-1]
    check(
        count == other,
        ValueError,
        f"`mixture_distribution component` ({count}) does not equal "
        f"`component_distribution.batch_shape[-1]` ({other})",
    )
