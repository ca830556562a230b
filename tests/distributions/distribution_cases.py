"""Distributions, pairs of them, transforms and constraints, for recorded and live comparison.

In the expressions D is torch.distributions; `real`, `positive`, `unit` and `definite` make tensors
of a shape, waves of a sine, which are the parameters that gradients are recorded of.
`python tests/distributions/distribution_cases.py` records the values anew; it needs PyTorch.
"""

import json
import math
import pathlib

RECORDED = pathlib.Path(__file__).with_name("distribution_values.json")

CASES = {
    "Bernoulli": "D.Bernoulli(unit(3))",
    "Bernoulli of logits": "D.Bernoulli(logits=real(3))",
    "Beta": "D.Beta(positive(3), positive(2, 3))",
    "Beta of numbers": "D.Beta(2.0, 3.0)",
    "Binomial": "D.Binomial(5, unit(3))",
    "Binomial of logits": "D.Binomial(torch.tensor([5.0, 5.0, 5.0]), logits=real(3))",
    "Categorical": "D.Categorical(unit(2, 4))",
    "Categorical of logits": "D.Categorical(logits=real(4))",
    "Cauchy": "D.Cauchy(real(3), positive(3))",
    "Chi2": "D.Chi2(positive(3))",
    "ContinuousBernoulli": "D.ContinuousBernoulli(unit(3))",
    "ContinuousBernoulli near half": "D.ContinuousBernoulli(torch.tensor([0.5, 0.4995, 0.501]))",
    "ContinuousBernoulli of logits": "D.ContinuousBernoulli(logits=real(3))",
    "Dirichlet": "D.Dirichlet(positive(2, 3))",
    "Exponential": "D.Exponential(positive(3))",
    "FisherSnedecor": "D.FisherSnedecor(positive(3) * 5, positive(3) * 9)",
    "Gamma": "D.Gamma(positive(3), positive(3))",
    "GeneralizedPareto": "D.GeneralizedPareto(real(3), positive(3), real(3) * 0.4)",
    "GeneralizedPareto exponential": "D.GeneralizedPareto(0.0, 2.0, 0.0)",
    "Geometric": "D.Geometric(unit(3))",
    "Geometric of logits": "D.Geometric(logits=real(3))",
    "Gumbel": "D.Gumbel(real(3), positive(3))",
    "Gumbel of numbers": "D.Gumbel(0.5, 2.0)",
    "HalfCauchy": "D.HalfCauchy(positive(3))",
    "HalfNormal": "D.HalfNormal(positive(3))",
    "Independent": "D.Independent(D.Normal(real(2, 3), positive(2, 3)), 1)",
    "InverseGamma": "D.InverseGamma(positive(3) * 2, positive(3))",
    "Kumaraswamy": "D.Kumaraswamy(positive(3), positive(3) + 1)",
    "LKJCholesky": "D.LKJCholesky(3, positive(2))",
    "Laplace": "D.Laplace(real(3), positive(3))",
    "LogNormal": "D.LogNormal(real(3), positive(3))",
    "LogisticNormal": "D.LogisticNormal(real(2, 3), positive(2, 3))",
    "LowRankMultivariateNormal": (
        "D.LowRankMultivariateNormal(real(2, 3), real(3, 2), positive(3))"
    ),
    "MixtureSameFamily": (
        "D.MixtureSameFamily(D.Categorical(unit(2, 4)), D.Normal(real(2, 4), positive(2, 4)))"
    ),
    "MixtureSameFamily of vectors": (
        "D.MixtureSameFamily(D.Categorical(logits=real(2)), "
        "D.Independent(D.Normal(real(2, 3), positive(2, 3)), 1))"
    ),
    "Multinomial": "D.Multinomial(5, unit(2, 3))",
    "MultivariateNormal": "D.MultivariateNormal(real(2, 3), definite(3))",
    "MultivariateNormal of precisions": (
        "D.MultivariateNormal(real(3), precision_matrix=definite(3))"
    ),
    "MultivariateNormal of factors": (
        "D.MultivariateNormal(real(3), scale_tril=torch.linalg.cholesky(definite(3)))"
    ),
    "NegativeBinomial": "D.NegativeBinomial(positive(3) * 4, unit(3))",
    "NegativeBinomial of logits": "D.NegativeBinomial(3, logits=real(3))",
    "Normal": "D.Normal(real(3), positive(2, 3))",
    "Normal of numbers": "D.Normal(0.5, 2)",
    "OneHotCategorical": "D.OneHotCategorical(unit(2, 4))",
    "OneHotCategoricalStraightThrough": "D.OneHotCategoricalStraightThrough(logits=real(2, 4))",
    "Pareto": "D.Pareto(positive(3), positive(3) * 3)",
    "Poisson": "D.Poisson(positive(3) * 3)",
    "RelaxedBernoulli": "D.RelaxedBernoulli(torch.tensor(0.7), unit(3))",
    "RelaxedOneHotCategorical": "D.RelaxedOneHotCategorical(torch.tensor(0.7), unit(2, 3))",
    "StudentT": "D.StudentT(positive(3) * 3, real(3), positive(3))",
    "TransformedDistribution": (
        "D.TransformedDistribution(D.Normal(real(3), positive(3)), "
        "[D.AffineTransform(real(3), -positive(3)), D.SigmoidTransform()])"
    ),
    "Uniform": "D.Uniform(real(3) - 3, real(3) + 3)",
    "VonMises": "D.VonMises(real(3), positive(3))",
    "Weibull": "D.Weibull(positive(3), positive(3))",
    "Wishart": "D.Wishart(torch.tensor([4.0, 5.0]), definite(3))",
}
# What is not PyTorch's: it draws definite matrices twice, and warns that they were singular; its
# mode of a Kumaraswamy distribution is NaN for all parameters.
NOT_PYTORCHS = {"Wishart": ("sample", "rsample"), "Kumaraswamy": ("mode",)}

