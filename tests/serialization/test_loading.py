"""Files that PyTorch wrote (data/, by record_files.py), read by Ember."""

import io
import pickle
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

import ember as torch
from ember.nn import Parameter

DATA = Path(__file__).parent / "data"
VALUES = {
    "base": ("float32", (2, 3), [[0, 1, 2], [3, 4, 5]]),
    "view": ("float32", (1, 2), [[3, 5]]),
    "parameter": ("float32", (2,), [1, -2]),
    "leaf": ("float32", (1,), [0.5]),
    "scalar": ("float32", (), 1.5),
    "empty": ("float32", (0, 3), []),
    "bool": ("bool", (2,), [True, False]),
    "uint8": ("uint8", (2,), [1, 255]),
    "int8": ("int8", (2,), [-1, 2]),
    "int16": ("int16", (1,), [-300]),
    "int32": ("int32", (1,), [70000]),
    "int64": ("int64", (1,), [2**40]),
    "float16": ("float16", (2,), [0.5, 2.0]),
    "bfloat16": ("bfloat16", (2,), [0.5, 3.0]),
    "float64": ("float64", (1,), [0.1]),
    "complex64": ("complex64", (1,), [1 + 2j]),
    "attribute": ("float32", (2,), [1, 1]),
}


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("name", ["archive.pt", "protocol4.pt", "legacy.pt"])
def test_everything_comes_back(name, weights_only):
    found = torch.load(DATA / name, weights_only=weights_only)
    for key, (dtype, shape, values) in VALUES.items():
        tensor = found[key]
        assert str(tensor.dtype) == f"torch.{dtype}" and tuple(tensor.shape) == shape, key
        assert tensor.tolist() == values, key
    assert found["size"] == torch.Size([2, 3]) and type(found["size"]) is torch.Size
    assert found["device"] == torch.device("cuda:1")
    assert found["dtype"] is torch.float16
    assert found["ordered"] == OrderedDict(a=1, b=[2, (3, None)])
    assert type(found["ordered"]) is OrderedDict
    plain = {"text": "é", "number": -(10**20), "set": {1}, "bytes": b"\x00a", "float": 0.25}
    assert found["plain"] == plain


@pytest.mark.parametrize("name", ["archive.pt", "legacy.pt"])
def test_views_share_memory_and_keep_their_layout(name):
    found = torch.load(DATA / name)
    view, base = found["view"], found["base"]
    assert view.stride() == (3, 2) and view.storage_offset() == 3
    assert view.untyped_storage() is base.untyped_storage()
    base[1, 2] = 9
    assert view.tolist() == [[3, 9]]


def test_what_tensors_know_of_gradients_and_of_users():
    found = torch.load(DATA / "archive.pt")
    assert type(found["parameter"]) is Parameter and found["parameter"].requires_grad
    assert type(found["leaf"]) is torch.Tensor and found["leaf"].requires_grad
    assert found["leaf"].is_leaf and not found["base"].requires_grad
    assert found["attribute"].label == "mine"


def test_dtypes_without_a_storage_class_and_meta():
    found = torch.load(DATA / "newer.pt")
    assert found["float8"].dtype is torch.float8_e5m2
    assert found["float8"].float().tolist() == [0.5, 2.0]
    assert found["uint16"].dtype is torch.uint16 and found["uint16"].tolist() == [1, 60000]
    assert found["meta"].device.type == "meta" and found["meta"].shape == (2, 3)


def test_a_training_state():
    found = torch.load(DATA / "trained.pt")
    assert found["epoch"] == 3
    assert found["model"]._metadata[""] == {"version": 1}
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters())
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert optimizer.state[model.weight]["step"].item() == 1
    exp_avg = optimizer.state[model.weight]["exp_avg"]
    np.testing.assert_allclose(exp_avg.numpy(), [[0.3, 0.3]], rtol=1e-6)
    np.testing.assert_allclose(model.bias.detach().numpy(), [-0.6820], atol=5e-5)


def test_a_whole_module():
    with pytest.raises(pickle.UnpicklingError, match="torch.nn.modules.container.Sequential"):
        torch.load(DATA / "module.pt")
    module = torch.load(DATA / "module.pt", weights_only=False)
    assert isinstance(module, torch.nn.Sequential) and isinstance(module[1], torch.nn.Tanh)
    wanted = [-0.436405211687088, -0.3841913342475891]
    np.testing.assert_allclose(module(torch.ones(1)).detach().numpy(), wanted, rtol=1e-6)


def test_a_generator_continues():
    generator = torch.load(DATA / "generator.pt", weights_only=False)
    assert generator.initial_seed() == 3
    wanted = [0.004263520240783691, 0.10556936264038086]
    assert torch.rand(2, generator=generator).tolist() == wanted


def test_a_storage():
    storage = torch.load(DATA / "storage.pt")
    assert isinstance(storage, torch.FloatStorage) and storage.tolist() == [0, 1, 2, 3]


def test_paths_and_files():
    assert torch.load(str(DATA / "storage.pt")).size() == 4
    with open(DATA / "storage.pt", "rb") as file:
        assert torch.load(file).size() == 4
    content = (DATA / "storage.pt").read_bytes()
    behind = io.BytesIO(b"12345" + content)
    behind.seek(5)
    assert torch.load(behind).size() == 4


def test_mapping_a_file(tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"a": torch.arange(3), "b": torch.ones(2, dtype=torch.float64)}, path)
    before = path.read_bytes()
    found = torch.load(path, mmap=True)
    assert found["a"].tolist() == [0, 1, 2] and found["b"].tolist() == [1, 1]
    found["a"][0] = 7
    assert found["a"].tolist() == [7, 1, 2]
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match="f must be a file path"):
        torch.load(io.BytesIO(before), mmap=True)
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        torch.load(DATA / "legacy.pt", mmap=True)


def test_numbers_of_the_other_byte_order():
    file = io.BytesIO()
    torch.save([torch.tensor([1, 256], dtype=torch.int32), torch.tensor([1 + 2j])], file)
    source, target = zipfile.ZipFile(file), io.BytesIO()
    replaced = {
        "archive/data/0": np.array([1, 256], ">i4").tobytes(),
        "archive/data/1": np.array([1 + 2j], ">c8").tobytes(),
        "archive/byteorder": b"big",
    }
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            archive.writestr(name, replaced.get(name, source.read(name)))
    target.seek(0)
    found = torch.load(target)
    assert found[0].tolist() == [1, 256] and found[1].tolist() == [1 + 2j]


def test_an_archive_that_was_compressed():
    file = io.BytesIO()
    torch.save(torch.arange(1000), file)
    source, target = zipfile.ZipFile(file), io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in source.namelist():
            archive.writestr(name, source.read(name))
    target.seek(0)
    assert torch.load(target).sum().item() == 499500


PLAIN = """
import pickle, sys
import ember
ember.torch_alias.install()
with open(sys.argv[1], "rb") as file:
    numbers, parameter, named = pickle.load(file)
assert numbers.tolist() == [0, 1, 2] and type(numbers) is ember.Tensor
assert type(parameter) is ember.nn.Parameter and parameter.tolist() == [1, 1]
assert named.label == "mine" and named.tolist() == [1, 1]
"""


def test_plain_pickles_of_pytorch_are_read_under_its_name():
    command = [sys.executable, "-c", PLAIN, str(DATA / "plain.pkl")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
