"""The error for a missing name says what comes close, and costs nothing until it is read."""

import pickle

import pytest

from ember.missing import closest, missing_attribute


def test_message_names_the_closest():
    error = missing_attribute("torch", "zeross", lambda: ["zeros", "zeros_like", "_zeros", "mm"])
    text = str(error)
    assert text.startswith("module 'torch' has no attribute 'zeross' in Ember ")
    assert text.endswith("; the closest names: torch.zeros, torch.zeros_like")
    assert isinstance(error, AttributeError) and error.name == "zeross"


def test_names_are_looked_up_only_when_the_message_is_read():
    def explode():
        raise AssertionError("looked up too early")

    error = missing_attribute("torch", "zeross", explode)
    with pytest.raises(AssertionError, match="too early"):
        str(error)


def test_nothing_close_and_dunders():
    assert "closest" not in str(missing_attribute("torch", "qqqq", lambda: ["zeros"]))
    dunder = missing_attribute("torch", "__wrapped__", lambda: ["wrapped"])
    assert str(dunder) == "module 'torch' has no attribute '__wrapped__'"


def test_error_pickles_with_its_text():
    error = missing_attribute("torch", "zeross", lambda: ["zeros"])
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is AttributeError and str(copied) == str(error)


def test_case_does_not_matter():
    assert closest("floattensor", ["FloatTensor", "IntTensor"])[0] == "FloatTensor"
