"""Where work runs: the choice follows the costs, and nothing else moves."""

import subprocess
import sys
from pathlib import Path

import pytest

import ember as torch
from ember import nn
from ember.devices.autoplace import Cost

ROOT = Path(__file__).resolve().parents[2]
PLACING = """
import torch
import sys
import ember.devices
module = sys.modules["ember.devices.autoplace"]
Cost = module.Cost
asked = []


def measured(work, args, place, home):
    asked.append((str(place), str(home)))
    with module._inside(place):
        module._once(work, args, place, home)
    large = module._bytes(args) > 1000
    if place.type == "cpu":
        return Cost(0.0, 1e-3 if large else 1e-5, 0.0, 0)
    return Cost(1e-4, 1e-5, 1e-4, 2 * module._bytes(args))


module._measured = measured


@torch.devices.autoplace
def work(x, scale=1.0):
    places.append((str(x.device), str(torch.device("auto"))))
    return x * scale + torch.ones(1, device="auto")


places = []
"""


def run(code, *options):
    done = subprocess.run(
        [sys.executable, "-m", "ember", "run", *options, "-c", code],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_choice_follows_the_costs():
    code = PLACING + (
        "small, large = torch.ones(4), torch.ones(1000)\n"
        "print(work(small).device, work(large).device, len(asked))\n"
        "del places[:]\n"
        "work(small), work(large), work(small, scale=2.0)\n"
        "print(places, len(asked))\n"
        "print(small.device, large.device)\n"
        "print(work.report())\n"
    )
    lines = run(code, "--gpus", "1").splitlines()
    assert lines[0] == "cpu cpu 4"
    # shapes that are known are not measured again; a number more makes another kind of call
    assert lines[1].startswith("[('cpu', 'cpu'), ('cuda:0', 'cuda:0')") and lines[1].endswith("6")
    assert lines[2] == "cpu cpu"
    assert lines[3].startswith("work([4]) (<string>:") and "runs on cpu: 21.0 times" in lines[3]
    assert lines[4] == "  cpu: 10 µs (10 µs of work)"
    assert lines[5] == (
        "  cuda:0: 210 µs (10 µs of work and 200 µs for copies of 32 B, by the simulated clock)"
    )
    assert "work([1000])" in lines[6] and "runs on cuda:0: 4.8 times" in lines[6]


def test_gradients_and_random_numbers_pass():
    code = PLACING + (
        "torch.manual_seed(0)\n"
        "before = torch.get_rng_state()\n"
        "x = torch.ones(1000, requires_grad=True)\n"
        "y = work(x, scale=3.0)\n"
        "y.sum().backward()\n"
        "print(y.device, x.grad.device, x.grad[0].item(), x.device)\n"
        "torch.devices.where(lambda x: x + torch.rand(3), torch.ones(3))\n"
        "print(torch.equal(torch.get_rng_state(), before))\n"
    )
    assert run(code, "--gpus", "1") == "cpu cpu 3.0 cpu\nTrue\n"


def test_auto_outside_of_a_function_and_without_gpus():
    code = (
        "import torch\n"
        "print(torch.zeros(2, device='auto').device, torch.device('auto'))\n"
        "(placement,) = torch.devices.placements()\n"
        "print(placement.why())\n"
        "print(torch.nn.Linear(2, 2).to('auto').weight.device)\n"
    )
    assert run(code) == "cpu cpu\nthere is no other device\ncpu\n"
    simulated = run(code, "--gpus", "2").splitlines()
    assert set(simulated[0].split()) <= {"cpu", "cuda:0"} and "times as fast there" in simulated[1]


def test_what_cannot_run_everywhere():
    code = PLACING + (
        "weight = torch.ones(3)\n"
        "print(torch.devices.where(lambda x: x * weight, torch.ones(3)))\n"
        "try:\n"
        "    work(torch.ones(2), torch.ones(2, device='cuda'))\n"
        "except RuntimeError as error:\n"
        "    print(error)\n"
        "net = torch.nn.Linear(2, 2)\n"
        "print(torch.devices.where(net, torch.ones(1, 2)).device, net.weight.device)\n"
    )
    text = run(code, "--gpus", "1")
    assert "runs on cpu: no other device can" in text
    assert "cuda:0: cannot run it, Expected all tensors to be on the same device" in text
    assert "the arguments are on several devices, cpu and cuda:0; move them" in text
    assert text.endswith("cpu cpu\n")


def test_what_is_no_function_of_tensors():
    with pytest.raises(TypeError, match="module.to"):
        torch.devices.autoplace(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="no device can run it: boo"):

        def wrong(x):
            raise RuntimeError("boo")

        torch.devices.where(wrong, torch.ones(2))
    with pytest.raises(RuntimeError, match="Expected one of"):
        torch.device("automatic")


def test_costs_add_up():
    assert Cost(1.0, 2.0, 3.0, 0).total == 6.0
    placed = torch.devices.autoplace(lambda pair: (pair[0] + 1, {"b": pair[1]}))
    first, rest = placed((torch.zeros(2), torch.ones(2)))
    assert first.tolist() == [1.0, 1.0] and rest["b"].tolist() == [1.0, 1.0]
    (placement,) = placed.placements.values()
    cost = placement.costs[torch.device("cpu")]
    assert placement.device == torch.device("cpu") and cost.run > 0 and cost.moved == 0
