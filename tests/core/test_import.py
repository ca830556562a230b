"""`import ember` brings in nothing heavy: what is large loads when it is first used."""

import subprocess
import sys

import pytest

HEAVY = "ml_dtypes scipy llvmlite rich tqdm safetensors multiprocessing tempfile zipfile".split()


def modules_after(code: str) -> set[str]:
    command = f"import sys\n{code}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


@pytest.mark.parametrize("code", ["import ember", "import ember; print(ember.ones(2) + 1)"])
def test_nothing_heavy_is_imported(code):
    assert not modules_after(code) & set(HEAVY)


def test_the_types_of_eight_bits_and_bfloat16_load_ml_dtypes_when_used():
    loaded = modules_after("import ember; ember.ones(2, dtype=ember.bfloat16)")
    assert "ml_dtypes" in loaded
