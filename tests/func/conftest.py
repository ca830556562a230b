"""The tests here run as they stand on Ember and, where it is installed, on PyTorch itself."""

import pytest


@pytest.fixture(params=["ember", pytest.param("torch", marks=pytest.mark.oracle)])
def torch(request):
    """The framework under test: a test's right values hold for both, so none is an opinion."""
    return pytest.importorskip(request.param)
