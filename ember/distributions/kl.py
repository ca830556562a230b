"""`torch.distributions.kl`: the Kullback-Leibler divergences of two distributions of one type.

Those of two types are in kl_of_two_types.py, `kl_divergence` and `register_kl` in divergence.py.
"""

from __future__ import annotations

import math
from typing import Any

from ember import linalg, ops
from ember.autograd.backward import grad
from ember.core.modes import enable_grad
from ember.distributions import kl_of_two_types  # noqa: F401  (fills the registry)
from ember.distributions.bernoulli import Bernoulli
from ember.distributions.beta import Beta
from ember.distributions.binomial import Binomial
from ember.distributions.categorical import Categorical
from ember.distributions.cauchy import Cauchy
from ember.distributions.continuous_bernoulli import ContinuousBernoulli
from ember.distributions.dirichlet import Dirichlet
from ember.distributions.divergence import (  # noqa: F401
    _KL_MEMOIZE,
    _KL_REGISTRY,
    _dispatch_kl,
    kl_divergence,
    register_kl,
)
from ember.distributions.exp_family import ExponentialFamily
from ember.distributions.exponential import Exponential
from ember.distributions.gamma import Gamma
from ember.distributions.geometric import Geometric
from ember.distributions.gumbel import Gumbel
from ember.distributions.half_normal import HalfNormal
from ember.distributions.independent import Independent
from ember.distributions.laplace import Laplace
from ember.distributions.lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    _batch_lowrank_mahalanobis,
)
from ember.distributions.multivariate_normal import (
    MultivariateNormal,
    _batch_mahalanobis,
    half_log_det,
)
from ember.distributions.normal import Normal
from ember.distributions.one_hot_categorical import OneHotCategorical
from ember.distributions.pareto import Pareto
from ember.distributions.poisson import Poisson
from ember.distributions.transformed_distribution import TransformedDistribution
from ember.distributions.uniform import Uniform
from ember.distributions.utils import _sum_rightmost, euler_constant
from ember.errors import check
from ember.ops.activations import softplus

__all__ = ["kl_divergence", "register_kl"]


# single numbers


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p: Any, q: Any) -> Any:
    yes = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    no = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    yes = ops.where(p.probs == 0, 0.0, ops.where(q.probs == 0, math.inf, yes))
    return yes + ops.where(p.probs == 1, 0.0, ops.where(q.probs == 1, math.inf, no))


@register_kl(Beta, Beta)
def _kl_beta_beta(p: Any, q: Any) -> Any:
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    volumes = (c.lgamma() + d.lgamma() - (c + d).lgamma()) - (
        a.lgamma() + b.lgamma() - (a + b).lgamma()
    )
    slopes = (a - c) * a.digamma() + (b - d) * b.digamma() + (c + d - a - b) * (a + b).digamma()
    return volumes + slopes


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p: Any, q: Any) -> Any:
    check(
        not bool((p.total_count < q.total_count).any()),
        NotImplementedError,
        "KL between Binomials where q.total_count > p.total_count is not implemented",
    )
    odds = p.probs * (p.logits - q.logits)
    kl = p.total_count * (odds + (-p.probs).log1p() - (-q.probs).log1p())
    return ops.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p: Any, q: Any) -> Any:
    # Chyzak & Nielsen 2019, "A closed-form formula for the Kullback-Leibler divergence between
    # Cauchy distributions"
    square = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return square.log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(p: Any, q: Any) -> Any:
    own = p._cont_bern_log_norm() + (-p.probs).log1p()
    other = q._cont_bern_log_norm() + (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + own - other


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    volumes = b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma()
    return volumes + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p: Any, q: Any) -> Any:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    tail = ((1 + ratio).lgamma() - shift).exp()
    return shift - ratio.log() + ratio * euler_constant + tail - (1 + euler_constant)


@register_kl(Normal, Normal)
def _kl_normal_normal(p: Any, q: Any) -> Any:
    variances = (p.scale / q.scale).pow(2)
    distance = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (variances + distance - 1 - variances.log())


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p: Any, q: Any) -> Any:
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p: Any, q: Any) -> Any:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    kl = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return ops.where(p.scale < q.scale, math.inf, kl)


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p: Any, q: Any) -> Any:
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    return ops.where((q.low > p.low) | (q.high < p.high), math.inf, kl)


# vectors


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p: Any, q: Any) -> Any:
    terms = p.probs * (p.logits - q.logits)
    terms = ops.where(q.probs == 0, math.inf, terms)
    return ops.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p: Any, q: Any) -> Any:
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    totals = a.sum(-1).lgamma() - b.sum(-1).lgamma()
    slopes = a.digamma() - a.sum(-1, True).digamma()
    return totals - (a.lgamma() - b.lgamma()).sum(-1) + ((a - b) * slopes).sum(-1)


