"""The von Mises distribution."""

from __future__ import annotations

import math
from typing import Any

from ember import ops
from ember.core.modes import no_grad
from ember.distributions import constraints
from ember.distributions.distribution import Distribution
from ember.distributions.utils import broadcast_all, lazy_property
from ember.dtypes import float64
from ember.layout import Size
from ember.ops.special import i0e, i1e

__all__ = ["VonMises"]


class VonMises(Distribution):
    """exp(κ cos(x - loc)) / (2π I₀(κ)) over angles, with the concentration κ.

    >>> import ember as torch
    >>> torch.distributions.VonMises(torch.tensor(1.0), torch.tensor(2.0)).mean
    tensor(1.)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _expands = ("loc", "concentration")

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, Size(), validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        """1 - I₁(κ) / I₀(κ), the circular variance."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    @lazy_property
    def _proposal_r(self) -> Any:
        """r of the wrapped Cauchy envelope, in float64: it cancels digits at small κ."""
        kappa = self.concentration.to(float64)
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        r = (1 + rho**2) / (2 * rho)
        return ops.where(kappa < 1e-5, 1 / kappa + kappa, r)  # there by its Taylor series

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws by rejection (Best & Fisher 1979, "Efficient simulation of the von Mises
        distribution"), without a gradient."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            loc, kappa = self.loc.to(float64), self.concentration.to(float64).expand(shape)
            r = self._proposal_r.detach().expand(shape)
            drawn = ops.empty(shape, dtype=float64, device=loc.device)
            done = ops.zeros(shape, dtype=ops.eq(drawn, 0).dtype, device=loc.device)
            while not bool(done.all()):
                u1, u2, u3 = ops.rand((3, *shape), dtype=float64, device=loc.device).unbind()
                z = (math.pi * u1).cos()
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                # a number accepted again is as good as the first
                drawn = ops.where(accept, (u3 - 0.5).sign() * f.acos(), drawn)
                done = done | accept
            turned = (drawn + math.pi + loc) % (2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)

    def log_prob(self, value: Any) -> Any:
        kappa = self.concentration
        cosine = ops.cos(self._checked(value) - self.loc)
        log_i0 = i0e(kappa).log() + kappa
        return kappa * cosine - math.log(2 * math.pi) - log_i0
