"""Families that load later hide nothing: their methods are there from the start."""

import subprocess
import sys

PROGRAM = """
import ember as torch
from ember import ops
from ember.core.registry import NAMESPACES
before = set(NAMESPACES["Tensor"])
ops.load_rest()
print(sorted(set(NAMESPACES["Tensor"]) - before))
methods = NAMESPACES["Tensor"]
print([n for n in ops.METHODS_OF_LATER if methods[n].__doc__.endswith("first use.")])
"""


def test_every_method_of_a_later_family_is_announced_and_defined():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    unannounced, undefined = run.stdout.splitlines()
    assert unannounced == "[]"
    assert undefined == "[]"
