"""Derivatives of formulas against differences: primitives, compositions, row programs."""

import numpy as np
import pytest

from ember.scalar import primitives as p
from ember.scalar.diff import adjoint, has_rows, tangent
from ember.scalar.evaluate import compile_numpy
from ember.scalar.expr import const, make, topological, var
from ember.scalar.primitives import TABLE

ANYWHERE = np.array([-2.3, -1.1, -0.4, 0.3, 0.9, 1.7])
POSITIVE = np.array([0.2, 0.6, 1.1, 1.9, 3.2, 4.7])
BETWEEN = np.array([-0.9, -0.5, -0.1, 0.2, 0.6, 0.85])
FRACTION = np.array([0.05, 0.2, 0.4, 0.6, 0.8, 0.95])
ABOVE_ONE = POSITIVE + 1

DOMAIN = {
    **{key: [POSITIVE] for key in ("sqrt", "rsqrt", "log", "log2", "log10", "lgamma", "digamma")},
    **{key: [BETWEEN] for key in ("asin", "acos", "atanh", "erfinv")},
    "log1p": [POSITIVE - 0.9],
    "acosh": [ABOVE_ONE],
    "ndtri": [FRACTION],
    "pow": [POSITIVE, ANYWHERE[::-1]],
    "atan2": [ANYWHERE, POSITIVE],
    "hypot": [ANYWHERE, POSITIVE],
    "polygamma": [np.array([0.0, 1.0, 2.0, 1.0, 0.0, 3.0]), POSITIVE],
    "zeta": [ABOVE_ONE + 1, POSITIVE],
    "igamma": [POSITIVE, POSITIVE[::-1]],
    "igammac": [POSITIVE, POSITIVE[::-1]],
}
TWO_ARGUMENTS = (
    "add sub mul div remainder fmod copysign pow atan2 hypot maximum minimum fmax fmin polygamma "
    "zeta igamma igammac"
).split()
DIFFERENTIABLE = sorted(name for name, row in TABLE.items() if row.partials and name != "conj")


def values_of(name):
    if name in DOMAIN:
        return DOMAIN[name]
    return [ANYWHERE, POSITIVE + 0.05] if name in TWO_ARGUMENTS else [ANYWHERE]


def differences(function, values, which, step=1e-6):
    moved = [list(values), list(values)]
    moved[0][which], moved[1][which] = values[which] + step, values[which] - step
    return (function(*moved[0]) - function(*moved[1])) / (2 * step)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_primitives_against_finite_differences(name):
    values = values_of(name)
    names = ["x", "z"][: len(values)]
    root = make(name, *map(var, names))
    function = compile_numpy((root,), names, np.float64)
    skipped = TABLE[name].partials(*map(var, names), root)
    for which, variable in enumerate(names):
        derived = tangent(root, variable, const(1.0))
        if derived is None:
            assert skipped[which] is None
            continue
        found = compile_numpy((derived,), names, np.float64)(*values) * np.ones(6)
        np.testing.assert_allclose(found, differences(function, values, which), 2e-5, 2e-7)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_second_derivatives_against_finite_differences(name):
    values = values_of(name)
    names = ["x", "z"][: len(values)]
    for which, variable in enumerate(names):
        first = tangent(make(name, *map(var, names)), variable, const(1.0))
        second = None if first is None else tangent(first, variable, const(1.0))
        if second is None:
            continue
        function = compile_numpy((first,), names, np.float64)
        found = compile_numpy((second,), names, np.float64)(*values) * np.ones(6)
        np.testing.assert_allclose(found, differences(function, values, which), 1e-4, 1e-5)


def test_primitives_without_derivatives_have_none():
    x, z = var("x"), var("z")
    for name in ("floor", "sign", "round", "trunc", "isnan", "bitwise_not", "logical_not"):
        assert tangent(make(name, x), "x", const(1.0)) is None
    for name in ("eq", "lt", "floor_divide", "nextafter"):
        assert tangent(make(name, x, z), "x", const(1.0)) is None
    assert tangent(p.stop(x) * 2, "x", const(1.0)) is None
    assert tangent(z * 2, "x", const(1.0)) is None


def evaluate(root, **values):
    names = sorted(values)
    with np.errstate(all="ignore"):
        return compile_numpy((root,), names, np.float64)(*(values[n] for n in names))


