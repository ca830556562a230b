"""Transforms: caches, equality, inverses, Jacobians; the registries; what is refused."""

import gc
import math

import pytest

import ember as torch
from ember import distributions as D
from ember.distributions import biject_to, constraints, transform_to
from ember.distributions import transforms as T

BIJECTIONS = {
    "Affine": T.AffineTransform(1.0, -2.0),
    "Exp": T.ExpTransform(),
    "Power": T.PowerTransform(3.0),
    "Sigmoid": T.SigmoidTransform(),
    "Softplus": T.SoftplusTransform(),
    "StickBreaking": T.StickBreakingTransform(),
    "Tanh": T.TanhTransform(),
}


@pytest.mark.parametrize("name", BIJECTIONS)
def test_the_jacobian_is_that_of_autograd(name):
    transform = BIJECTIONS[name]
    x = torch.tensor([0.3, 1.2, 0.7], dtype=torch.float64)
    y = transform(x)

    def free(x):  # as many numbers out as in
        return transform(x)[..., :3]

    jacobian = torch.autograd.functional.jacobian(free, x)
    wanted = torch.linalg.slogdet(jacobian).logabsdet
    found = transform.log_abs_det_jacobian(x, y).sum()
    assert found.item() == pytest.approx(wanted.item(), rel=1e-9)
    assert torch.allclose(transform.inv(y), x)
    back = transform.inv.log_abs_det_jacobian(y, x).sum()
    assert back.item() == pytest.approx(-wanted.item(), rel=1e-9)


def test_the_jacobian_of_correlation_factors():
    x = torch.tensor([0.3, -0.2, 0.7], dtype=torch.float64)
    transform = T.CorrCholeskyTransform()

    def below(x):
        return D.utils.tril_matrix_to_vec(transform(x), -1)

    wanted = torch.linalg.slogdet(torch.autograd.functional.jacobian(below, x)).logabsdet
    found = transform.log_abs_det_jacobian(x, transform(x))
    assert found.item() == pytest.approx(wanted.item(), rel=1e-9)


def test_a_cache_keeps_the_last_pair():
    transform = T.TanhTransform(cache_size=1)
    x = torch.tensor([30.0])
    y = transform(x)
    assert transform(x) is y and transform.inv(y) is x  # atanh(1) would be inf
    z = torch.tensor([0.5])
    assert transform.inv(z) is not x and transform(transform.inv(z)) is z
    assert T.ExpTransform().with_cache(1)._cache_size == 1
    composed = T.ComposeTransform([T.TanhTransform(), T.AffineTransform(0.0, 2.0)], cache_size=1)
    assert composed.inv(composed(x)) is x
    with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
        T.ExpTransform(2)


def test_the_inverse_of_the_inverse_is_the_transform():
    transform = T.ExpTransform()
    inverse = transform.inv
    assert inverse.inv is transform and transform.inv is inverse
    assert inverse == T.ExpTransform().inv and inverse != transform
    del inverse
    gc.collect()
    assert transform._inv() is None  # the transform does not keep it
    assert transform.inv.bijective and transform.inv.sign == 1
    composed = T.ComposeTransform([transform, T.AffineTransform(0.0, 2.0)])
    assert composed.inv.inv is composed


def test_equality():
    assert T.ExpTransform() == T.ExpTransform() and T.ExpTransform() != T.TanhTransform()
    assert T.AffineTransform(1.0, 2.0) == T.AffineTransform(torch.tensor(1.0), 2.0)
    assert T.AffineTransform(1.0, 2.0) != T.AffineTransform(1.0, 3.0)
    assert T.PowerTransform(2.0) == T.PowerTransform(torch.tensor(2.0))
    assert T.ComposeTransform([T.ExpTransform()]) == T.ComposeTransform([T.ExpTransform()])
    with pytest.raises(TypeError, match="unhashable"):
        hash(T.ExpTransform())


def test_signs():
    assert T.AffineTransform(0.0, -2.0).sign == -1
    assert T.AffineTransform(0.0, torch.tensor([-2.0, 3.0])).sign.tolist() == [-1.0, 1.0]
    both = [T.AffineTransform(0.0, -2.0), T.AffineTransform(1.0, -1.0)]
    assert T.ComposeTransform(both).sign == 1
    with pytest.raises(NotImplementedError):
        T.AbsTransform().sign


def test_a_decreasing_transform_turns_the_cdf():
    d = D.TransformedDistribution(D.Normal(0.0, 1.0), [T.AffineTransform(0.0, -2.0)])
    x = torch.tensor([-1.0, 0.5])
    assert torch.allclose(d.cdf(x), D.Normal(0.0, 2.0).cdf(x), atol=1e-6)
    assert torch.allclose(d.icdf(d.cdf(x)), x, atol=1e-5)


