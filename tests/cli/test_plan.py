"""`ember plan`: what a program's model would need, from the program's first call of it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """\
import sys
import torch
model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(8)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(int(sys.argv[1]), 256)).sum()
raise AssertionError("the program has gone on")
"""


@pytest.fixture
def planned(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)

    def run(*arguments, code=0):
        done = subprocess.run(
            [sys.executable, "-m", "ember", "plan", *map(str, arguments)],
            cwd=ROOT, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr

    run.script = script
    return run


def test_a_program_is_planned_for_a_machine(planned, tmp_path):
    picture = tmp_path / "plan.svg"
    text = planned(planned.script, "--gpus", "3MiB+2MiB@pcie", f"--svg={picture}", "--", 64)
    assert "Sequential with 526,336 parameters, as" in text
    assert "A step of batch 64 on 1 x 3.0 MiB + 1 x 2.0 MiB" in text
    assert "0 B" in text  # SGD without momentum keeps no state
    assert picture.read_text().startswith("<svg")


def test_equal_gpus_are_split_by_kinds(planned):
    text = planned(planned.script, "--gpus=64xH100", "--batch", 256, "--", 4)
    assert "64xH100, a step of batch 256:" in text
    assert "A step of batch" not in text
    assert "data x" in text and "Assumed:" in text


def test_the_example_of_a_large_model(planned):
    text = planned("examples/large.py", "--meta", "--gpus", "1024xH100@nvlink", "--batch", 2048)
    assert "Language with 6,739,775,488 parameters" in text
    assert "1024xH100@nvlink, a step of batch 2048:" in text


def test_what_is_refused(planned, tmp_path):
    assert "a script and --gpus are needed" in planned(planned.script, code=2)
    assert "can't open nowhere.py" in planned("nowhere.py", "--gpus", "2x1GiB", code=2)
    assert "is not of the form" in planned(planned.script, "--gpus", "two", code=2)
    assert "cannot read --fast" in planned(planned.script, "--fast", code=2)
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")
    assert "has called no module" in planned(empty, "--gpus", "1x1GiB", code=2)
    assert "must be alike" in planned(planned.script, "--gpus", "9x1GiB+1x2GiB", "--", 8, code=2)


def test_help(planned):
    assert "usage: ember plan SCRIPT --gpus MACHINE" in planned("--help")
