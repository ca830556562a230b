"""`kl_divergence`: which formula is taken, and where the divergence is infinite."""

import math

import pytest

import ember as torch
from ember import distributions as D
from ember.distributions import kl_divergence, register_kl
from ember.distributions.divergence import _KL_MEMOIZE, _KL_REGISTRY


@pytest.fixture
def registry():
    """What a test registers goes afterwards."""
    kept = dict(_KL_REGISTRY)
    yield
    _KL_REGISTRY.clear()
    _KL_REGISTRY.update(kept)
    _KL_MEMOIZE.clear()


class Left(D.Normal):
    """A special normal distribution."""


class Right(D.Normal):
    """Another one."""


def test_the_nearest_pair_is_taken(registry):
    p, q = Left(0.0, 1.0), Right(1.0, 1.0)
    assert kl_divergence(p, q).item() == 0.5  # that of Normal, Normal
    register_kl(Left, D.Distribution)(lambda p, q: "of any")
    register_kl(Left, D.Normal)(lambda p, q: "of a normal")
    assert kl_divergence(p, q) == "of a normal"
    assert kl_divergence(p, D.Cauchy(0.0, 1.0)) == "of any"
    register_kl(Left, Right)(lambda p, q: "its own")
    assert kl_divergence(p, q) == "its own"


def test_two_pairs_that_are_equally_near(registry):
    register_kl(Left, D.Normal)(lambda p, q: "by p")
    register_kl(D.Normal, Right)(lambda p, q: "by q")
    text = r"Ambiguous kl_divergence\(Left, Right\). Please register_kl\(Left, Right\)"
    with pytest.warns(RuntimeWarning, match=text):
        assert kl_divergence(Left(0.0, 1.0), Right(0.0, 1.0)) == "by p"


def test_what_has_no_formula():
    with pytest.raises(NotImplementedError, match="p type StudentT and q type Normal"):
        kl_divergence(D.StudentT(3.0), D.Normal(0.0, 1.0))
    with pytest.raises(NotImplementedError, match="between different exponential families"):
        kl_divergence(D.Normal(0.0, 1.0), D.Poisson(1.0))
    with pytest.raises(TypeError, match="Expected type_p to be a Distribution subclass but got 3"):
        register_kl(3, D.Normal)
    with pytest.raises(ValueError, match="different event shapes cannot be computed"):
        kl_divergence(
            D.MultivariateNormal(torch.zeros(2), torch.eye(2)),
            D.MultivariateNormal(torch.zeros(3), torch.eye(3)),
        )
    with pytest.raises(NotImplementedError, match=r"q.total_count > p.total_count"):
        kl_divergence(D.Binomial(3, torch.tensor(0.3)), D.Binomial(5, torch.tensor(0.4)))
    with pytest.raises(NotImplementedError, match="different transforms"):
        kl_divergence(D.LogNormal(0.0, 1.0), D.HalfNormal(1.0))
    row = D.Normal(torch.zeros(2), 1.0)
    with pytest.raises(NotImplementedError, match="reinterpreted"):
        kl_divergence(D.Independent(row, 1), D.Independent(row, 0))


@pytest.mark.parametrize(
    ("p", "q", "wanted"),
    [
        (D.Beta(2.0, 3.0), D.Uniform(0.1, 1.0), math.inf),
        (D.Beta(2.0, 3.0), D.Uniform(0.0, 1.0), 0.2349062),
        (D.ContinuousBernoulli(0.3), D.Uniform(0.0, 1.0), 0.02938622),
        (D.ContinuousBernoulli(0.3), D.Uniform(0.0, 0.9), math.inf),
        (D.Uniform(0.0, 1.0), D.Beta(2.0, 3.0), 0.5150934),
        (D.Uniform(-1.0, 1.0), D.Beta(2.0, 3.0), math.inf),
        (D.Uniform(-1.0, 1.0), D.Exponential(0.4), math.inf),
        (D.Uniform(-1.0, 1.0), D.Gamma(0.4, 1.0), math.inf),
        (D.Uniform(0.0, 3.0), D.Pareto(1.0, 2.0), math.inf),
        (D.Uniform(0.0, 3.0), D.Uniform(1.0, 2.0), math.inf),
        (D.Uniform(1.0, 2.0), D.Uniform(0.0, 3.0), math.log(3)),
        (D.Pareto(1.0, 0.5), D.Exponential(1.0), math.inf),
        (D.Pareto(1.0, 1.5), D.Normal(1.0, 2.0), math.inf),
        (D.Pareto(1.0, 1.5), D.Pareto(2.0, 2.0), math.inf),
        (D.Normal(0.0, 1.0), D.Uniform(0.0, 1.0), math.inf),
        (D.Bernoulli(0.5), D.Bernoulli(0.0), math.inf),
        (D.Bernoulli(0.0), D.Bernoulli(0.5), math.log(2)),
        (D.Binomial(5, torch.tensor(0.3)), D.Binomial(3, torch.tensor(0.4)), math.inf),
        (
            D.Categorical(torch.tensor([0.0, 0.5, 0.5])),
            D.Categorical(torch.tensor([0.5, 0.0, 0.5])),
            math.inf,
        ),
        (
            D.Categorical(torch.tensor([0.0, 0.5, 0.5])),
            D.Categorical(torch.tensor([0.0, 0.25, 0.75])),
            0.5 * math.log(2) + 0.5 * math.log(2 / 3),
        ),
        (D.Chi2(3.0), D.Gamma(1.5, 0.5), 0.0),
    ],
)
def test_where_supports_differ(p, q, wanted):
    found = kl_divergence(p, q).item()
    assert found == pytest.approx(wanted, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (D.Normal(0.3, 1.2), D.Laplace(0.1, 0.8)),
        (D.Gamma(2.0, 1.5), D.Normal(0.1, 0.8)),
        (D.Exponential(1.5), D.Gumbel(0.1, 0.8)),
        (D.Beta(2.0, 1.5), D.Gamma(2.0, 0.8)),
        (D.Uniform(0.1, 0.9), D.ContinuousBernoulli(0.3)),
        (D.Gumbel(0.3, 0.5), D.Gumbel(0.1, 0.8)),
        (D.Cauchy(0.3, 0.5), D.Cauchy(0.1, 0.8)),
    ],
)
def test_divergences_are_means_over_draws(p, q):
    torch.manual_seed(0)
    x = p.sample((20000,))
    mean = (p.log_prob(x) - q.log_prob(x)).mean()
    assert kl_divergence(p, q).item() == pytest.approx(mean.item(), rel=0.1)


def test_divergences_have_gradients():
    loc = torch.tensor(1.0, requires_grad=True)
    kl_divergence(D.Normal(loc, 1.0), D.Normal(0.0, 2.0)).backward()
    assert loc.grad.item() == pytest.approx(0.25)
    df = torch.tensor(4.0, requires_grad=True)
    kl_divergence(
        D.Wishart(torch.tensor(5.0), torch.eye(2)), D.Wishart(df, torch.eye(2))
    ).backward()
    assert df.grad.isfinite()
