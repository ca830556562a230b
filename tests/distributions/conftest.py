"""Values recorded from PyTorch 2.13."""

import json

import pytest

from tests.distributions.distribution_cases import RECORDED


@pytest.fixture(scope="session")
def recorded():
    """By kind and name."""
    return json.loads(RECORDED.read_text())
