"""The distribution of a function of another one's draws."""

from __future__ import annotations

from typing import Any

from ember.core.modes import no_grad
from ember.distributions import constraints
from ember.distributions.distribution import Distribution
from ember.distributions.independent import Independent
from ember.distributions.transform import ComposeTransform, Transform
from ember.distributions.utils import _sum_rightmost
from ember.errors import check

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The draws x of `base_distribution` mapped by transforms, the first one first.

    log p(y) = log p(x) - log |dy/dx|. ValueError for what are no transforms, or need events of more
    dims than the base has.

    >>> import ember as torch
    >>> from ember.distributions import ExpTransform, Normal, TransformedDistribution
    >>> TransformedDistribution(Normal(0.0, 1.0), [ExpTransform()]).cdf(torch.tensor(1.0))
    tensor(0.5000)
    """

    arg_constraints: dict[str, Any] = {}
    _expands = ()

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        self.transforms = _as_list(transforms)
        base, event_dim = base_distribution, len(base_distribution.event_shape)
        shape = base.batch_shape + base.event_shape
        transform = ComposeTransform(self.transforms)
        needed = transform.domain.event_dim
        check(
            len(shape) >= needed,
            ValueError,
            f"base_distribution needs to have shape with size at least {needed}, but got {shape}.",
        )
        result_shape = transform.forward_shape(shape)
        wanted = transform.inverse_shape(result_shape)
        if shape != wanted:
            base = base.expand(wanted[: len(wanted) - event_dim])
        if needed > event_dim:
            base = Independent(base, needed - event_dim)
        self.base_dist = base
        change = transform.codomain.event_dim - needed
        dims = max(transform.codomain.event_dim, event_dim + change)
        cut = len(result_shape) - dims
        super().__init__(result_shape[:cut], result_shape[cut:], validate_args=validate_args)

    def _expand_more(self, new: Any, batch_shape: Any) -> None:
        shape = batch_shape + self.event_shape
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    def _forward(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        y, dims, total = self._checked(value), len(self.event_shape), 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            term = transform.log_abs_det_jacobian(x, y)
            total = total - _sum_rightmost(term, dims - transform.domain.event_dim)
            y = x
        own = self.base_dist.log_prob(y)
        return total + _sum_rightmost(own, dims - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Any) -> Any:
        """The probability from the other side where the transforms together decrease."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))


def _as_list(transforms: Any) -> list[Any]:
    if isinstance(transforms, Transform):
        return [transforms]
    check(
        isinstance(transforms, list),
        ValueError,
        f"transforms must be a Transform or list, but was {transforms}",
    )
    check(
        all(isinstance(transform, Transform) for transform in transforms),
        ValueError,
        "transforms must be a Transform or a list of Transforms",
    )
    return transforms
