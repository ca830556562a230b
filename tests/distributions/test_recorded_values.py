"""Every distribution, divergence, transform and constraint against values recorded from PyTorch."""

import json
import warnings

import pytest

import ember
from ember.distributions import constraints
from tests.distributions.distribution_cases import (
    CASES,
    CONSTRAINTS,
    NOT_PYTORCHS,
    RECORDED,
    TRANSFORMS,
    checked,
    describe,
    divergence,
    gradients,
    pairs,
    record,
    transformed,
)

KEYS = {kind: list(named) for kind, named in json.loads(RECORDED.read_text()).items()}


def assert_near(mine, theirs, tolerance=2e-5, where=""):
    """Equal, or equal tensors within a tolerance, part by part."""
    if isinstance(theirs, dict):
        assert list(mine) == list(theirs), where
        for key, value in theirs.items():
            assert_near(mine[key], value, tolerance, f"{where} {key}")
    elif isinstance(theirs, list):
        assert isinstance(mine, list) and len(mine) == len(theirs), (where, mine, theirs)
        for one, other in zip(mine, theirs):
            assert_near(one, other, tolerance, where)
    elif isinstance(theirs, float):
        assert mine == pytest.approx(theirs, abs=tolerance, rel=tolerance, nan_ok=True), where
    else:
        assert mine == theirs, where


def comparable(name, values):
    left_out = NOT_PYTORCHS.get(name, ())
    return {key: value for key, value in values.items() if key not in left_out}


@pytest.mark.parametrize("name", CASES)
def test_distributions(name, recorded):
    """Moments, densities, draws of the same seed, repr, expand."""
    wanted = recorded["cases"][name]
    found = describe(ember, name, wanted["sample"])
    assert_near(comparable(name, found), comparable(name, wanted), where=name)


@pytest.mark.parametrize("key", KEYS["gradients"])
def test_gradients(key, recorded):
    name, what = key.split(": ")
    if what in NOT_PYTORCHS.get(name, ()):
        pytest.skip("other draws")
    found = gradients(ember, name, what, recorded["cases"][name]["sample"])
    assert_near(found, recorded["gradients"][key], 5e-4, key)


def test_all_pairs_have_a_divergence():
    assert [f"{p} {q}" for p, q in pairs(ember)] == KEYS["divergences"]


@pytest.mark.parametrize("pair", KEYS["divergences"])
def test_divergences(pair, recorded):
    assert_near(divergence(ember, *pair.split()), recorded["divergences"][pair], 1e-4, pair)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name, recorded):
    assert_near(transformed(ember, name), recorded["transforms"][name], 1e-4, name)


@pytest.mark.parametrize("expression", CONSTRAINTS)
def test_constraints(expression, recorded):
    assert_near(checked(ember, expression), recorded["constraints"][expression], 0, expression)


def test_every_constraint_is_checked():
    kinds = (constraints.Constraint, type)
    public = {name for name in constraints.__all__ if isinstance(getattr(constraints, name), kinds)}
    listed = {expression.partition("(")[0] for expression in CONSTRAINTS}
    assert public - listed == {"Constraint", "dependent", "dependent_property"}


@pytest.mark.oracle
def test_recorded_values_are_pytorchs(recorded):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of draws that are said to be singular
        found = json.loads(json.dumps(record(torch)))
    assert_near(found, recorded, 1e-5)


@pytest.mark.oracle
def test_live_values():
    torch = pytest.importorskip("torch")
    for name in CASES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = describe(torch, name, None)
        found = json.loads(json.dumps(describe(ember, name, wanted["sample"])))
        wanted = json.loads(json.dumps(wanted))
        assert_near(comparable(name, found), comparable(name, wanted), where=name)
