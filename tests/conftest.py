"""What all tests share."""

import pytest
from hypothesis import HealthCheck, settings

from ember.backends import base

# Right or wrong must not depend on how busy the machine is.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


@pytest.fixture
def no_gpus(monkeypatch):
    """A process without GPUs, even if an earlier test has simulated some."""
    for name in ("_backends", "_providers"):
        kept = {kind: it for kind, it in getattr(base, name).items() if kind != "cuda"}
        monkeypatch.setattr(base, name, kept)
    monkeypatch.setattr(base, "_looked", [True])
    monkeypatch.delenv("EMBER_SIMULATE_GPUS", raising=False)
