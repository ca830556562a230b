"""Machines with and without GPUs."""

import pytest

import ember
from ember.backends import base


@pytest.fixture
def gpus():
    """Two GPUs, simulated unless there are real ones."""
    if not ember.cuda.is_available():
        ember.cuda.simulate(2)
    if ember.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")


@pytest.fixture
def no_gpus(monkeypatch):
    """A machine without GPUs, real or simulated."""
    for table in ("_providers", "_backends"):
        rest = {kind: value for kind, value in getattr(base, table).items() if kind != "cuda"}
        monkeypatch.setattr(base, table, rest)
