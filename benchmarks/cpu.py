"""Ember beside PyTorch on the CPU, workload by workload.

    make oracle                                     # PyTorch, beside the environment
    python benchmarks/cpu.py [--rounds 3] [--threads 1] [--only REGEX] [--picture FILE]
        [--compile]

The two run in turns, each time in a process of its own, so that a slow moment of the machine falls
on both; a ratio is that of the medians over rounds, above 1 where Ember is faster. With one thread
the times are CPU times, which a busy machine disturbs least; the last two columns are the wall
times of first calls. Ember's compiled steps are compared with PyTorch's eager ones, with
`--compile` with its compiled ones. `--picture` draws the ratios.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
FRAMEWORKS = ("ember", "torch")


def run(framework, options):
    """The figures of one process."""
    path = os.pathsep.join([str(ROOT), str(ROOT / ".oracle"), os.environ.get("PYTHONPATH", "")])
    threads = {f"{name}_NUM_THREADS": str(options.threads) for name in ("OMP", "OPENBLAS", "MKL")}
    command = [sys.executable, str(ROOT / "benchmarks" / "workloads.py"), framework]
    command += ["--threads", str(options.threads), "--only", options.only]
    command += ["--compile"] if options.compile else []
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **threads, "PYTHONPATH": path}
    )
    if "No module named 'torch'" in done.stderr:
        sys.exit("PyTorch, which this compares with, is not here: run `make oracle` first")
    if done.returncode:
        sys.exit(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def medians(options):
    """name → framework → kind of figure → its median."""
    found = {}
    for _ in track(range(options.rounds), "rounds"):
        for framework in FRAMEWORKS:
            for figure in run(framework, options):
                kinds = found.setdefault(figure.pop("name"), {}).setdefault(framework, {})
                for kind, value in figure.items():
                    kinds.setdefault(kind, []).append(value)
    for both in found.values():
        for kinds in both.values():
            kinds.update((kind, statistics.median(values)) for kind, values in kinds.items())
    return found


def picture(ratios, file):
    """Bars of the ratios, on a logarithmic axis around 1."""
    import matplotlib.pyplot as plt

    names, values = list(ratios)[::-1], list(ratios.values())[::-1]
    figure, axes = plt.subplots(figsize=(9, 0.28 * len(names) + 1.2), layout="constrained")
    colors = ["#2a7f62" if v >= 1 else "#b5533c" for v in values]
    axes.barh(names, [v - 1 for v in values], left=1, color=colors)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("PyTorch's time / Ember's time (above 1: Ember is faster)")
    figure.savefig(file, dpi=150)


def main():
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="names that this expression finds")
    parser.add_argument("--compile", action="store_true", help="compile PyTorch's steps too")
    parser.add_argument("--picture")
    options = parser.parse_args()
    found = medians(options)
    table = Table("workload", "Ember, ms", "PyTorch, ms", "PyTorch / Ember", "first", "PyTorch's")
    for column in table.columns[1:]:
        column.justify = "right"
    ratios = {}
    for name, both in found.items():
        ember, torch = both["ember"], both["torch"]
        if "memory" in ember:
            table.add_section()
            row = [ember["memory"], torch["memory"]]
            table.add_row(name, *(f"{m:.0f}" for m in row), f"{row[1] / row[0]:.2f}")
            continue
        ratio = torch["seconds"] / ember["seconds"]
        row = [f"{f['seconds'] * 1e3:.3f}" for f in (ember, torch)] + [f"{ratio:.2f}"]
        if "first" in ember:  # not the import
            ratios[name] = ratio
            row += [f"{f['first'] * 1e3:.0f}" for f in (ember, torch)]
        table.add_row(name, *row)
    mean = math.exp(statistics.fmean(math.log(r) for r in ratios.values()))
    table.add_section()
    table.add_row("geometric mean", "", "", f"{mean:.2f}")
    Console(width=110).print(table)
    if options.picture:
        picture(ratios, options.picture)


if __name__ == "__main__":
    main()
