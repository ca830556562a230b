"""`ExponentialFamily`: distributions with densities h(x) exp(<t(x), η> - F(η))."""

from __future__ import annotations

from typing import Any

from ember.autograd.backward import grad
from ember.core.modes import enable_grad
from ember.distributions.distribution import Distribution
from ember.distributions.utils import _sum_rightmost

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution whose logarithm of the density is linear in statistics of the value.

    Subclasses give the natural parameters η, the log normalizer F(η) and the mean of log h(x).

    >>> import ember as torch
    >>> isinstance(torch.distributions.Gamma(1.0, 1.0), torch.distributions.ExponentialFamily)
    True
    """

    @property
    def _natural_params(self) -> Any:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Any:
        """F(η) - <η, F'(η)> - E[log h(x)] (Bregman divergences)."""
        with enable_grad():
            natural = [p.detach().requires_grad_() for p in self._natural_params]
            normalizer = self._log_normalizer(*natural)
            slopes = grad(normalizer.sum(), natural, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        dims = len(self._event_shape)
        for parameter, slope in zip(natural, slopes):
            result = result - _sum_rightmost(parameter * slope, dims)
        return result
