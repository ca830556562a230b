"""Programs made beside the running one: nothing waits for them, and no end of a process is in their
way."""

import os
import subprocess
import sys
import threading

import pytest

import ember as torch
from ember import nn
from ember.capture.background import background
from ember.capture.compiled import Captured
from ember.capture.fusion import Fusion


@pytest.fixture
def gate(monkeypatch):
    """An event that the thread waits for before it makes anything."""
    monkeypatch.setattr(background, "at_once", False)
    event = threading.Event()
    background.put(event.wait)
    yield event
    event.set()
    background.wait()


def counted():
    calls = []

    def function(x):
        return x * 2 + 1

    def outer(x):
        calls_of_python()
        return function(x)

    def calls_of_python(add=calls.append):
        add(1)

    calls_of_python.__module__ = "ember"  # a recording looks at no lists in here
    return outer, calls


def test_calls_run_eagerly_until_their_program_is_ready(gate):
    function, calls = counted()
    run = Captured(function)
    for turn in range(3):
        assert run(torch.full((3,), float(turn))).tolist() == [2 * turn + 1] * 3
    assert len(calls) == 3
    gate.set()
    run.wait()
    assert run.recordings[0].program.is_ready
    assert run(torch.full((3,), 5.0)).tolist() == [11] * 3
    assert len(calls) == 3
    assert "planned memory" in run.report()


def test_a_backward_pass_may_wait_too(gate):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    run = Captured(net)
    for turn in range(8):
        if turn == 4:
            gate.set()
            run.wait()
        x = torch.full((2, 3), turn * 0.1)
        found = []
        for function in (run, net):
            net.zero_grad()
            function(x).pow(2).sum().backward()
            found.append([p.grad for p in net.parameters()])
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other)
    assert run.recordings[0].graph.program.is_ready


def test_a_program_that_cannot_be_made_leaves_the_function_as_it_is(gate, monkeypatch):
    def fails(self):
        raise KeyError("no such kernel")

    monkeypatch.setattr(Fusion, "run", fails)
    run = Captured(lambda x: x * 2 + 1)
    assert run(torch.ones(2)).tolist() == [3, 3]
    gate.set()
    run.wait()
    for _ in range(3):
        assert run(torch.ones(2)).tolist() == [3, 3]
    assert "eager: KeyError: 'no such kernel'" in run.report()


def test_what_is_given_to_it_is_done_in_turn(gate):
    done = []
    for number in range(5):
        background.put(lambda number=number: done.append(number))
    assert done == []
    gate.set()
    background.wait()
    assert done == [0, 1, 2, 3, 4]


CODE = """
import os, sys, threading
import ember as torch
from ember import nn
from ember.capture.background import background

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 16), nn.Softmax(1), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(net.parameters())
x = torch.randn(4, 8)

@torch.compile
def step(x):
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss

steps = lambda count: [round(float(step(x)), 4) for _ in range(count)]
steps(2)
assert background.jobs
"""

FORK = """
child = os.fork()
if not child:
    losses = steps(3)
    background.wait()
    assert "planned memory" in step.report()
    print(losses + steps(2), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
losses = steps(3)
background.wait()
print(losses + steps(2))
"""


def process(code, tmp_path):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env={"EMBER_CACHE": str(tmp_path), "PATH": "", "PYTHONPATH": ":".join(sys.path)},
    )


@pytest.mark.parametrize("ending", ["", "raise SystemExit(3)", "background.thread and steps(1)"])
def test_a_process_may_end_while_a_program_is_made(ending, tmp_path):
    done = process(CODE + ending, tmp_path)
    assert done.returncode == (3 if "3" in ending else 0), done.stderr
    assert done.stderr == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_makes_its_program_itself(tmp_path):
    done = process(CODE + FORK, tmp_path)
    assert done.returncode == 0, done.stderr
    child, parent = done.stdout.splitlines()
    assert child == parent
    assert len(eval(child)) == 5
