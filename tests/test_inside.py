"""docs/inside.py, Ember in miniature: it runs, checks itself, and stays short."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "docs" / "inside.py"


def test_the_miniature_agrees_with_ember():
    own = {name: value for name, value in os.environ.items() if not name.startswith("EMBER_")}
    own.pop("CUDA_VISIBLE_DEVICES", None)
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        cwd=ROOT,
        env={**own, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "The miniature and Ember agree.\n"


def test_the_miniature_is_short():
    lines = [line.strip() for line in PROGRAM.read_text().splitlines()]
    assert sum(bool(line) and not line.startswith("#") for line in lines) <= 400


def test_the_miniature_checks_itself():
    assert PROGRAM.read_text().count("assert ") >= 15