def test_transforms_of_vectors_make_events():
    base = D.Normal(torch.zeros(2, 3), 1.0)
    d = D.TransformedDistribution(base, [T.StickBreakingTransform()])
    assert (
        d.batch_shape == (2,) and d.event_shape == (4,) and isinstance(d.base_dist, D.Independent)
    )
    assert d.log_prob(d.sample((5,))).shape == (5, 2)
    wider = D.TransformedDistribution(D.Normal(0.0, 1.0), [T.AffineTransform(torch.zeros(3), 1.0)])
    assert wider.batch_shape == (3,) and wider.sample().shape == (3,)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: T.ReshapeTransform((2,), (3,)), ValueError, "different numbers of elements"),
        (
            lambda: T.ReshapeTransform((2,), (1, 2)).forward_shape((3,)),
            ValueError,
            r"Shape mismatch: expected \(3,\) but got torch.Size\(\[2\]\)",
        ),
        (
            lambda: T.IndependentTransform(T.ExpTransform(), 1)(torch.tensor(1.0)),
            ValueError,
            "Too few dimensions on input",
        ),
        (
            lambda: T.CorrCholeskyTransform().forward_shape((4,)),
            ValueError,
            "Input is not a flattened lower-diagonal number",
        ),
        (lambda: T.CorrCholeskyTransform().inverse_shape((4, 3)), ValueError, "not square"),
        (lambda: T.CorrCholeskyTransform().event_dim, ValueError, "domain.event_dim or"),
        (lambda: T.CatTransform([3]), AssertionError, "must be Transform instances"),
        (lambda: T.Transform()(torch.tensor(1.0)), NotImplementedError, ""),
        (lambda: biject_to(constraints.lower_cholesky), NotImplementedError, "Cannot transform"),
        (lambda: transform_to(constraints.boolean), NotImplementedError, "_Boolean constraints"),
        (lambda: transform_to.register(3, None)(lambda c: c), TypeError, "Expected constraint to"),
    ],
)
def test_what_is_refused(build, error, message):
    with pytest.raises(error, match=message or None):
        build()


SETS = (
    "real positive nonnegative unit_interval simplex corr_cholesky greater_than(2.0) "
    "less_than(2.0) interval(2.0,5.0) half_open_interval(0.0,2.0) independent(positive,1) "
    "cat([positive,real,unit_interval],-1) stack([positive,real,unit_interval],-1)"
).split()


@pytest.mark.parametrize("registry", [biject_to, transform_to])
@pytest.mark.parametrize("expression", SETS)
def test_registered_transforms_end_in_their_sets(registry, expression):
    constraint = eval(expression, dict(vars(constraints)))
    x = torch.linspace(-2.0, 2.0, 12).reshape(4, 3)
    transform = registry(constraint)
    y = transform(x)
    assert constraint.check(y).all()
    assert transform.codomain.event_dim >= constraint.event_dim
    if registry is biject_to:
        assert transform.bijective and torch.allclose(transform.inv(y), x, atol=1e-4)
        assert transform.log_abs_det_jacobian(x, y).isfinite().all()


@pytest.mark.parametrize("name", ["lower_cholesky", "positive_definite", "positive_semidefinite"])
def test_registered_transforms_of_matrices(name):
    constraint = getattr(constraints, name)
    x = torch.linspace(-1.0, 1.0, 18).reshape(2, 3, 3)
    assert constraint.check(transform_to(constraint)(x)).all()


def test_a_constraint_of_ones_own():
    class Even(constraints.Constraint):
        """Even numbers."""

        is_discrete = True

        def check(self, value):
            return value % 2 == 0

    @biject_to.register(Even)
    def _(constraint):
        return T.AffineTransform(0, 2)

    assert biject_to(Even())(torch.tensor(3)).item() == 6
    assert Even().check(torch.tensor([2, 3])).tolist() == [True, False]
    assert repr(constraints.independent(Even(), 1)) == "IndependentConstraint(Even(), 1)"


def test_dependent_properties():
    assert D.Uniform.support.event_dim == 0 and not D.Uniform.support.is_discrete
    assert constraints.is_dependent(D.Uniform.support)
    assert not constraints.is_dependent(D.Uniform(0.0, 1.0).support)
    with pytest.raises(ValueError, match="Cannot determine validity of dependent constraint"):
        constraints.dependent.check(1)
    with pytest.raises(NotImplementedError, match="event_dim cannot be determined statically"):
        constraints.dependent.event_dim
    known = constraints.dependent(is_discrete=True, event_dim=2)
    assert known.is_discrete and known.event_dim == 2

    class Mine(D.Distribution):
        """With a support that depends on its parameters."""

        arg_constraints = {}

        @constraints.dependent_property(is_discrete=False, event_dim=1)
        def support(self):
            """Numbers above 0."""
            return constraints.positive

    assert Mine.support.event_dim == 1 and Mine().support is constraints.positive


def test_stable_at_the_ends():
    x = torch.tensor([-200.0, 200.0])
    assert T.SigmoidTransform()(x).log().isfinite().all()
    assert T.TanhTransform().log_abs_det_jacobian(x, x.tanh()).tolist() == pytest.approx(
        [2 * (math.log(2) - 200)] * 2
    )
    assert T.StickBreakingTransform()(x).isfinite().all()
