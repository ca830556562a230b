"""The example programs, end to end: the digits script gives one loss curve wherever it runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("tqdm")
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def train(folder, name, *options, gpus=None, epochs=1):
    """What the digits script writes about its run."""
    curve = folder / f"{name}.json"
    command = [sys.executable, "-m", "ember", "run", *(["--gpus", gpus] if gpus else [])]
    command += [
        str(EXAMPLES / "digits.py"),
        "--epochs",
        str(epochs),
        "--curve",
        str(curve),
        *options,
    ]
    done = subprocess.run(command, cwd=EXAMPLES.parent, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"epoch {epochs}/{epochs}: 100%" in done.stderr  # the progress bar
    assert "test accuracy" in done.stdout
    return json.loads(curve.read_text())


def test_one_curve_on_every_device(tmp_path):
    on_cpu = train(tmp_path, "cpu")
    assert len(on_cpu["loss"]) == 22
    assert on_cpu["loss"][-1] < 0.6 * on_cpu["loss"][0]
    on_gpu = train(tmp_path, "gpu", "--device", "cuda", gpus="1x1GiB")
    split = train(tmp_path, "split", "--device", "split", gpus="2x1GiB")
    assert on_gpu["loss"] == pytest.approx(on_cpu["loss"], rel=1e-5)
    assert split["loss"] == pytest.approx(on_cpu["loss"], rel=1e-5)
    assert [name.split()[0] for name in on_gpu["memory"]] == ["cuda:0"]
    assert [name.split()[0] for name in split["memory"]] == ["cuda:0", "cuda:1"]
    assert all(0 < count < 2**30 for count in split["memory"].values())


def test_half_precision_learns_as_well(tmp_path):
    half = train(tmp_path, "half", "--device", "cuda", "--amp", gpus="1x1GiB", epochs=3)
    assert half["accuracy"] > 0.93
    assert half["loss"][-1] < 0.3
