"""TorchScript archives that PyTorch wrote, read and run; what they give was recorded with it."""

import copy
import io
import json
import zipfile
from pathlib import Path

import pytest

import ember as torch
from ember.jit.loaded import LoadedModule

FOLDER = Path(__file__).parent / "data"
VALUES = json.loads((FOLDER / "values.json").read_text())


def image():
    return torch.linspace(-1, 1, 2 * 64).view(2, 1, 8, 8)


INDEX = [[1, 2], [3, 4]]


def same(found, wanted):
    """Whether nested results are equal, tensors within float32's precision."""
    if isinstance(found, torch.Tensor):
        expected = torch.tensor(wanted, dtype=found.dtype)
        assert found.shape == expected.shape
        assert torch.allclose(found, expected, rtol=1e-5, atol=1e-6)
    elif isinstance(found, dict):
        assert list(found) == list(wanted)
        for key, value in found.items():
            same(value, wanted[key])
    elif isinstance(found, (list, tuple)):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            same(a, b)
    else:
        assert found == wanted and type(found) is type(wanted)


def test_program_computes_what_pytorch_does():
    module = torch.jit.load(str(FOLDER / "program.pt"))
    same(module(image(), torch.tensor(INDEX), 3), VALUES["program"])
    same(module(image(), index=torch.tensor(INDEX)), VALUES["without"])
    assert module.steps.item() == 2.0
    assert module.extra(8) == [8, 7, 14, 10, 6, 2]


def test_traced_module_computes_what_pytorch_does():
    module = torch.jit.load(FOLDER / "traced.pt")
    same(module(torch.linspace(-1, 1, 98).view(2, 1, 7, 7)), VALUES["traced"])


def test_modules_have_parameters_buffers_children():
    module = torch.jit.load(FOLDER / "program.pt")
    assert isinstance(module, (torch.jit.ScriptModule, torch.nn.Module))
    assert isinstance(module, torch.jit.RecursiveScriptModule)
    assert [n for n, _ in module.named_children()] == [
        "conv", "bn", "pool", "seq", "emb", "blocks",
    ]  # fmt: skip
    assert list(module.state_dict())[:3] == ["steps", "conv.weight", "conv.bias"]
    assert all(p.requires_grad for p in module.parameters()) and not module.training
    assert module.scale == 2.5 and module.names == ["a", "bc"] and module.table == {"x": 1, "y": 2}
    assert module.original_name == "Program" and module.conv.original_name == "Conv2d"
    assert repr(module.pool) == "RecursiveScriptModule(original_name=MaxPool2d)"
    assert "def forward(self" in module.code


def test_gradients_flow_and_training_switches():
    module = torch.jit.load(FOLDER / "program.pt")
    result = module(image(), torch.tensor(INDEX))
    (result[0].sum() + result[3][:, 0].sum().float()).backward()
    assert module.emb.weight.grad[1:5].abs().sum() > 0 and module.emb.weight.grad[5:].sum() == 0
    module.train()
    before = module.bn.num_batches_tracked.item()
    module(image(), torch.tensor(INDEX))
    assert module.bn.num_batches_tracked.item() == before + 1 and module.seq.training


def test_copies_do_not_share():
    module = torch.jit.load(FOLDER / "program.pt")
    other = copy.deepcopy(module)
    with torch.no_grad():
        other.conv.weight.zero_()
    assert module.conv.weight.abs().sum() > 0
    same(module(image(), torch.tensor(INDEX))[0], VALUES["without"][0])


def test_moves_to_other_dtypes():
    module = torch.jit.load(FOLDER / "program.pt").double()
    found = module(image().double(), torch.tensor(INDEX))
    assert found[0].dtype is torch.float64 and found[2].dtype is torch.float64
    same(found[0].float(), VALUES["without"][0])


def test_extra_files_and_file_objects():
    files = {"note.txt": ""}
    with (FOLDER / "program.pt").open("rb") as file:
        module = torch.jit.load(file, map_location="cpu", _extra_files=files)
    assert files == {"note.txt": b"hello"} and isinstance(module, LoadedModule)


def test_errors_are_the_programs():
    module = torch.jit.load(FOLDER / "program.pt")
    with pytest.raises(ValueError, match="too many: 101"):
        module(torch.zeros(101, 1, 8, 8), torch.tensor(INDEX))
    with pytest.raises(RuntimeError, match=r"forward\(\) is missing value for argument 'index'"):
        module(image())
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'other'"):
        module(image(), torch.tensor(INDEX), other=3)
    with pytest.raises(NotImplementedError, match="archives are not written"):
        module.save("somewhere")


def test_what_is_no_archive():
    with pytest.raises(ValueError, match="The provided filename nowhere.pt does not exist"):
        torch.jit.load("nowhere.pt")
    with pytest.raises(RuntimeError, match="PytorchStreamReader failed"):
        torch.jit.load(io.BytesIO(b"abc"))
    saved = io.BytesIO()
    torch.save(torch.ones(1), saved)
    saved.seek(0)
    with pytest.raises(RuntimeError, match="not one of torch.jit: .* torch.load"):
        torch.jit.load(saved)
    with pytest.raises(RuntimeError, match="not one of torch.save: .* torch.jit.load"):
        torch.load(FOLDER / "traced.pt")


def changed(replacements):
    """The recorded program with pieces of its source replaced."""
    target = io.BytesIO()
    with (
        zipfile.ZipFile(FOLDER / "program.pt") as source,
        zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as written,
    ):
        for name in source.namelist():
            data = source.read(name)
            if name.endswith(("__torch__.py", "__main__.py")):
                text = data.decode()
                for old, new in replacements:
                    text = text.replace(old, new)
                data = text.encode()
            written.writestr(name, data)
    target.seek(0)
    return target


BODY = "    torch.extend(r, [7, 8])\n"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("    import os\n", NotImplementedError),
        ("    __import__('os')\n", NameError),
        ("    open('x')\n", NameError),
        ("    _0 = r.__class__\n", AttributeError),
        ("    _0 = self.__class__\n", AttributeError),
        ("    _0 = self.register_forward_hook\n", AttributeError),
        ("    _0 = self.forward.__globals__\n", AttributeError),
        ("    _0 = (torch.add).__globals__\n", NotImplementedError),
        ("    _0 = getattr(self, '__dict__')\n", AttributeError),
        ("    _0 = 'a{}'.format\n", AttributeError),
        ("    _0 = lambda: 3\n", NotImplementedError),
        ("    _0 = [i for i in r]\n", NotImplementedError),
        ("    self.__class__ = r\n", AttributeError),
        ("    _0 = torch.load('x')\n", NotImplementedError),
        ("    _0 = torch.serialization.load('x')\n", NotImplementedError),
        ("    _0 = torch.save(r, 'x')\n", NotImplementedError),
        ("    exec('1')\n", NameError),
        ("    _0 = f'{r}'\n", NotImplementedError),
        ("    @torch.add\n    def f(x): return x\n", NotImplementedError),
    ],
)
def test_source_can_do_nothing_but_compute(line, error):
    archive = changed([(BODY, BODY + line)])
    with pytest.raises(error):
        torch.jit.load(archive).extra(8)


def test_unknown_ops_are_named_when_they_are_reached():
    archive = changed([(BODY, BODY + "    _0 = torch.no_such_op(r)\n")])
    module = torch.jit.load(archive)
    same(module(image(), torch.tensor(INDEX))[0], VALUES["without"][0])
    with pytest.raises(NotImplementedError, match="the op 'no_such_op', which Ember does not have"):
        module.extra(8)
