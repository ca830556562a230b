"""What small things cost: an import beside NumPy's, an addition of 4 floats beside PyTorch's.

    python benchmarks/overhead.py [--rounds 15]

Every figure is the median over rounds. In each round the contenders run one after the other, each
in a process of its own, so that a slow moment of the machine falls on all of them. PyTorch takes
part if it can be imported (`make oracle`).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
IMPORT = """
import time
start = time.perf_counter()
import {name}
print(time.perf_counter() - start)
"""
# Chunks of calls: the least disturbed tenth of them is the cost of the call itself.
ADD = """
import json, time
import {name} as torch

def cost(a, b):
    times = []
    for _ in range(100):
        start = time.perf_counter()
        for _ in range(200):
            a + b
        times.append((time.perf_counter() - start) / 200)
    return sorted(times)[10]

plain = torch.ones(4), torch.ones(4)
recorded = torch.ones(4, requires_grad=True), torch.ones(4)
for pair in (plain, recorded):
    cost(*pair)
print(json.dumps({{"plain": cost(*plain), "recorded": cost(*recorded)}}))
"""


def run(code):
    """The finished process of a Python program that finds Ember and PyTorch here."""
    path = os.pathsep.join([str(ROOT), str(ROOT / ".oracle"), os.environ.get("PYTHONPATH", "")])
    settings = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    # An installed package's bytecode is cached; without it the import would time the compiler.
    settings.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=settings
    )


def figures_of(code):
    """What a program prints as JSON; its error ends the benchmark."""
    done = run(code)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def medians(programs, rounds):
    """For each named program the median of the figures that it prints as JSON, key by key."""
    found = {name: [] for name in programs}
    for code in programs.values():  # the first start reads files from a cold disk
        run(code)
    for _ in range(rounds):
        for name, code in programs.items():
            found[name].append(figures_of(code))
    return {name: _median(figures) for name, figures in found.items()}


def _median(figures):
    if not isinstance(figures[0], dict):
        return statistics.median(figures)
    return {key: statistics.median(row[key] for row in figures) for key in figures[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", help="write the figures to this file as well")
    options = parser.parse_args()
    with_torch = run("import torch").returncode == 0

    names = ["numpy", "ember"] + ["torch"] * with_torch
    imports = medians({name: IMPORT.format(name=name) for name in names}, options.rounds)
    names = ["ember"] + ["torch"] * with_torch
    adds = medians({name: ADD.format(name=name) for name in names}, options.rounds)

    table = Table(title=f"Medians of {options.rounds} rounds, one thread")
    table.add_column("")
    for column in ("NumPy", "PyTorch", "Ember"):
        table.add_column(column, justify="right")
    table.add_column("Ember against", justify="right")
    seconds = {name: f"{value * 1e3:.0f} ms" for name, value in imports.items()}
    ratio = f"{imports['ember'] / imports['numpy']:.2f} × NumPy"
    table.add_row("import", seconds["numpy"], seconds.get("torch", "-"), seconds["ember"], ratio)
    for title, key in (("a + b of 4 floats", "plain"), ("the same, recorded", "recorded")):
        cells = {name: f"{figures[key] * 1e6:.2f} µs" for name, figures in adds.items()}
        against = f"{adds['ember'][key] / adds['torch'][key]:.2f} × PyTorch" if with_torch else "-"
        table.add_row(title, "-", cells.get("torch", "-"), cells["ember"], against)
    Console().print(table)
    if not with_torch:
        print("PyTorch is not installed here: `make oracle` puts it beside the environment.")
    if options.json:
        Path(options.json).write_text(json.dumps({"import": imports, "add": adds}, indent=2))


if __name__ == "__main__":
    main()
