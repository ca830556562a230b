"""torch.hub: local folders, and files from (local) URLs with their hash."""

import hashlib

import pytest

import ember as torch
from ember import hub

CONF = '''
dependencies = ["torch", "numpy"]


def scaled(factor, offset=0):
    """A module that multiplies."""
    return ("made", factor, offset)


def _private():
    pass
'''


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "hubconf.py").write_text(CONF)
    return str(tmp_path)


def test_local_folders(repository):
    assert hub.load(repository, "scaled", 3, source="local", offset=1) == ("made", 3, 1)
    assert hub.list(repository) == ["scaled"]
    assert hub.help(repository, "scaled") == "A module that multiplies."


def test_what_is_missing_is_named(repository, tmp_path):
    with pytest.raises(RuntimeError, match="Cannot find callable other in hubconf"):
        hub.load(repository, "other", source="local")
    with pytest.raises(ValueError, match='Unknown source: "web"'):
        hub.load(repository, "scaled", source="web")
    with pytest.raises(NotImplementedError, match='source="local"'):
        hub.load("pytorch/vision", "resnet18")
    (tmp_path / "hubconf.py").write_text("dependencies = ['no_such_package']\n" + "x = abs\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package"):
        hub.load(repository, "x", source="local")


def test_weights_from_a_url(tmp_path):
    torch.save({"w": torch.arange(3)}, tmp_path / "w.pt")
    digest = hashlib.sha256((tmp_path / "w.pt").read_bytes()).hexdigest()
    source = tmp_path / f"model-{digest[:8]}.pt"
    (tmp_path / "w.pt").rename(source)
    folder = tmp_path / "cache"
    found = hub.load_state_dict_from_url(
        source.as_uri(), str(folder), progress=False, check_hash=True
    )
    assert found["w"].tolist() == [0, 1, 2] and (folder / source.name).exists()
    source.unlink()
    again = hub.load_state_dict_from_url(source.as_uri(), str(folder), weights_only=True)
    assert again["w"].tolist() == [0, 1, 2]


def test_a_wrong_hash_leaves_nothing(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    target = tmp_path / "out"
    with pytest.raises(RuntimeError, match='invalid hash value .expected "0000", got "ba7816bf'):
        hub.download_url_to_file((tmp_path / "file").as_uri(), str(target), "0000", progress=False)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    hub.download_url_to_file((tmp_path / "file").as_uri(), str(target), "ba7816bf", progress=False)
    assert target.read_bytes() == b"abc"


def test_folders(monkeypatch, tmp_path):
    monkeypatch.setattr(hub, "_hub_dir", [None])
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert hub.get_dir() == str(tmp_path / "hub")
    hub.set_dir(tmp_path / "other")
    assert hub.get_dir() == str(tmp_path / "other")
