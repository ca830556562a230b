"""The tool that writes docs/compatibility.md: how it sorts names, and what it refuses."""

import importlib.util
import sys
import types
from pathlib import Path

import pytest

from ember.missing import missing_attribute

PATH = Path(__file__).parent.parent / "tools" / "compatibility.py"


@pytest.fixture
def tool(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("compatibility_under_test", PATH)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "NOTES", tmp_path / "notes.txt")
    monkeypatch.setattr(module, "USED", tmp_path / "used.txt")
    module.USED.write_text("# names of 7 packages\ntorch.place.here 6\ntorch.place.later 2\n")
    return module


def place():
    """A module with a name, one that is left out with a reason, and others that are missing."""
    module = types.ModuleType("torch.place")
    module.here = module.half = 1

    def missing(name):
        if name == "graph":
            return AttributeError("torch.place has no graph in Ember: draw it by hand")
        return missing_attribute("torch.place", name, lambda: ["here"])

    def ask(name):
        raise missing(name)

    module.__getattr__ = ask
    return module


def has(module, name):
    return hasattr(module, name)


NOTES = """
# a remark
torch.place.half | part | only the left one
torch.place.in* | out | there are none
"""


def test_names_are_sorted_out(tool):
    tool.NOTES.write_text(NOTES)
    names = ["here", "half", "graph", "int3", "later"]
    used = set()
    found = tool.sorted_out("torch.place", names, place(), has, tool.read_notes(), used)
    assert found == {
        "there": {"here": ""},
        "partly": {"half": "only the left one"},
        "left out": {"graph": "draw it by hand", "int3": "there are none"},
        "not yet": {"later": ""},
    }
    assert used == {"torch.place.half", "torch.place.in*"}


def test_the_page(tool):
    tool.NOTES.write_text(NOTES)
    recorded = {"torch.place": ["here", "half", "int3", "int4", "later"], "torch.empty": []}
    text = tool.page("2.0", recorded, lambda namespace: place(), has)
    assert "In all: 2 of 5 (40%), 2 left out." in text
    assert "Of the 2 names that 7 packages on PyPI use, 1 are there" in text
    assert "75.0% of the uses" in text and "`torch.place.later` (2)" in text
    assert "| `torch.place` | 1 | 1 | 2 | 1 | 5 |" in text and "torch.empty" not in text
    assert "- `int3`, `int4`: there are none\n" in text and "**Not yet**: `later`\n" in text


def test_a_namespace_that_is_not_there(tool):
    tool.NOTES.write_text("")
    found = tool.sorted_out("torch.gone", ["a"], None, has, [], set())
    assert found["not yet"] == {"a": ""}


def test_notes_are_held_to_names(tool):
    tool.NOTES.write_text("torch.place.none | out | why\n")
    with pytest.raises(ValueError, match=r"no name of PyTorch matches torch\.place\.none"):
        tool.page("2.0", {"torch.place": ["here"]}, lambda namespace: place(), has)
    tool.NOTES.write_text("torch.place.none | gone | why\n")
    with pytest.raises(ValueError, match="is out or part, not 'gone'"):
        tool.read_notes()
