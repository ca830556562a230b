"""docs/devices.md shows what the examples print."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "devices.md").read_text()
SHOWN = re.findall(r"```text\n\$ ember (.*?)\n(.*?)```", PAGE, re.DOTALL)


def lines(text):
    """The lines without what depends on how fast the machine is."""
    text = re.sub(r"[\d.]+ (µs|ms|times)", r"# \1", text)
    text = re.sub(r"runs on (cpu|cuda:0)", "runs on ...", text)
    return [re.sub(r" +", " ", line).strip() for line in text.splitlines()]


@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[c.split("/")[-1] for c, _ in SHOWN])
def test_shown_output_is_real(command, output):
    done = subprocess.run(
        [sys.executable, "-m", "ember", *command.split()],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = lines((done.stdout + done.stderr).replace(str(ROOT) + "/", ""))
    missing = [
        line
        for line in lines(output)
        if line and line not in found and "magnitude" not in line and line[:1] not in "│┃┏┡├└"
    ]
    assert not missing


def test_every_example_is_shown():
    shown = {command.split("/")[-1] for command, _ in SHOWN}
    own = {"copies.py", "moves.py", "fit.py", "overflow.py", "autoplace.py", "report.py"}
    assert own <= shown
