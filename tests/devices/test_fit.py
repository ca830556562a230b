"""Predicted peaks against those of simulated GPUs, the answers of `fits`, and errors that list what
is alive."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import ember as torch
from ember import nn
from ember.core import engine
from ember.core.executor import current_executor
from ember.devices import fits, track
from ember.devices.fit import meta_copy

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_predictions_are_within_five_percent_of_simulation():
    code = (
        "import sys, json; sys.path.insert(0, 'benchmarks')\n"
        "import fit_errors, ember as torch\n"
        "torch.cuda.simulate(1)\n"
        "print(json.dumps(list(fit_errors.errors())))"
    )
    found = json.loads(run("-c", code))
    assert len(found) >= 6
    for name, predicted, measured in found:
        assert predicted == pytest.approx(measured, rel=0.05), name


def test_the_example():
    text = run("-m", "ember", "run", "--gpus", "1x64MiB", "examples/fit.py")
    assert "A step with batch 4096 fits on one of 2x24GiB" in text
    assert "A step with batch 2048 does not fit on one of 1x64MiB" in text
    assert "The peak is in the backward of model.blocks[5].narrow (examples/fit.py:17)" in text
    assert "  checkpointing of the layers: " in text
    assert "What is alive on cuda:0:" in text
    assert "activations model.blocks[0].widen examples/fit.py:17 (1 tensor)" in text
    assert "Cheapest fix that would have fitted: two passes of batch 1024 for one step" in text


def test_kinds_of_memory():
    layer = nn.Linear(64, 64)  # 16,384 bytes of weights, and a bias that takes one block of 512
    found = fits(layer, torch.ones(32, 64), "1x1GiB")
    assert found and found.batch == 32
    kinds = found.peak.by_kind
    assert kinds["weights"] == 16384 + 512
    assert kinds["optimizer state"] == 2 * (16384 + 512)
    assert kinds["inputs"] == 32 * 64 * 4
    assert found.peak.bytes == sum(kinds.values())
    assert found.peak.phase in ("backward", "optimizer step")
    plain = fits(layer, torch.ones(32, 64), "1x1GiB", training=False, search=False)
    assert plain.peak.by_kind["optimizer state"] == 0
    assert plain.peak.bytes < found.peak.bytes and plain.peak.phase == "forward"


def test_the_largest_batch_is_the_largest():
    net = nn.Sequential(nn.Linear(100, 300), nn.ReLU(), nn.Linear(300, 10))
    found = fits(net, torch.ones(4, 100), "1x2MiB")
    largest = found.largest_batch
    assert largest > 100

    def peak(batch):
        return fits(net, torch.ones(batch, 100), "1x2MiB", search=False)

    assert peak(largest) and not peak(largest + 1)
    assert fits(net, torch.ones(largest + 50, 100), "1x2MiB").largest_batch == largest
    assert fits(net, torch.ones(8, 100), "1x100kib").largest_batch == 0


def test_remedies_are_what_they_promise():
    net = nn.Sequential(*(nn.Linear(128, 128) for _ in range(6)))
    found = fits(net, torch.ones(16, 128), "1x1GiB")
    by = {remedy.name: remedy for remedy in found.remedies}
    sgd = fits(
        net, torch.ones(16, 128), "1x1GiB", search=False,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    )  # fmt: skip
    assert by["SGD without momentum"].peak == sgd.peak.bytes
    half = by["everything in bfloat16"]
    assert half.peak == pytest.approx(found.peak.bytes / 2, rel=0.1)
    assert by["optimizer state kept on the host"].saving == found.peak.by_kind["optimizer state"]
    savings = [remedy.saving for remedy in found.remedies]
    assert savings == sorted(savings, reverse=True) and min(savings) > 0


def test_devices_share_a_batch():
    net = nn.Linear(10, 10)
    found = fits(net, torch.ones(1000, 10), "4x1GiB", search=False)
    quarter = fits(net, torch.ones(250, 10), "1x1GiB", search=False)
    assert found.split_peak == quarter.peak.bytes
    assert "Split over 4 devices" in str(found)


def test_step_functions():
    def step(model, batch, label):
        loss = nn.functional.cross_entropy(model(batch), label)
        loss.backward()
        return loss

    net = nn.Linear(64, 8)
    found = fits(step, (net, torch.ones(16, 64), torch.zeros(16, dtype=torch.int64)), "1x1MiB")
    assert found and found.largest_batch > 1000
    assert found.peak.by_kind["weights"] == 64 * 8 * 4 + 512
    assert net.weight.grad is None and net.weight.device.type == "cpu"


def test_nothing_is_moved_or_left():
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    net.mask = torch.ones(4)
    before = [t.tolist() for t in (*net.parameters(), *net.buffers())]
    fits(net, torch.randn(8, 4), "1x1GiB")
    assert [t.tolist() for t in (*net.parameters(), *net.buffers())] == before
    assert all(p.grad is None for p in net.parameters())
    assert current_executor() is None and engine.anomaly[0] is None
    copied = meta_copy(net)
    assert all(t.is_meta for t in (*copied.parameters(), *copied.buffers(), copied.mask))
    assert not net.mask.is_meta


def test_what_cannot_be_asked():
    net = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="batch dim"):
        fits(net, torch.tensor(1.0))
    with pytest.raises(ValueError, match="not of the form"):
        fits(net, torch.ones(2, 2), "many")
    with pytest.raises(ValueError, match="no device"):
        fits(net, torch.ones(2, 2), "0")


def test_a_tracker_sees_memory_come_and_go():
    with track() as memory:
        x = torch.ones(1024, device="meta")
        y = x + x
        del x
        z = y * 2
        assert [group[0] for group in memory.groups()] == [4096, 4096]
        del y, z
        assert memory.groups() == []
        torch.ones(10) + 1  # the host's memory is not looked at
    peak = memory.peak()
    assert peak.bytes == 8192 and len(peak.blocks) == 2
    assert peak.file == __file__ and peak.phase == "forward"
    assert sum(change for change, _ in memory.events) == 0
    assert track().peak().bytes == 0


def test_errors_outside_of_a_tracker_are_as_they_were(tmp_path):
    code = (
        "import torch\n"
        "for watch in (False, True):\n"
        "    try:\n"
        "        if watch:\n"
        "            with torch.devices.track():\n"
        "                kept = torch.ones(1000, device='cuda'); torch.ones(10**6, device='cuda')\n"
        "        else:\n"
        "            torch.ones(10**6, device='cuda')\n"
        "    except torch.OutOfMemoryError as error:\n"
        "        print('What is alive' in str(error), '(1 tensor)' in str(error))\n"
    )
    done = run("-m", "ember", "run", "--gpus", "1x1MiB", "-c", code)
    assert done == "False False\nTrue True\n"


STEP = """
import torch
from torch import nn


