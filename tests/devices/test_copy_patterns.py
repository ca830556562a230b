"""The ledger on real copies between simulated GPUs: modules, steps, advice, budgets, the page."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ember.backends.base import CopyEvent, copy_observers
from ember.device import device
from ember.devices import CopyBudgetError, ledger
from ember.devices.advice import advise
from ember.devices.budgets import Budget
from ember.devices.ledger import Entry

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "copies.py"
CPU, GPU = device("cpu"), device("cuda:0")


def ember(folder, *arguments):
    """A program under `ember run` with two GPUs."""
    command = [sys.executable, "-m", "ember", "run", "--gpus", "2x1GiB", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def copy(source, target, nbytes):
    for observer in list(copy_observers):
        observer(CopyEvent(source, target, nbytes, 0.001, True, False))


PROGRAM = """
import ember as torch
from torch import nn
class Inner(nn.Module):
    def forward(self, x):
        return x.cpu() * 2
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), Inner()])
        self.hidden = [Inner()]
    def forward(self, x):
        return self.hidden[0](self.layers[1](self.layers[0](x)).cuda())
net = Outer()
with torch.devices.ledger() as copies:
    net.cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.ones(4, 2).cuda()
        net(x).sum().backward()
        optimizer.step()
    x.sum().item()
print(copies.to_json())
"""


def test_modules_calls_and_steps(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    found = json.loads(ember(tmp_path, "program.py").stdout)
    by_place = {(e["line"], e["module"]): e for e in found["entries"] if e["call"] != "backward"}
    inner = by_place[6, "net.layers[1]"]
    assert (inner["call"], inner["count"], inner["bytes"]) == ("cpu", 3, 96)
    assert by_place[6, "Inner (not part of net)"]["count"] == 3
    assert by_place[13, "net"]["call"] == "cuda"
    weights = by_place[16, "net.layers[0]"]
    assert (weights["call"], weights["count"]) == ("Module.cuda", 2)
    assert by_place[22, ""]["call"] == "item"
    assert len(found["steps"]) == 3
    # 8 floats each: x, the result of layers[1], two gradients; and first the weights
    into = [step["host to device"]["bytes"] for step in found["steps"]]
    assert into == [24 + 128, 128, 128]


def test_steps_by_hand_count_instead_of_optimizers():
    import ember as torch

    parameter = torch.nn.Parameter(torch.ones(1))
    parameter.grad = torch.ones(1)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    with ledger() as copies:
        copy(CPU, GPU, 5)
        optimizer.step()
        assert [s["host to device"]["bytes"] for s in copies.steps] == [5]
        copy(CPU, GPU, 7)
        copies.step()
        copy(GPU, CPU, 9)
        optimizer.step()
        copies.step()
    assert [s["host to device"]["bytes"] for s in copies.steps] == [7, 0]
    assert [s["device to host"]["count"] for s in copies.steps] == [0, 1]
    optimizer.step()  # the mark is gone
    assert len(copies.steps) == 2


def test_the_example_finds_its_mistakes(tmp_path):
    page = tmp_path / "copies.html"
    done = ember(EXAMPLE.parent.parent, "examples/copies.py", "--page", page)
    text = " ".join(done.stdout.split())
    for pattern in ("ping-pong", "pageable memory", "came back unchanged", "moved again"):
        assert f"- {pattern}: " in text
    assert "- read in a loop: examples/copies.py:44 waits for cuda:1 10 times" in text
    assert "model │" in text
    assert "careful: 1 copy to the host" in text
    assert "careless: copy budget exceeded: 2 copies from device to host in one step" in text
    html = page.read_text()
    assert html.startswith("<!doctype html>") and "<svg" in html
    assert "http" not in html and "<script" not in html
    assert "prefers-color-scheme: dark" in html and "width=device-width" in html
    assert "examples/copies.py:30" in html and "ping-pong" in html


def entry(**changed):
    base = ("host to device", "cpu", "cuda:0", "t.py", 3, 10, 10 << 20, 0.1, 10, 0, "", "to")
    return Entry(*base)._replace(**changed)


@pytest.mark.parametrize(
    ("changes", "patterns"),
    [
        ({}, ["pageable memory"]),
        ({"pinned": 10}, ["pinned but waited for"]),
        ({"pinned": 10, "blocking": 0}, []),
        ({"bytes": 1000}, []),
        ({"count": 1, "bytes": 1 << 30, "blocking": 1}, []),
        ({"call": "Module.to"}, []),
        ({"repeated": 9}, ["moved again"]),
        ({"returned": 9, "repeated": 9}, ["came back unchanged"]),
        (
            {"direction": "device to host", "call": "item", "bytes": 40},
            ["read in a loop"],
        ),
        ({"direction": "device to host", "call": "item", "bytes": 8, "count": 2}, []),
    ],
)
def test_patterns(changes, patterns):
    found = advise([entry(**changes)])
    assert [advice.pattern for advice in found] == patterns
    assert all("t.py:3" in advice.text for advice in found)


def test_ping_pong_needs_both_ways():
    there = entry(direction="device to device", source="cuda:0", target="cuda:1")
    back = there._replace(source="cuda:1", target="cuda:0", bytes=5)
    assert advise([there]) == []
    (found,) = advise([back, there])
    assert (found.pattern, found.count, found.bytes) == ("ping-pong", 20, (10 << 20) + 5)


def test_budgets_raise_at_the_copy():
    with ledger(budget=10):
        copy(CPU, GPU, 6)
        with pytest.raises(CopyBudgetError, match="12 B copied in this block, with 10 B allowed"):
            copy(GPU, CPU, 6)
    with ledger(budget={"device to host": {"count": 2}, "bytes": "1MiB"}):
        for _ in range(5):
            copy(CPU, GPU, 1)
        copy(GPU, CPU, 1), copy(GPU, CPU, 1)
        with pytest.raises(CopyBudgetError, match="3 copies from device to host .* 2 allowed"):
            copy(GPU, CPU, 1)
    with ledger(step_budget={"count": 2}) as copies:
        for _ in range(3):
            copy(CPU, GPU, 1), copy(CPU, GPU, 1)
            copies.step()
        copy(CPU, GPU, 1), copy(CPU, GPU, 1)
        with pytest.raises(CopyBudgetError, match=r"test_copy_patterns.py:\d+"):
            copy(CPU, GPU, 1)
    assert issubclass(CopyBudgetError, AssertionError)
    assert copy_observers == []


@pytest.mark.parametrize("limit", ["1 parsec", {"copies": 1}, {"device to host": {"n": 1}}, -1])
def test_odd_budgets_are_refused(limit):
    with pytest.raises(ValueError, match=r"amount of memory|no limit"):
        Budget(limit, "a test")


def test_fixture(tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["ember.devices.pytest_plugin"]\n')
    (tmp_path / "test_copies.py").write_text(
        "import ember as torch\n"
        "torch.cuda.simulate(1)\n"
        "def test_few(copy_budget):\n"
        "    copies = copy_budget({'device to host': {'count': 1}})\n"
        "    torch.ones(3).cuda().sum().item()\n"
        "    assert copies.totals()['all']['count'] == 2\n"
        "def test_many(copy_budget):\n"
        "    copy_budget({'device to host': {'count': 1}})\n"
        "    x = torch.ones(3).cuda()\n"
        "    x.sum().item(); x.sum().item()\n"
        "def test_after():\n"
        "    from ember.backends.base import copy_observers\n"
        "    assert not copy_observers\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert "1 failed, 2 passed" in done.stdout
    assert "CopyBudgetError: copy budget exceeded: 2 copies from device to host" in done.stdout


def test_run_writes_the_ledger_to_a_file(tmp_path):
    code = "import torch; torch.ones(256).cuda()"
    ember(tmp_path, "--ledger=copies.json", "-c", code)
    found = json.loads((tmp_path / "copies.json").read_text())
    assert found["totals"]["host to device"]["bytes"] == 1024
    ember(tmp_path, "--ledger=copies.html", "-c", code)
    assert "1.0 KiB" in (tmp_path / "copies.html").read_text()
