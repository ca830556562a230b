"""Where loaded tensors go: every form of map_location, with GPUs and without."""

import io
import subprocess
import sys

import pytest

import ember as torch
from ember.serialization import location


def saved(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return file


FORMS = [
    None,
    "cpu",
    torch.device("cpu"),
    b"cpu",
    {"cpu": "cpu"},
    {"cuda:0": "cpu"},
    {torch.device("cpu"): torch.device("cpu")},
    lambda storage, place: storage,
    lambda storage, place: None,
    lambda storage, place: storage.cpu(),
]


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_forms_that_mean_the_cpu(form, legacy):
    file = saved(torch.arange(3), _use_new_zipfile_serialization=not legacy)
    found = torch.load(file, map_location=form)
    assert found.device == torch.device("cpu") and found.tolist() == [0, 1, 2]


@pytest.mark.parametrize("form", ["meta", torch.device("meta"), {"cpu": "meta"}])
def test_meta(form):
    found = torch.load(saved(torch.ones(2, 3)), map_location=form)
    assert found.device.type == "meta" and found.shape == (2, 3)


def test_what_a_function_is_given():
    seen = []

    def look(storage, place):
        seen.append((type(storage), storage.nbytes(), str(storage.device), place))

    torch.load(saved([torch.arange(3), torch.ones(2)]), map_location=look)
    storage = torch.UntypedStorage
    assert seen == [(storage, 24, "cpu", "cpu"), (storage, 8, "cpu", "cpu")]


def test_what_a_function_may_not_give():
    with pytest.raises(TypeError, match="map_location has to return a storage"):
        torch.load(saved(torch.ones(1)), map_location=lambda storage, place: "cpu")
    with pytest.raises(ZeroDivisionError):
        torch.load(saved(torch.ones(1)), map_location=lambda storage, place: 1 / 0)


def test_places_that_do_not_exist():
    with pytest.raises(RuntimeError, match="don't know how to restore.*tagged with tape"):
        torch.load(saved(torch.ones(1)), map_location="tape")
    with pytest.raises(RuntimeError, match="tagged with tape"):
        torch.load(saved(torch.ones(1)), map_location={"cpu": "tape"})


def test_places_that_users_add(monkeypatch):
    monkeypatch.setattr(location, "_packages", [])
    tape = []

    def tagger(storage):
        return "tape" if any(storage is kept for kept in tape) else None

    def restore(storage, place):
        if place == "tape":
            tape.append(storage)
            return storage
        return None

    torch.serialization.register_package(1, tagger, restore)
    tensor = torch.arange(2)
    tape.append(tensor.untyped_storage())
    file = saved(tensor)
    found = torch.load(file)
    assert found.tolist() == [0, 1] and found.untyped_storage() is tape[-1]
    assert len(tape) == 2


GPUS = """
import io
import pickle
import ember as torch

assert torch.cuda.device_count() == 2

def saved(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return file

for legacy in (False, True):
    options = {"_use_new_zipfile_serialization": not legacy}
    file = saved({"a": torch.tensor([1., 2.], device="cuda:1"), "b": torch.tensor([3])}, **options)

    def places(form=None):
        file.seek(0)
        found = torch.load(file, map_location=form)
        assert found["a"].tolist() == [1, 2] and found["b"].tolist() == [3]
        return str(found["a"].device), str(found["b"].device)

    assert places() == ("cuda:1", "cpu")
    assert places("cpu") == ("cpu", "cpu")
    assert places("cuda") == places(torch.device("cuda:0")) == ("cuda:0", "cuda:0")
    assert places({"cuda:1": "cuda:0"}) == ("cuda:0", "cpu")
    assert places({"cuda:7": "cuda:0"}) == ("cuda:1", "cpu")
    assert places(lambda storage, place: storage) == ("cpu", "cpu")
    assert places(lambda storage, place: storage.cuda(0)) == ("cuda:0", "cuda:0")
    try:
        places("cuda:5")
    except RuntimeError as error:
        message = str(error)
    assert "CUDA device 5 but torch.cuda.device_count() is 2" in message, message
    assert "map_location" in message

base = torch.arange(4., device="cuda:1")
found = torch.load(saved([base, base[1:]]))
found[0][1] = 9
assert found[1].tolist() == [9, 2, 3] and str(found[1].device) == "cuda:1"
copied = pickle.loads(pickle.dumps(base))
assert copied.tolist() == [0, 1, 2, 3] and str(copied.device) == "cuda:1"
storage = base.untyped_storage()
assert storage.is_cuda and storage.cpu().tolist() == storage.tolist() and len(storage) == 16
assert torch.save(base, "/dev/null") is None
"""


def run(program, *options):
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, env=_environment(*options))


def _environment(gpus=None):
    import os

    environment = {k: v for k, v in os.environ.items() if k != "EMBER_SIMULATE_GPUS"}
    return environment | ({"EMBER_SIMULATE_GPUS": gpus} if gpus else {})


def test_with_two_gpus():
    done = run(GPUS, "2")
    assert done.returncode == 0, done.stderr


MISSING = """
import io, sys
import ember as torch
try:
    torch.load(sys.argv[1])
except RuntimeError as error:
    assert "Attempting to deserialize object on a CUDA device" in str(error), error
    assert "map_location=torch.device('cpu')" in str(error)
else:
    raise AssertionError("no error")
assert torch.load(sys.argv[1], map_location="cpu").tolist() == [1, 2]
"""


def test_a_file_of_a_gpu_where_there_is_none(tmp_path):
    path = str(tmp_path / "gpu.pt")
    program = f"import ember as t; t.cuda.init(); t.save(t.tensor([1, 2], device='cuda'), {path!r})"
    done = run(program, "1")
    assert done.returncode == 0, done.stderr
    command = [sys.executable, "-c", MISSING, path]
    done = subprocess.run(command, capture_output=True, text=True, env=_environment())
    assert done.returncode == 0, done.stderr
