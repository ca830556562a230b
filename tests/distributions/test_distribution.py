"""What distributions have in common: checks, shapes, subclasses; and values from SciPy."""

import math
import pickle
import warnings

import numpy as np
import pytest
from scipy import stats

import ember as torch
from ember import distributions as D
from ember.distributions import constraints
from ember.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
from ember.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)

A, B = np.array([0.7, 1.3, 2.6]), np.array([1.9, 0.8, 1.1])
X = np.array([0.2, 0.55, 0.9])
COUNTS = np.array([0.0, 1.0, 4.0])
CONTINUOUS = {
    "Normal": (lambda a, b: D.Normal(a, b), stats.norm(A, B)),
    "Laplace": (lambda a, b: D.Laplace(a, b), stats.laplace(A, B)),
    "Cauchy": (lambda a, b: D.Cauchy(a, b), stats.cauchy(A, B)),
    "Gumbel": (lambda a, b: D.Gumbel(a, b), stats.gumbel_r(A, B)),
    "LogNormal": (lambda a, b: D.LogNormal(a, b), stats.lognorm(B, scale=np.exp(A))),
    "Gamma": (lambda a, b: D.Gamma(a, b), stats.gamma(A, scale=1 / B)),
    "Chi2": (lambda a, b: D.Chi2(a), stats.chi2(A)),
    "Exponential": (lambda a, b: D.Exponential(a), stats.expon(scale=1 / A)),
    "Beta": (lambda a, b: D.Beta(a, b), stats.beta(A, B)),
    "StudentT": (lambda a, b: D.StudentT(a, 0.3, b), stats.t(A, 0.3, B)),
    "FisherSnedecor": (lambda a, b: D.FisherSnedecor(a * 5, b * 9), stats.f(A * 5, B * 9)),
    "HalfNormal": (lambda a, b: D.HalfNormal(a), stats.halfnorm(scale=A)),
    "HalfCauchy": (lambda a, b: D.HalfCauchy(a), stats.halfcauchy(scale=A)),
    "InverseGamma": (lambda a, b: D.InverseGamma(a + 2, b), stats.invgamma(A + 2, scale=B)),
    "Pareto": (lambda a, b: D.Pareto(a / 20, b + 2), stats.pareto(B + 2, scale=A / 20)),
    "Weibull": (lambda a, b: D.Weibull(a, b), stats.weibull_min(B, scale=A)),
    "Uniform": (lambda a, b: D.Uniform(-a, b), stats.uniform(-A, A + B)),
    "GeneralizedPareto": (
        lambda a, b: D.GeneralizedPareto(a / 20, b, a / 6),
        stats.genpareto(A / 6, A / 20, B),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_scipy_agrees_about_densities(name):
    build, wanted = CONTINUOUS[name]
    d, x = build(torch.tensor(A), torch.tensor(B)), torch.tensor(X)
    assert d.log_prob(x).numpy() == pytest.approx(wanted.logpdf(X), rel=1e-9)
    for ours, theirs in ((d.cdf, wanted.cdf), (d.icdf, wanted.ppf)):
        try:
            found = ours(x)
        except NotImplementedError:
            continue
        assert found.numpy() == pytest.approx(theirs(X), rel=1e-9)
    if name not in ("Cauchy", "HalfCauchy", "StudentT"):
        assert d.mean.numpy() == pytest.approx(wanted.mean(), rel=1e-9)
        assert d.variance.numpy() == pytest.approx(wanted.var(), rel=1e-7)
    if name not in ("FisherSnedecor",):
        assert d.entropy().numpy() == pytest.approx(wanted.entropy(), rel=1e-5)


DISCRETE = {
    "Poisson": (lambda p: D.Poisson(p * 3), stats.poisson(X * 3), 0),
    "Binomial": (lambda p: D.Binomial(5, p), stats.binom(5, X), 0),
    "Bernoulli": (lambda p: D.Bernoulli(p), stats.bernoulli(X), 0),
    "Geometric": (lambda p: D.Geometric(p), stats.geom(X), 1),
    "NegativeBinomial": (lambda p: D.NegativeBinomial(3, p), stats.nbinom(3, 1 - X), 0),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_scipy_agrees_about_counts(name):
    build, wanted, first = DISCRETE[name]
    d = build(torch.tensor(X))
    counts = np.minimum(COUNTS, 1) if name == "Bernoulli" else COUNTS
    found = d.log_prob(torch.tensor(counts)).numpy()
    assert found == pytest.approx(wanted.logpmf(counts + first), rel=1e-9)
    assert d.mean.numpy() == pytest.approx(wanted.mean() - first, rel=1e-9)
    assert d.variance.numpy() == pytest.approx(wanted.var(), rel=1e-9)


def test_scipy_agrees_about_vectors_and_matrices():
    covariance = np.array([[2.0, 0.3], [0.3, 1.0]])
    normal = D.MultivariateNormal(torch.tensor(A[:2]), torch.tensor(covariance))
    wanted = stats.multivariate_normal(A[:2], covariance)
    assert normal.log_prob(torch.tensor(X[:2])).item() == pytest.approx(wanted.logpdf(X[:2]))
    assert normal.entropy().item() == pytest.approx(wanted.entropy())
    wishart = D.Wishart(torch.tensor(4.0, dtype=torch.float64), torch.tensor(covariance))
    wanted = stats.wishart(4, covariance)
    value = covariance * 3
    assert wishart.log_prob(torch.tensor(value)).item() == pytest.approx(wanted.logpdf(value))
    assert wishart.entropy().item() == pytest.approx(wanted.entropy())
    dirichlet, simplex = stats.dirichlet(A), X / X.sum()
    found = D.Dirichlet(torch.tensor(A)).log_prob(torch.tensor(simplex))
    assert found.item() == pytest.approx(dirichlet.logpdf(simplex))
    counts = np.array([1.0, 2.0, 4.0])
    multinomial = D.Multinomial(7, torch.tensor(X))
    wanted = stats.multinomial(7, X / X.sum())
    assert multinomial.log_prob(torch.tensor(counts)).item() == pytest.approx(wanted.logpmf(counts))
    assert multinomial.entropy().item() == pytest.approx(wanted.entropy())
    von_mises = D.VonMises(torch.tensor(0.3), torch.tensor(2.0)).log_prob(torch.tensor(1.0))
    assert von_mises.item() == pytest.approx(stats.vonmises(2.0, 0.3).logpdf(1.0), rel=1e-5)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (
            lambda: D.Normal(0.0, -1.0),
            ValueError,
            (
                r"Expected parameter scale \(Tensor of shape \(\)\) of distribution "
                r"Normal\(loc: 0.0, scale: -1.0\) to satisfy the constraint "
                r"GreaterThan\(lower_bound=0.0\), but found invalid values:\n-1.0"
            ),
        ),
        (lambda: D.Normal("a", 1.0), ValueError, "Input arguments must all be instances of Number"),
        (lambda: D.Uniform(2.0, 1.0), ValueError, "Expected parameter low .* LessThan"),
        (lambda: D.Categorical(), ValueError, "Either `probs` or `logits` must be specified"),
        (lambda: D.Bernoulli(0.1, 0.2), ValueError, "Either `probs` or `logits` must be"),
        (lambda: D.Binomial(1), ValueError, "Either `probs` or `logits` must be specified"),
        (
            lambda: D.Categorical(torch.tensor(1.0)),
            ValueError,
            "`probs` parameter must be at least one-dimensional",
        ),
        (
            lambda: D.Dirichlet(torch.tensor(1.0)),
            ValueError,
            "`concentration` parameter must be at least one-dimensional",
        ),
        (
            lambda: D.Multinomial(torch.tensor(2), torch.ones(2)),
            NotImplementedError,
            "inhomogeneous total_count is not supported",
        ),
        (
            lambda: D.MultivariateNormal(torch.zeros(2)),
            ValueError,
            "Exactly one of covariance_matrix or precision_matrix or scale_tril",
        ),
        (
            lambda: D.MultivariateNormal(torch.zeros(2), torch.ones(2)),
            ValueError,
            "covariance_matrix must be at least two-dimensional",
        ),
        (
            lambda: D.MultivariateNormal(torch.zeros(2), -torch.eye(2)),
            ValueError,
            "Expected parameter covariance_matrix",
        ),
        (
            lambda: D.LowRankMultivariateNormal(torch.zeros(3), torch.ones(2, 2), torch.ones(2)),
            ValueError,
            "cov_factor must be a batch of matrices with shape 3 x m",
        ),
        (
            lambda: D.LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 2), torch.ones(3)),
            ValueError,
            "cov_diag must be a batch of vectors with shape",
        ),
        (lambda: D.Wishart(torch.tensor(3.0)), AssertionError, "Exactly one of covariance_matrix"),
        (lambda: D.Wishart(1.0, torch.eye(3)), ValueError, "expected to be greater than ndim - 1"),
        (lambda: D.LKJCholesky(1), ValueError, "Expected dim to be an integer greater than"),
        (
            lambda: D.Independent(D.Normal(0.0, 1.0), 1),
            ValueError,
            "Expected reinterpreted_batch_ndims <= .*, actual 1 vs 0",
        ),
        (
            lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), 3),
            ValueError,
            "transforms must be a Transform or list, but was 3",
        ),
        (
            lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [D.StickBreakingTransform()]),
            ValueError,
            "base_distribution needs to have shape with size at least 1",
        ),
        (
            lambda: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(0.0, 1.0)),
            ValueError,
            "The Mixture distribution needs to be an  instance of torch.distributions.Categorical",
        ),
        (
            lambda: D.MixtureSameFamily(
                D.Categorical(torch.ones(2)), D.Normal(torch.zeros(3), 1.0)
            ),
            ValueError,
            r"`mixture_distribution component` \(2\) does not equal",
        ),
        (lambda: D.Geometric(0.0), ValueError, "to be positive but found invalid values"),
        (lambda: D.Distribution().expand((2,)), NotImplementedError, ""),
        (lambda: D.Distribution(validate_args=False).mode, NotImplementedError, "implement mode"),
        (lambda: D.Distribution.set_default_validate_args(3), ValueError, "True or False"),
    ],
)
def test_what_is_refused(build, error, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(error, match=message or None):
            build()


@pytest.mark.parametrize(
    ("d", "value", "message"),
    [
        (D.Normal(0.0, 1.0), 3, "The value argument to log_prob must be a Tensor"),
        (
            D.Exponential(1.0),
            torch.tensor(-1.0),
            (
                r"Expected value argument \(Tensor of shape \(\)\) to be within the support "
                r"\(GreaterThanEq\(lower_bound=0.0\)\) of the distribution Exponential\(rate: 1.0\)"
            ),
        ),
        (
            D.Normal(torch.zeros(3), 1.0),
            torch.zeros(2),
            r"Value is not broadcastable with batch_shape\+event_shape: torch.Size\(\[2\]\) vs",
        ),
        (
            D.Dirichlet(torch.ones(3)),
            torch.ones(2),
            "The right-most size of value must match event_shape",
        ),
        (D.Categorical(torch.ones(2, 3)), torch.tensor(5), "upper_bound=2"),
    ],
)
def test_values_outside_the_support(d, value, message):
    with pytest.raises(ValueError, match=message):
        d.log_prob(value)


def test_validation_can_be_switched_off():
    assert D.Normal(0.0, -1.0, validate_args=False).mean == 0.0
    assert D.Exponential(1.0, validate_args=False).log_prob(torch.tensor(-1.0)) == 1.0
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Exponential(-1.0).rate == -1.0
    finally:
        D.Distribution.set_default_validate_args(True)
    assert not D.Normal(0.0, 1.0, validate_args=False).expand((2,))._validate_args


def test_a_distribution_without_constraints_warns():
    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        d = D.Distribution(event_shape=(2,))
    with pytest.warns(UserWarning, match="does not define `support`"):
        d._validate_sample(torch.zeros(2))


class Shifted(D.Normal):
    """A subclass with arguments of its own."""

    def __init__(self, loc, shift):
        self.shift = shift
        super().__init__(loc + shift, 1.0)


class Renamed(D.Normal):
    """A subclass that changes nothing."""


class MyExpand(Shifted):
    """A subclass that says how it expands."""

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(MyExpand, _instance)
        new.shift = self.shift
        return super().expand(batch_shape, _instance=new)


def test_expand_in_subclasses():
    with pytest.raises(NotImplementedError, match=r"Subclass Shifted of Normal .* custom __init__"):
        Shifted(torch.zeros(()), 1.0).expand((2,))
    assert type(Renamed(0.0, 1.0).expand((2,))) is Renamed
    wider = MyExpand(torch.zeros(()), 1.0).expand((2, 3))
    assert type(wider) is MyExpand and wider.shift == 1.0 and wider.loc.shape == (2, 3)
    assert wider.sample((4,)).shape == (4, 2, 3)


def test_expanded_distributions_share_their_parameters():
    loc = torch.zeros(3, requires_grad=True)
    D.Normal(loc, 1.0).expand((2, 3)).log_prob(torch.ones(3)).sum().backward()
    assert loc.grad.tolist() == [2.0, 2.0, 2.0]
    d = D.Categorical(logits=torch.zeros(4)).expand((2,))
    assert d.probs.shape == (2, 4) and d.event_shape == () and d._num_events == 4


def test_shapes_of_draws():
    d = D.MultivariateNormal(torch.zeros(2, 3), torch.eye(3))
    assert d.batch_shape == (2,) and d.event_shape == (3,)
    assert d.sample().shape == (2, 3) and d.rsample((4, 1)).shape == (4, 1, 2, 3)
    assert d.log_prob(torch.zeros(3)).shape == (2,)
    with pytest.warns(UserWarning, match="sample_n will be deprecated"):
        assert d.sample_n(5).shape == (5, 2, 3)


def test_draws_of_empty_batches():
    assert D.Categorical(torch.ones(0, 3)).sample((2,)).shape == (2, 0)
    assert D.Dirichlet(torch.ones(2, 3)).sample((0,)).shape == (0, 2, 3)
    assert D.Binomial(0, torch.tensor(0.3)).sample((3,)).tolist() == [0.0] * 3


def test_draws_have_a_gradient_only_where_they_should():
    loc = torch.zeros(2, requires_grad=True)
    assert D.Normal(loc, 1.0).rsample().requires_grad
    assert not D.Normal(loc, 1.0).sample().requires_grad
    assert not D.Bernoulli(logits=loc).sample().requires_grad
    with pytest.raises(NotImplementedError):
        D.Bernoulli(logits=loc).rsample()


def test_gamma_draws_move_with_their_shape():
    """The slope of the quantile at the same probability."""
    shapes = torch.tensor([0.3, 1.0, 5.0, 40.0], dtype=torch.float64, requires_grad=True)
    torch.manual_seed(0)
    draws = D.Gamma(shapes, 1.0).rsample((50,))
    (slopes,) = torch.autograd.grad(draws[7].sum(), shapes)
    x, a = draws[7].detach().numpy(), shapes.detach().numpy()
    probability, step = stats.gamma(a).cdf(x), 1e-4 * a
    above, below = (stats.gamma(a + s).ppf(probability) for s in (step, -step))
    assert slopes.numpy() == pytest.approx((above - below) / (2 * step), rel=1e-5)


def test_beta_draws_move_with_their_concentrations():
    a = torch.tensor([0.5, 2.0, 7.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([1.5, 0.7, 4.0], dtype=torch.float64, requires_grad=True)
    torch.manual_seed(0)
    x = D.Beta(a, b).rsample()
    slopes = torch.autograd.grad(x.sum(), (a, b))
    p, q, x = a.detach().numpy(), b.detach().numpy(), x.detach().numpy()
    probability, step = stats.beta(p, q).cdf(x), 1e-5
    for slope, moved in (
        (slopes[0], [stats.beta(p + s, q) for s in (step, -step)]),
        (slopes[1], [stats.beta(p, q + s) for s in (step, -step)]),
    ):
        above, below = (d.ppf(probability) for d in moved)
        assert slope.numpy() == pytest.approx((above - below) / (2 * step), rel=1e-4)


def test_wishart_draws():
    torch.manual_seed(0)
    covariance = torch.tensor([[2.0, 0.3], [0.3, 1.0]])
    d = D.Wishart(torch.tensor(5.0), covariance)
    draws = d.sample((4000,))
    assert constraints.positive_definite.check(draws[0])
    assert draws.mean(0).numpy() == pytest.approx(d.mean.numpy(), abs=0.35)
    assert draws.var(0).numpy() == pytest.approx(d.variance.numpy(), rel=0.15)


def test_lkj_draws_are_factors_of_correlations():
    torch.manual_seed(0)
    draws = D.LKJCholesky(4, 2.0).sample((300,))
    assert constraints.corr_cholesky.check(draws).all()
    off = (draws @ draws.mT)[:, 1, 0]
    # each correlation is Beta(concentration + 1, ...) on (-1, 1): its variance is 1 / (2η + n - 1)
    assert off.var().item() == pytest.approx(1 / (2 * 2.0 + 4 - 1), rel=0.25)


def test_von_mises_draws_keep_to_the_circle():
    torch.manual_seed(0)
    draws = D.VonMises(torch.tensor(3.0), torch.tensor(4.0)).sample((4000,))
    assert (draws.abs() <= math.pi + 1e-6).all()
    direction = torch.atan2(draws.sin().mean(), draws.cos().mean())
    assert direction.item() == pytest.approx(3.0, abs=0.05)


def test_the_mode_of_kumaraswamy_has_the_greatest_density():
    d = D.Kumaraswamy(torch.tensor([2.0, 3.0]), torch.tensor([5.0, 1.5]))
    grid = torch.linspace(0.001, 0.999, 999).unsqueeze(-1)
    assert d.mode.numpy() == pytest.approx(grid[d.log_prob(grid).argmax(0), 0].numpy(), abs=2e-3)
    assert D.Kumaraswamy(0.5, 2.0).mode.isnan()


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (lambda: D.Bernoulli(torch.tensor([0.0, 1.0])).entropy(), [0.0, 0.0]),
        (lambda: D.Geometric(torch.tensor([1.0])).log_prob(torch.tensor([0.0])), [0.0]),
        (lambda: D.NegativeBinomial(0.0, torch.tensor([0.3])).log_prob(torch.zeros(1)), [0.0]),
        (lambda: D.Poisson(torch.tensor([0.0])).log_prob(torch.tensor([0.0])), [0.0]),
        (
            lambda: D.Multinomial(3, torch.tensor([0.0, 0.5, 0.5])).log_prob(
                torch.tensor([[0.0, 0.0, 3.0]])
            ),
            [math.log(1 / 8)],
        ),
        (
            lambda: D.Categorical(torch.tensor([0.0, 1.0, 3.0])).entropy().reshape(1),
            [-0.25 * math.log(0.25) - 0.75 * math.log(0.75)],
        ),
        (lambda: D.Exponential(1.0).icdf(torch.tensor([0.0, 1.0])), [0.0, math.inf]),
        (lambda: D.Gamma(2.0, 1.0).log_prob(torch.tensor([0.0])), [-math.inf]),
        (lambda: D.StudentT(torch.tensor([0.5, 1.5])).variance, [math.nan, math.inf]),
        (lambda: D.InverseGamma(torch.tensor([0.5, 3.0]), 2.0).mean, [math.inf, 1.0]),
        (lambda: D.Pareto(1.0, torch.tensor([0.5])).mean, [math.inf]),
        (lambda: D.HalfNormal(1.0, validate_args=False).log_prob(-torch.ones(1)), [-math.inf]),
        (lambda: D.ContinuousBernoulli(0.5).cdf(torch.tensor([0.0, 0.3, 1.0])), [0.0, 0.3, 1.0]),
        (lambda: D.Uniform(0.0, 1.0).log_prob(torch.tensor([0.0, 1.0])), [0.0, -math.inf]),
    ],
)
def test_values_at_the_ends(found, wanted):
    assert found().tolist() == pytest.approx(wanted, rel=1e-5, abs=2e-6, nan_ok=True)


def test_lazy_parameters():
    probs = torch.tensor([0.2, 0.7], requires_grad=True)
    d = D.Bernoulli(probs)
    assert "logits" not in vars(d)
    with torch.no_grad():
        logits = d.logits
    assert logits.requires_grad and d.logits is logits
    assert isinstance(vars(D.MultivariateNormal)["covariance_matrix"], lazy_property)
    assert LogitRelaxedBernoulli(torch.tensor(1.0), probs=probs).param_shape == (2,)


def test_probabilities_and_logits():
    logits = torch.tensor([-2.0, 0.5, 3.0])
    assert torch.allclose(probs_to_logits(logits_to_probs(logits, True), True), logits, atol=1e-5)
    assert torch.allclose(probs_to_logits(logits_to_probs(logits)), logits.log_softmax(-1))
    assert probs_to_logits(torch.tensor([0.0, 1.0])).isfinite().all()


def test_parameters_are_broadcast():
    _, b = broadcast_all(torch.zeros(2, 1, dtype=torch.float64), 3)
    assert b.dtype is torch.float64 and b.shape == (2, 1)
    assert broadcast_all(1, 2)[0].dtype is torch.get_default_dtype()
    assert D.Normal(0, 1).batch_shape == () and D.Normal(torch.zeros(2), 1).batch_shape == (2,)


@pytest.mark.parametrize("diag", [-2, -1, 0, 1])
def test_triangles_as_vectors(diag):
    matrix = torch.arange(1.0, 33.0).reshape(2, 4, 4)
    vector = tril_matrix_to_vec(matrix, diag)
    assert torch.equal(vec_to_tril_matrix(vector, diag), matrix.tril(diag))
    with pytest.raises(ValueError, match=r"diag \(4\) provided is outside \[-4, 3\]"):
        tril_matrix_to_vec(matrix, 4)


def test_pickled_distributions():
    d = D.TransformedDistribution(D.Normal(torch.zeros(2), 1.0), [D.TanhTransform(cache_size=1)])
    d.rsample()
    assert d.transforms[0].inv is not None
    again = pickle.loads(pickle.dumps(d))
    value = torch.tensor([0.2, 0.3])
    assert torch.equal(again.log_prob(value), d.log_prob(value))


def test_doubles_stay_doubles():
    d = D.Gamma(torch.tensor([2.0], dtype=torch.float64), 1.0)
    assert d.rsample().dtype is torch.float64 and d.log_prob(d.sample()).dtype is torch.float64
    assert D.Beta(d.concentration, d.rate).sample((2,)).dtype is torch.float64


def test_unknown_names_are_explained():
    with pytest.raises(AttributeError, match="closest names: torch.distributions.Normal"):
        D.Norml