def _batch_trace_XXT(bmat: Any) -> Any:
    """The trace of X Xᵀ: the sum of the squares."""
    return bmat.pow(2).sum((-2, -1))


def _check_events(p: Any, q: Any, what: str) -> int:
    check(
        p.event_shape == q.event_shape,
        ValueError,
        f"KL-divergence between two {what} with different event shapes cannot be computed",
    )
    return p.event_shape[0]


def _scaled_factor(q: Any) -> Any:
    """A with Σ⁻¹ = D⁻¹ - Aᵀ A for a low-rank Σ."""
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    return linalg.solve_triangular(q._capacitance_tril, scaled, upper=False)


def _lowrank_distance(p: Any, q: Any) -> Any:
    return _batch_lowrank_mahalanobis(
        q._unbroadcasted_cov_factor,
        q._unbroadcasted_cov_diag,
        q.loc - p.loc,
        q._capacitance_tril,
    )


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariatenormal_multivariatenormal(p: Any, q: Any) -> Any:
    size = _check_events(p, q, "Multivariate Normals")
    ours, theirs = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    trace = _batch_trace_XXT(linalg.solve_triangular(theirs, ours, upper=False))
    distance = _batch_mahalanobis(theirs, q.loc - p.loc)
    return half_log_det(theirs) - half_log_det(ours) + 0.5 * (trace + distance - size)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_lowrankmultivariatenormal_lowrankmultivariatenormal(p: Any, q: Any) -> Any:
    size = _check_events(p, q, "Low Rank Multivariate Normals")
    factor, diagonal = p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag
    a, other = _scaled_factor(q), q._unbroadcasted_cov_diag
    trace = (diagonal / other).sum(-1) + _batch_trace_XXT(factor * other.rsqrt().unsqueeze(-1))
    trace = trace - _batch_trace_XXT(a * diagonal.sqrt().unsqueeze(-2))
    trace = trace - _batch_trace_XXT(a.matmul(factor))
    return 0.5 * (q._log_det() - p._log_det() + trace + _lowrank_distance(p, q) - size)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _kl_multivariatenormal_lowrankmultivariatenormal(p: Any, q: Any) -> Any:
    size = _check_events(p, q, "(Low Rank) Multivariate Normals")
    tril, a = p._unbroadcasted_scale_tril, _scaled_factor(q)
    trace = _batch_trace_XXT(tril * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1))
    trace = trace - _batch_trace_XXT(a.matmul(tril))
    log_det = q._log_det() - 2 * half_log_det(tril)
    return 0.5 * (log_det + trace + _lowrank_distance(p, q) - size)


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _kl_lowrankmultivariatenormal_multivariatenormal(p: Any, q: Any) -> Any:
    size = _check_events(p, q, "(Low Rank) Multivariate Normals")
    tril = q._unbroadcasted_scale_tril
    roots = p._unbroadcasted_cov_diag.sqrt().diag_embed()
    trace = _batch_trace_XXT(
        linalg.solve_triangular(tril, p._unbroadcasted_cov_factor, upper=False)
    ) + _batch_trace_XXT(linalg.solve_triangular(tril, roots, upper=False))
    distance = _batch_mahalanobis(tril, q.loc - p.loc)
    return 0.5 * (2 * half_log_det(tril) - p._log_det() + trace + distance - size)


# distributions made of others


@register_kl(Independent, Independent)
def _kl_independent_independent(p: Any, q: Any) -> Any:
    dims = p.reinterpreted_batch_ndims
    check(
        dims == q.reinterpreted_batch_ndims,
        NotImplementedError,
        f"KL of Independent distributions of {dims} and {q.reinterpreted_batch_ndims} "
        "reinterpreted dims is not implemented",
    )
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), dims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p: Any, q: Any) -> Any:
    check(
        p.transforms == q.transforms and p.event_shape == q.event_shape,
        NotImplementedError,
        "KL of distributions with different transforms or event shapes is not implemented",
    )
    more = len(p.event_shape) - len(p.base_dist.event_shape)
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), more)


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: Any, q: Any) -> Any:
    # F(η_q) - F(η_p) - <η_q - η_p, F'(η_p)>: a Bregman divergence (Nielsen & Nock 2010)
    check(
        type(p) is type(q),
        NotImplementedError,
        "The cross KL-divergence between different exponential families cannot be computed using "
        "Bregman divergences",
    )
    with enable_grad():
        ours = [parameter.detach().requires_grad_() for parameter in p._natural_params]
        normalizer = p._log_normalizer(*ours)
        slopes = grad(normalizer.sum(), ours, create_graph=True)
    theirs = q._natural_params
    result = q._log_normalizer(*theirs) - normalizer
    for mine, other, slope in zip(ours, theirs, slopes):
        result = result - _sum_rightmost((other - mine) * slope, len(q.event_shape))
    return result
