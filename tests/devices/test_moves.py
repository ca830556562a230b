"""Errors of mixed devices that name what the program knows, and the check before a move."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest

import ember as torch
from ember import nn
from ember.devices import check

ROOT = Path(__file__).resolve().parents[2]


def ember(folder, *arguments):
    command = [sys.executable, "-m", "ember", "run", "--gpus", "2x1GiB", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_example_explains():
    text = ember(ROOT, "examples/moves.py")
    lines = [line.strip() for line in text.splitlines()]
    forgotten, mask, two = (text.index(t) for t in ("A batch that", "A mask that", "Two GPUs"))
    assert forgotten < mask < two
    assert any(
        line.startswith("input is batch, on cpu: a variable in main (examples/moves.py:")
        and line.endswith("batch = torch.randn(2, 8)")
        for line in lines
    )
    assert any(line.startswith("To fix it: batch = batch.to('cuda:0') before") for line in lines)
    assert (
        "other is a view of model.layers[0].project.weight, on cuda:0: a parameter; moved to "
        "cuda:0 at examples/moves.py:48" in lines
    )
    assert (
        "other is model.layers[0].mask, on cpu: a plain attribute, which moves of the module leave "
        "behind; set at examples/moves.py:14: self.mask = torch.linspace(1, 2, size)" in lines
    )
    assert (
        "To fix it: in Attention (examples/moves.py:14) write self.register_buffer('mask', "
        "torch.linspace(1, 2, size), persistent=False), so that model.to('cuda:0') moves it"
    ) in lines
    assert any(line.startswith("To fix it: labels = labels.to('cuda:0')") for line in lines)
    assert "- model.heads[1] (Linear) is in a Python list" in text
    assert "- AdamW holds 1 of 1 tensors that are not parameters of model ([3])" in text


PROGRAM = """
import ember as torch
from torch_like import Net
net = Net()
try:
    net(torch.ones(2, 3, device="cuda:1"))
except RuntimeError as error:
    print(type(error).__name__, error)
x = torch.ones(2, 3)
y = x.cuda()
try:
    (y * 2) + (x * 2)
except RuntimeError as error:
    print(error)
"""
NET = """
import ember as torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(3))
        self.more = [torch.ones(3)]
    def forward(self, x):
        return x * self.scale
"""


def test_buffers_and_values(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "torch_like.py").write_text(NET)
    text = ember(tmp_path, "program.py")
    assert text.startswith("DeviceMismatchError Expected all tensors to be on the same device")
    assert "other is net.scale, on cpu: a buffer; set at torch_like.py:9" not in text
    assert "other is net.scale, on cpu: a buffer" in text
    assert "To fix it: net = net.to('cuda:1') before it is called" in text
    # of two values of one expression nothing is known but the first sentence
    assert text.rstrip().endswith("for example other = other.to('cuda:0').")


def test_errors_on_meta_are_explained_too():
    weights = torch.ones(3)
    with pytest.raises(RuntimeError, match="weights, on cpu: a variable in test_errors_on_meta"):
        torch.ones(3, device="meta") + weights


def test_program_objects_that_fail_do_not_hide_the_error():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.strange = {"a": torch.ones(2)}

        def named_modules(self, *args, **kwargs):
            raise LookupError

        def forward(self, x):
            return x + self.strange["a"]

    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        Odd()(torch.ones(2, device="meta"))


class Clean(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(2, 2), nn.BatchNorm1d(2)
        self.tied = nn.Linear(2, 2)
        self.tied.weight = self.first.weight
        self.size, self.names = 3, ["a", "b"]


def kinds(*args, **kwargs):
    return [(finding.kind, finding.path) for finding in check(*args, **kwargs)]


def test_nothing_to_say_about_a_clean_module():
    net = Clean()
    assert check(net, torch.optim.AdamW(net.parameters())) == []


def test_plain_attributes_and_containers():
    net = Clean()
    net.mask = torch.ones(2)
    net.masks = {"causal": [torch.ones(2)]}
    net.loose = [nn.Parameter(torch.ones(1))]
    net.layers = (nn.ReLU(), nn.Linear(1, 1))
    net.again = [net.first]  # registered elsewhere: it moves
    found = kinds(net, name="net")
    assert ("plain tensor", "net.mask") in found
    assert ("plain tensor", "net.masks['causal'][0]") in found
    assert ("hidden parameter", "net.loose[0]") in found
    assert ("hidden layer", "net.layers[1]") in found
    assert not any("again" in path for _, path in found)


def test_buffers_that_a_move_splits():
    net = Clean()
    table = torch.ones(4)
    net.register_buffer("table", table)
    net.first.register_buffer("table", table)
    net.register_buffer("part", table[:2])
    assert kinds(net) == [
        ("split by a move", "model.part"),
        ("split by a move", "model.first.table"),
    ]
    net.to("meta")
    assert net.table is not net.first.table  # as it says


def test_optimizers():
    net = Clean()
    optimizer = torch.optim.SGD(copy.deepcopy(net).parameters(), lr=0.1)
    found = dict(kinds(net, optimizer))
    assert found == {"optimizer holds others": "", "not optimized": "first.weight"}
    frozen = Clean()
    for parameter in frozen.parameters():
        parameter.requires_grad_(False)
    held = torch.optim.SGD(frozen.parameters(), lr=0.1)
    assert check(frozen, held) == []


def test_several_devices():
    net = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    net[1].to("meta")
    (finding,) = check(net)
    assert finding.kind == "several devices"
    assert "2 on cpu (such as 0.weight); 2 on meta (such as 1.weight)" in str(finding)
