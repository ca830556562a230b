"""The tests here run as they stand on Ember and, where it is installed, on PyTorch itself."""

import pytest

import ember


@pytest.fixture(params=["ember", pytest.param("torch", marks=pytest.mark.oracle)])
def torch(request):
    """The framework under test: a test's right values hold for both, so none is an opinion."""
    return pytest.importorskip(request.param)


@pytest.fixture
def gpus():
    """Two GPUs, simulated unless there are real ones."""
    if not ember.cuda.is_available():
        ember.cuda.simulate(2)
    if ember.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
