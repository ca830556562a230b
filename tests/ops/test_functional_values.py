"""The functions of `torch.nn.functional` against values recorded from PyTorch 2.13."""

import math

import pytest

import ember
from tests.ops.functional_cases import FAMILIES, recorded, run_case

CASES = [(family, name) for family, cases in FAMILIES.items() for name in cases]


def assert_same(found, wanted, tolerance):
    assert found["shapes"] == wanted["shapes"]
    for mine, theirs in zip(found["outputs"], wanted["outputs"], strict=True):
        assert_near(mine, theirs, tolerance)
    assert list(found["gradients"]) == list(wanted["gradients"])
    for name, theirs in wanted["gradients"].items():
        mine = found["gradients"][name]
        assert (mine is None) == (theirs is None), f"gradient of {name}"
        if theirs is not None:
            assert_near(mine, theirs, tolerance)


def assert_near(mine, theirs, tolerance):
    assert [x for x in mine if math.isinf(x)] == [x for x in theirs if math.isinf(x)]
    scale = max([abs(x) for x in theirs if math.isfinite(x)], default=1)
    assert mine == pytest.approx(theirs, abs=tolerance * max(scale, 1), rel=tolerance, nan_ok=True)


@pytest.fixture(scope="module")
def values():
    return recorded()


@pytest.mark.parametrize(("family", "name"), CASES)
def test_recorded_values(family, name, values):
    assert_same(run_case(ember, family, name), values[family][name], 3e-5)


@pytest.mark.oracle
@pytest.mark.parametrize(("family", "name"), CASES)
def test_live_values(family, name):
    torch = pytest.importorskip("torch")
    theirs = run_case(torch, family, name, "float64")
    assert_same(run_case(ember, family, name, "float64"), theirs, 2e-6)
