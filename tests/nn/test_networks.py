"""Convolution, pooling, recurrent and transformer modules against values recorded from PyTorch."""

import json

import pytest

import ember
from tests.nn.network_cases import CASES, RECORDED, run_case


def assert_same(found, wanted, tolerance):
    for part in ("repr", "parameters", "shapes"):
        assert found[part] == wanted[part]
    for mine, theirs in zip(found["outputs"], wanted["outputs"], strict=True):
        assert mine == pytest.approx(theirs, abs=tolerance, rel=tolerance)
    for mine, theirs in zip(found["gradients"], wanted["gradients"], strict=True):
        assert (mine is None) == (theirs is None)
        if theirs is not None:
            assert mine == pytest.approx(theirs, abs=tolerance, rel=tolerance)


@pytest.fixture(scope="module")
def recorded():
    return json.loads(RECORDED.read_text())


@pytest.mark.parametrize("name", CASES)
def test_recorded_values(name, recorded):
    assert_same(run_case(ember, name), recorded[name], 5e-5)


@pytest.mark.oracle
@pytest.mark.parametrize("name", CASES)
def test_live_values(name):
    torch = pytest.importorskip("torch")
    assert_same(run_case(ember, name, "float64"), run_case(torch, name, "float64"), 1e-6)