SINGLE = {
    "Bernoulli": "D.Bernoulli(unit(3) * {0})",
    "Beta": "D.Beta(positive(3) * {0}, positive(3))",
    "Binomial": "D.Binomial(5, unit(3) * {0})",
    "Categorical": "D.Categorical(unit(2, 3) + {0})",
    "Cauchy": "D.Cauchy(real(3) * {0}, positive(3))",
    "ContinuousBernoulli": "D.ContinuousBernoulli(unit(3) * {0})",
    "Dirichlet": "D.Dirichlet(positive(2, 3) * {0})",
    "Exponential": "D.Exponential(positive(3) * {0})",
    "ExponentialFamily": "D.Wishart(torch.tensor(4.0) + {0}, definite(3) * {0})",
    "Gamma": "D.Gamma(positive(3), positive(3) * {0})",
    "Geometric": "D.Geometric(unit(3) * {0})",
    "Gumbel": "D.Gumbel(real(3) * {0}, positive(3))",
    "HalfNormal": "D.HalfNormal(positive(3) * {0})",
    "Independent": "D.Independent(D.Normal(real(2, 3) * {0}, positive(2, 3)), 1)",
    "Laplace": "D.Laplace(real(3) * {0}, positive(3))",
    "LowRankMultivariateNormal": (
        "D.LowRankMultivariateNormal(real(2, 3) * {0}, real(3, 2), positive(3) * {0})"
    ),
    "MultivariateNormal": "D.MultivariateNormal(real(2, 3), definite(3) * {0})",
    "Normal": "D.Normal(real(3) * {0}, positive(3))",
    "OneHotCategorical": "D.OneHotCategorical(unit(2, 3) + {0})",
    "Pareto": "D.Pareto(positive(3) * {0}, positive(3) * 4)",
    "Poisson": "D.Poisson(positive(3) * {0})",
    "TransformedDistribution": "D.LogNormal(real(3) * {0}, positive(3))",
    "Uniform": "D.Uniform(unit(3) * {0} * 0.3, unit(3) * {0} * 0.3 + 0.5 * {0})",
}

TRANSFORMS = {
    "Abs": ("D.AbsTransform()", "real(2, 3)"),
    "Affine of numbers": ("D.AffineTransform(1.0, -2.0)", "real(2, 3)"),
    "Affine": ("D.AffineTransform(real(3), positive(3))", "real(2, 3)"),
    "Affine of vectors": ("D.AffineTransform(real(3), 2.0, event_dim=1)", "real(2, 3)"),
    "Cat": (
        "D.CatTransform([D.ExpTransform(), D.AffineTransform(1.0, 3.0)], -1, [1, 2])",
        "real(2, 3)",
    ),
    "Compose": (
        "D.ComposeTransform([D.AffineTransform(1.0, 2.0), D.StickBreakingTransform()])",
        "real(2, 3)",
    ),
    "CorrCholesky": ("D.CorrCholeskyTransform()", "real(2, 3)"),
    "CumulativeDistribution": (
        "D.CumulativeDistributionTransform(D.Normal(0.0, 1.0))",
        "real(2, 3)",
    ),
    "Exp": ("D.ExpTransform()", "real(2, 3)"),
    "identity": ("D.identity_transform", "real(2, 3)"),
    "Independent": ("D.IndependentTransform(D.ExpTransform(), 1)", "real(2, 3)"),
    "LowerCholesky": ("D.LowerCholeskyTransform()", "real(2, 3, 3)"),
    "PositiveDefinite": ("D.PositiveDefiniteTransform()", "real(2, 2, 2)"),
    "Power": ("D.PowerTransform(torch.tensor([2.0, -0.5, 3.0]))", "positive(2, 3)"),
    "Reshape": ("D.ReshapeTransform((3,), (3, 1))", "real(2, 3)"),
    "Sigmoid": ("D.SigmoidTransform()", "real(2, 3)"),
    "Softmax": ("D.SoftmaxTransform()", "real(2, 3)"),
    "Softplus": ("D.SoftplusTransform()", "real(2, 3)"),
    "Stack": ("D.StackTransform([D.ExpTransform(), D.TanhTransform()], 0)", "real(2, 3)"),
    "StickBreaking": ("D.StickBreakingTransform()", "real(2, 3)"),
    "Tanh": ("D.TanhTransform()", "real(2, 3)"),
}