def test_tangents_keep_where_outermost():
    """The branch that is not taken may have an infinite slope: it must not reach the result."""
    x = var("x")
    zero = np.zeros(1)
    for root in (
        p.where(x > 0, p.sqrt(x), 0),
        p.where(x > 0, p.log(x), x),
        p.where(x > 0, p.where(x > 1, p.rsqrt(x - 1), 1 / x), x * 2),
        3 * p.where(x > 0, p.sqrt(x), 0),
    ):
        found = tangent(root, "x", var("g"))
        assert np.isfinite(evaluate(found, x=zero, g=np.ones(1))).all(), root
    assert tangent(p.where(x > 0, p.sqrt(x), 0), "x", var("g")).op == "where"


def test_tangents_of_a_quotient_divide_the_seed():
    """g / b, not g * (1 / b): one rounding, as PyTorch has it."""
    found = tangent(var("a") / var("b"), "a", var("g"))
    assert repr(found) == "div(g, b)"


def test_constants_of_shared_parts():
    x = var("x")
    y = p.exp(x)
    found = tangent(y * y + y, "x", const(1.0))
    assert sum(node.op == "exp" for node in topological([found])) == 1
    at = np.array([0.3])
    np.testing.assert_allclose(evaluate(found, x=at), 2 * np.exp(0.6) + np.exp(0.3))


def shifted(x):
    return p.exp(x - p.stop(p.row_max(x)))


ROWS = {
    "sum": lambda x: p.row_sum(x),
    "mean": lambda x: p.row_mean(x * x),
    "softmax": lambda x: shifted(x) / p.row_sum(shifted(x)),
    "log_softmax": lambda x: x - p.log(p.row_sum(p.exp(x))),
    "layer_norm": lambda x: (
        (x - p.row_mean(x)) * p.rsqrt(p.row_mean((x - p.row_mean(x)) * (x - p.row_mean(x))) + 1e-5)
    ),
    "rms_norm": lambda x: x * p.rsqrt(p.row_mean(x * x) + 1e-5),
    "max": lambda x: p.row_max(x) * x,
    "logsumexp": lambda x: p.log(p.row_sum(p.exp(x - p.row_max(x)))) + p.row_max(x),
    "variance": lambda x: p.row_mean(x * x) - p.row_mean(x) * p.row_mean(x),
    "choice": lambda x: p.where(x > p.row_mean(x), x * x, 0),
    "nested": lambda x: p.row_sum(x * p.row_sum(x)),
    "normalized": lambda x: x / p.sqrt(p.row_sum(x * x)),
}


@pytest.mark.parametrize("name", ROWS)
def test_row_programs_against_finite_differences(name):
    rng = np.random.default_rng(3)
    x, weights = rng.normal(size=(2, 4)), rng.normal(size=(2, 4))
    root = ROWS[name](var("x"))
    assert has_rows(root)
    function = compile_numpy((root,), ["x"], np.float64, (1,))
    per_row = function(x).shape == (2, 1)
    seed = weights[:, :1] if per_row else weights
    derived = adjoint(root, ["x"], var("g"))["x"]
    found = compile_numpy((derived,), ["x", "g"], np.float64, (1,))(x, seed) * np.ones_like(x)
    expected = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[at] = 1e-6
        expected[at] = ((function(x + step) - function(x - step)) * seed).sum() / 2e-6
    np.testing.assert_allclose(found, expected, 1e-5, 1e-7)


def test_row_programs_of_two_variables():
    rng = np.random.default_rng(4)
    x, w = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    root = p.row_sum(var("x") * var("w")) * var("w")
    gradients = adjoint(root, ["x", "w"], const(1.0))
    function = compile_numpy((root,), ["x", "w"], np.float64, (1,))
    for which, name in enumerate(("x", "w")):
        names = ["x", "w"]
        found = compile_numpy((gradients[name],), names, np.float64, (1,))(x, w) * np.ones((2, 3))
        for at in np.ndindex(2, 3):
            step = np.zeros((2, 3))
            step[at] = 1e-6
            up = [x + step, w] if which == 0 else [x, w + step]
            down = [x - step, w] if which == 0 else [x, w - step]
            slope = (function(*up) - function(*down)).sum() / 2e-6
            assert found[at] == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_the_greatest_shares_its_gradient_among_equals():
    x = np.array([[1.0, 3.0, 3.0]])
    derived = adjoint(p.row_max(var("x")), ["x"], var("g"))["x"]
    found = compile_numpy((derived,), ["x", "g"], np.float64, (1,))(x, np.array([[6.0]]))
    assert found.tolist() == [[0, 3, 3]]
