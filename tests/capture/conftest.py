"""Programs are ready with the call that is recorded, so that what a test does is what it says."""

import pytest

from ember.capture.background import background


@pytest.fixture(autouse=True)
def programs_at_once(monkeypatch):
    monkeypatch.setattr(background, "at_once", True)