CONSTRAINTS = (
    "boolean nonnegative_integer positive_integer real real_vector positive nonnegative one_hot "
    "unit_interval simplex lower_triangular lower_cholesky corr_cholesky square symmetric "
    "positive_semidefinite positive_definite integer_interval(0,2) interval(-1,1.0) "
    "half_open_interval(0.0,1.0) greater_than(0.5) greater_than_eq(0.5) less_than(0.5) "
    "multinomial(3) independent(positive,1) cat([positive,real],-1,[1,2]) "
    "stack([positive,real,boolean],-1) MixtureSameFamilyConstraint(positive)"
).split()
CHECKED = (
    "torch.tensor([[-1.0, 0.0, 0.5], [1.0, 2.0, 3.5], [0.0, 1.0, 0.0], [0.2, 0.3, 0.5]])",
    "torch.tensor([float('nan'), 1.0, 2.0])",
    "definite(3)",
    "torch.linalg.cholesky(definite(3))",
    "D.CorrCholeskyTransform()(real(3))",
    "torch.ones(3, 3)",
    "torch.tensor([[0, 1, 0], [3, -1, 1]])",
)


def pairs(torch):
    """The names of the types that have a divergence."""
    return sorted((p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY)


class Namespace(dict):
    """What expressions are written with; `leaves` are the parameters made, which need gradients."""

    def __init__(self, torch, needs_gradients=False):
        super().__init__(D=torch.distributions, torch=torch)
        self.torch, self.needs_gradients, self.leaves = torch, needs_gradients, []
        self.update(real=self.real, positive=self.positive, unit=self.unit, definite=self.definite)

    def made(self, values, shape):
        """A leaf."""
        tensor = self.torch.tensor(values).reshape(shape).requires_grad_(self.needs_gradients)
        self.leaves.append(tensor)
        return tensor

    def wave(self, shape):
        """Numbers in (-1, 1), different from one leaf to the next."""
        phase = 0.4 + 0.9 * len(self.leaves)
        return [math.sin(1.7 * place + phase) for place in range(math.prod(shape))]

    def real(self, *shape):
        """Numbers in (-1, 1)."""
        return self.made(self.wave(shape), shape)

    def positive(self, *shape):
        """Numbers in (0.3, 1.9)."""
        return self.made([1.1 + 0.8 * value for value in self.wave(shape)], shape)

    def unit(self, *shape):
        """Numbers in (0.1, 0.9)."""
        return self.made([0.5 + 0.4 * value for value in self.wave(shape)], shape)

    def definite(self, size):
        """A positive definite matrix."""
        wave = self.wave((size, size))
        rows = [wave[place * size : (place + 1) * size] for place in range(size)]
        products = [
            [sum(a * b for a, b in zip(one, other)) + 0.5 * (one is other) for other in rows]
            for one in rows
        ]
        return self.made([value for row in products for value in row], (size, size))

    def read(self, expression):
        """The value of an expression."""
        return eval(expression, self)


def flat(value):
    """Plain values as they are, tensors as [shape, numbers of 7 digits]."""
    if hasattr(value, "reshape"):
        numbers = value.detach().reshape(-1).tolist()
        return [list(value.shape), [float(f"{float(number):.7g}") for number in numbers]]
    return list(value) if isinstance(value, tuple) else value


def tried(function):
    """The value, or the name of the error."""
    try:
        return flat(function())
    except Exception as error:
        return type(error).__name__


def describe(torch, name, drawn):
    """Everything about a distribution; `drawn` are values for densities: none for fresh draws."""
    space = Namespace(torch)
    d = space.read(CASES[name])
    found = {what: tried(lambda what=what: getattr(d, what)) for what in PROPERTIES}
    found["repr"], found["support"] = repr(d), repr(d.support)
    found["entropy"] = tried(d.entropy)
    found["enumerate_support"] = tried(lambda: d.enumerate_support())
    for what, method in (("sample", d.sample), ("rsample", d.rsample)):
        torch.manual_seed(3)
        found[what] = tried(lambda method=method: method((2,)))
    shape, numbers = drawn or found["sample"]
    value = torch.tensor(numbers).reshape(shape)
    found["log_prob"] = tried(lambda: d.log_prob(value))
    found["cdf"] = tried(lambda: d.cdf(value))
    found["icdf"] = tried(lambda: d.icdf(torch.full(tuple(d.batch_shape), 0.3)))
    wider = d.expand((2, *d.batch_shape))
    found["expanded"] = [repr(wider), list(wider.batch_shape), list(wider.event_shape)]
    found["expanded log_prob"] = tried(lambda: wider.log_prob(value))
    return found


PROPERTIES = "mean mode variance stddev batch_shape event_shape has_rsample".split()


def gradients(torch, name, what, drawn=None):
    """Of a weighted sum of draws, of log_prob or of the entropy, for each parameter."""
    space = Namespace(torch, needs_gradients=True)
    d = space.read(CASES[name])
    if what == "rsample":
        torch.manual_seed(5)
        result = d.rsample((2,))
    elif what == "log_prob":
        shape, numbers = drawn
        result = d.log_prob(torch.tensor(numbers).reshape(shape))
    else:
        result = d.entropy()
    weights = torch.arange(1, result.numel() + 1).reshape(result.shape)
    (result * weights).sum().backward()
    return [None if leaf.grad is None else flat(leaf.grad) for leaf in space.leaves]


def divergence(torch, p, q):
    """KL of two types, with different parameters."""
    space = Namespace(torch)
    one, other = space.read(SINGLE[p].format(0.9)), space.read(SINGLE[q].format(0.7))
    return flat(torch.distributions.kl_divergence(one, other))


def transformed(torch, name):
    """What a transform makes of an input, and what it says of itself."""
    space = Namespace(torch)
    expression, given = TRANSFORMS[name]
    transform, x = space.read(expression), space.read(given)
    y = transform(x)
    found = {"y": flat(y), "back": flat(transform.inv(y)), "repr": repr(transform)}
    found["log_abs_det_jacobian"] = tried(lambda: transform.log_abs_det_jacobian(x, y))
    found["inverse"] = tried(lambda: transform.inv.log_abs_det_jacobian(y, x))
    for what in ("sign", "bijective", "event_dim"):
        found[what] = tried(lambda what=what: getattr(transform, what))
    found["sets"] = [repr(transform.domain), repr(transform.codomain)]
    found["shapes"] = [
        tried(lambda: tuple(transform.forward_shape(x.shape))),
        tried(lambda: tuple(transform.inverse_shape(y.shape))),
    ]
    return found


def checked(torch, expression):
    """A constraint's text, kind and verdicts."""
    constraint = eval(expression, dict(vars(torch.distributions.constraints)))
    verdicts = [
        tried(lambda value=value: constraint.check(Namespace(torch).read(value)))
        for value in CHECKED
    ]
    return [repr(constraint), constraint.event_dim, constraint.is_discrete, verdicts]


def graded(name, values):
    """Which gradients a case has."""
    if isinstance(values["rsample"], list):
        yield "rsample"
    if "of numbers" not in name and name not in ("GeneralizedPareto exponential",):
        yield "log_prob"
        if isinstance(values["entropy"], list):
            yield "entropy"


def record(torch):
    """All values, by kind and name."""
    values = {"cases": {}, "gradients": {}, "divergences": {}}
    for name in CASES:
        found = values["cases"][name] = describe(torch, name, None)
        for what in graded(name, found):
            key = f"{name}: {what}"
            try:
                values["gradients"][key] = gradients(torch, name, what, found["sample"])
            except RuntimeError:
                continue  # no parameter that needs one
    for p, q in pairs(torch):
        values["divergences"][f"{p} {q}"] = divergence(torch, p, q)
    values["transforms"] = {name: transformed(torch, name) for name in TRANSFORMS}
    values["constraints"] = {expression: checked(torch, expression) for expression in CONSTRAINTS}
    return values


if __name__ == "__main__":
    import torch

    kinds = []
    for kind, named in record(torch).items():
        lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in named.items()]
        kinds.append(f"{json.dumps(kind)}: {{\n" + ",\n".join(lines) + "\n}")
    RECORDED.write_text("{\n" + ",\n".join(kinds) + "\n}\n")
