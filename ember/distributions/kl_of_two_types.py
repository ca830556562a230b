"""The Kullback-Leibler divergences of distributions of two types: -H(p) - E_p[log q].

Infinite where p has values that q has not.
"""

from __future__ import annotations

import math
from typing import Any

from ember import ops
from ember.distributions.bernoulli import Bernoulli
from ember.distributions.beta import Beta
from ember.distributions.binomial import Binomial
from ember.distributions.continuous_bernoulli import ContinuousBernoulli
from ember.distributions.divergence import register_kl
from ember.distributions.exponential import Exponential
from ember.distributions.gamma import Gamma
from ember.distributions.gumbel import Gumbel
from ember.distributions.laplace import Laplace
from ember.distributions.normal import Normal
from ember.distributions.pareto import Pareto
from ember.distributions.poisson import Poisson
from ember.distributions.uniform import Uniform
from ember.distributions.utils import euler_constant

_LOG_TAU = math.log(2 * math.pi)


def _infinite(parameter: str) -> Any:
    """A divergence that is infinite whatever the parameters; of the shape of one of p's."""

    def divergence(p: Any, q: Any) -> Any:
        return ops.full_like(getattr(p, parameter), math.inf)

    return divergence


for _p, _parameter, _others in (
    (Beta, "concentration1", (Pareto,)),
    (ContinuousBernoulli, "probs", (Pareto,)),
    (Exponential, "rate", (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gamma, "concentration", (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gumbel, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Laplace, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Normal, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Pareto, "scale", (Beta, ContinuousBernoulli, Uniform)),
    (Poisson, "rate", (Bernoulli, Binomial)),
):
    for _q in _others:
        register_kl(_p, _q)(_infinite(_parameter))


# E_p[log q] of each q, from the moments of p


def _of_exponential(q: Any, mean: Any) -> Any:
    return q.rate.log() - q.rate * mean


def _of_gamma(q: Any, mean: Any, mean_log: Any) -> Any:
    volume = q.concentration * q.rate.log() - q.concentration.lgamma()
    return volume + (q.concentration - 1) * mean_log - q.rate * mean


def _of_normal(q: Any, mean: Any, variance: Any) -> Any:
    square = variance + (mean - q.loc).pow(2)
    return -0.5 * (_LOG_TAU + square / q.scale.pow(2)) - q.scale.log()


def _of_continuous_bernoulli(q: Any, mean: Any) -> Any:
    return mean * q.logits + (-q.probs).log1p() + q._cont_bern_log_norm()


def _of_gumbel(q: Any, mean: Any, mean_exp: Any) -> Any:
    """mean_exp is E[exp(-(x - loc) / scale)]."""
    return -q.scale.log() - (mean - q.loc) / q.scale - mean_exp


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


# p = Beta or ContinuousBernoulli, on [0, 1]


@register_kl(Beta, ContinuousBernoulli)
def _kl_beta_continuous_bernoulli(p: Any, q: Any) -> Any:
    return -p.entropy() - _of_continuous_bernoulli(q, p.mean)


@register_kl(Beta, Gamma)
def _kl_beta_gamma(p: Any, q: Any) -> Any:
    total = p.concentration1 + p.concentration0
    mean_log = p.concentration1.digamma() - total.digamma()
    return -p.entropy() - _of_gamma(q, p.mean, mean_log)


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
def _kl_unit_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - _of_exponential(q, p.mean)


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
def _kl_unit_normal(p: Any, q: Any) -> Any:
    return -p.entropy() - _of_normal(q, p.mean, p.variance)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _kl_unit_uniform(p: Any, q: Any) -> Any:
    kl = -p.entropy() + (q.high - q.low).log()
    return ops.where((q.low > 0) | (q.high < 1), math.inf, kl)


# p = Exponential or Gamma, positive


@register_kl(Exponential, Gamma)
def _kl_exponential_gamma(p: Any, q: Any) -> Any:
    return -p.entropy() - _of_gamma(q, p.mean, -euler_constant - p.rate.log())


@register_kl(Exponential, Gumbel)
def _kl_exponential_gumbel(p: Any, q: Any) -> Any:
    product = p.rate * q.scale
    mean_exp = (q.loc / q.scale).exp() * product / (product + 1)
    return -p.entropy() - _of_gumbel(q, p.mean, mean_exp)


@register_kl(Gamma, Gumbel)
def _kl_gamma_gumbel(p: Any, q: Any) -> Any:
    inverse = (p.rate * q.scale).reciprocal()
    mean_exp = (q.loc / q.scale).exp() * (1 + inverse).pow(-p.concentration)
    return -p.entropy() - _of_gumbel(q, p.mean, mean_exp)


@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
def _kl_positive_normal(p: Any, q: Any) -> Any:
    return -p.entropy() - _of_normal(q, p.mean, p.variance)


@register_kl(Gamma, Exponential)
def _kl_gamma_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - _of_exponential(q, p.mean)


# p = Gumbel, Laplace or Normal, on all numbers


@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
def _kl_real_normal(p: Any, q: Any) -> Any:
    return -p.entropy() - _of_normal(q, p.mean, p.variance)


@register_kl(Normal, Gumbel)
def _kl_normal_gumbel(p: Any, q: Any) -> Any:
    mean_exp = ((q.loc - p.loc) / q.scale + 0.5 * (p.scale / q.scale).pow(2)).exp()
    return -p.entropy() - _of_gumbel(q, p.mean, mean_exp)


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p: Any, q: Any) -> Any:
    distance = p.loc - q.loc
    ratio = distance / p.scale
    spread = math.sqrt(2 / math.pi) * p.scale * (-0.5 * ratio.pow(2)).exp()
    mean_distance = spread + distance * (math.sqrt(0.5) * ratio).erf()
    return -p.entropy() + (2 * q.scale).log() + mean_distance / q.scale


# p = Pareto, from its scale on


@register_kl(Pareto, Exponential)
def _kl_pareto_exponential(p: Any, q: Any) -> Any:
    kl = -p.entropy() - _of_exponential(q, p.mean)
    return ops.where(p.alpha <= 1, math.inf, kl)


@register_kl(Pareto, Gamma)
def _kl_pareto_gamma(p: Any, q: Any) -> Any:
    kl = -p.entropy() - _of_gamma(q, p.mean, p.scale.log() + p.alpha.reciprocal())
    return ops.where(p.alpha <= 1, math.inf, kl)


@register_kl(Pareto, Normal)
def _kl_pareto_normal(p: Any, q: Any) -> Any:
    kl = -p.entropy() - _of_normal(q, p.mean, p.variance)
    return ops.where(p.alpha <= 2, math.inf, kl)


# p = Uniform


def _mean_log(low: Any, high: Any) -> Any:
    """E[log x] over [low, high]."""
    return (ops.xlogy(high, high) - ops.xlogy(low, low)) / (high - low) - 1


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p: Any, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    powers = (a - 1) * _mean_log(p.low, p.high) + (b - 1) * _mean_log(1 - p.high, 1 - p.low)
    kl = -p.entropy() - powers + a.lgamma() + b.lgamma() - (a + b).lgamma()
    return ops.where((p.high > 1) | (p.low < 0), math.inf, kl)


@register_kl(Uniform, ContinuousBernoulli)
def _kl_uniform_continuous_bernoulli(p: Any, q: Any) -> Any:
    kl = -p.entropy() - _of_continuous_bernoulli(q, p.mean)
    return ops.where((p.high > 1) | (p.low < 0), math.inf, kl)


@register_kl(Uniform, Exponential)
def _kl_uniform_exponential(p: Any, q: Any) -> Any:
    return ops.where(p.low < 0, math.inf, -p.entropy() - _of_exponential(q, p.mean))


@register_kl(Uniform, Gamma)
def _kl_uniform_gamma(p: Any, q: Any) -> Any:
    kl = -p.entropy() - _of_gamma(q, p.mean, _mean_log(p.low, p.high))
    return ops.where(p.low < 0, math.inf, kl)


@register_kl(Uniform, Gumbel)
def _kl_uniform_gumbel(p: Any, q: Any) -> Any:
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    mean_exp = ((-low).exp() - (-high).exp()) / (high - low)
    return -p.entropy() - _of_gumbel(q, p.mean, mean_exp)


@register_kl(Uniform, Normal)
def _kl_uniform_normal(p: Any, q: Any) -> Any:
    return -p.entropy() - _of_normal(q, p.mean, p.variance)


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p: Any, q: Any) -> Any:
    log_q = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p.low, p.high)
    return ops.where(p.low < q.scale, math.inf, -p.entropy() - log_q)