def blocks():
    return nn.Sequential(*(nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
                           for _ in range(4)))


def attempt(model, batch, passes=1, steps=2):
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        for part in batch.chunk(passes):
            model(part.cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def test_the_fix_that_is_named_fits():
    code = STEP + (
        "model, batch = blocks().cuda(), torch.randn(1024, 64)\n"
        "try:\n"
        "    with torch.devices.track():\n"
        "        attempt(model, batch)\n"
        "except torch.OutOfMemoryError as error:\n"
        "    print(str(error).splitlines()[-1])\n"
        "model.zero_grad()\n"
        "try:\n"
        "    attempt(model, batch, passes=2)\n"
        "except torch.OutOfMemoryError as error:\n"
        "    print(str(error).splitlines()[-1])\n"
        "attempt(model, batch, passes=4)\n"
        "print('fitted')\n"
    )
    named, outside, done = run("-m", "ember", "run", "--gpus", "1x6MiB", "-c", code).splitlines()
    assert "Cheapest fix that would have fitted: 4 passes of batch 256 for one step" in named
    assert "Inside `with torch.devices.track():`" in outside and done == "fitted"


def test_losses_that_keep_their_graphs():
    code = STEP + (
        "model, batch, kept = blocks().cuda(), torch.randn(128, 64), []\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "try:\n"
        "    with torch.devices.track():\n"
        "        for _ in range(100):\n"
        "            loss = model(batch.cuda()).pow(2).mean()\n"
        "            loss.backward(retain_graph=True)\n"
        "            optimizer.step()\n"
        "            optimizer.zero_grad()\n"
        "            kept.append(loss)\n"
        "except torch.OutOfMemoryError as error:\n"
        "    print(str(error).splitlines()[-1], len(kept))\n"
    )
    text = run("-m", "ember", "run", "--gpus", "1x8MiB", "-c", code)
    assert "Cheapest fix that would have fitted: let go what earlier steps left" in text
    assert "loss.detach()" in text


def test_full_in_the_backward_of_a_model_called_by_keyword():
    code = (
        "import torch\n"
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.wide = nn.Linear(64, 4096)\n"
        "    def forward(self, *, pixels):\n"
        "        return self.wide(pixels)\n"
        "net, x = Net().cuda(), torch.randn(64, 64).cuda()\n"
        "try:\n"
        "    with torch.devices.track():\n"
        "        out = net(pixels=x)\n"
        "        (out * 1.0).sum().backward()\n"
        "except torch.OutOfMemoryError as error:\n"
        "    print(str(error).splitlines()[-1])\n"
    )
    text = run("-m", "ember", "run", "--gpus", "1x3MiB", "-c", code)
    assert text.startswith("Cheapest fix that would have fitted: ") or "No single change" in text
    assert "the step" in text


def test_remedies_that_cast_and_that_move():
    net = nn.Sequential(*(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
                          for _ in range(4)))  # fmt: skip
    found = fits(net, torch.ones(512, 64), "1x3MiB")
    by = {remedy.name: remedy for remedy in found.remedies}
    assert not found and by["autocast to bfloat16"].peak < found.peak.bytes
    kept, recomputed = by["activations kept on the host"], by["checkpointing of the layers"]
    assert (
        max(kept.peak, recomputed.peak) < found.peak.bytes - found.peak.by_kind["activations"] / 4
    )
    fewest = next(r for name, r in by.items() if "passes of batch" in name and r.fits)
    count, batch = int(fewest.name.split()[0]), int(fewest.name.split()[4])
    assert batch == 512 // count and fewest.peak <= found.capacity
    assert all(remedy.cost for remedy in found.remedies)
    half = fits(net, torch.ones(batch * 2, 64), "1x3MiB", search=False)
    assert not half  # with fewer passes it would not have fitted
    plain = fits(net, torch.ones(512, 64), "1x1GiB", training=False)
    assert {remedy.name for remedy in plain.remedies} >= {"batch 256", "everything in bfloat16"}


def test_what_a_model_does_not_allow_is_no_remedy():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.mask = nn.Linear(64, 64), torch.ones(64)

        def forward(self, x):
            return nn.functional.linear(self.layer(x) * self.mask, self.layer.weight)

    found = fits(Masked(), torch.ones(256, 64), "1x1GiB")
    names = {remedy.name for remedy in found.remedies}
    assert "two passes of batch 128 for one step" in names
    assert "everything in bfloat16" not in names  # the mask stays float32, which a product refuses


def test_convolutions_of_real_gpus_need_room_to_turn_images(monkeypatch):
    import sys

    memory = sys.modules["ember.devices.memory"]
    model = torch.nn.Conv2d(16, 16, 3, padding=1, bias=False)
    images = torch.randn(4, 16, 8, 8)
    plain = torch.devices.fits(model, images, "1x1GiB", training=False, search=False).peak
    monkeypatch.setattr(memory, "_has_real_gpus", lambda: True)
    monkeypatch.setattr(memory, "rounded", lambda nbytes: nbytes)
    real = torch.devices.fits(model, images, "1x1GiB", training=False, search=False).peak
    turned = images.nbytes * 2 + model.weight.nbytes
    assert real.bytes == images.nbytes * 2 + model.weight.nbytes + turned
    assert plain.bytes < real.bytes and real.by_kind["workspace"] == turned
    last = images.to(memory_format=torch.channels_last)
    again = torch.devices.fits(model, last, "1x1GiB", training=False, search=False).peak
    assert again.by_kind["workspace"] == 0
