"""How times grow with size, depth, batch and threads, in Ember and in PyTorch on the CPU.

    python benchmarks/scaling.py [--rounds 3] [--largest 8] [--picture FILE]

Four curves: `x * 2 + 1` on 1 to 10^largest numbers; a chain of 10 to 10^4 additions with its
backward; the training step of an MLP for batches of 1 to 4096; a product of 1024 x 1024 matrices
and the exponential of ten million numbers by 1 to all threads. Each process measures one framework,
in turns; a figure is the median over rounds of the least disturbed quarter of its calls.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FRAMEWORKS = ("ember", "torch")


def least(run, seconds=0.3):
    """The lower quartile of the wall time of a call."""
    run()
    run()
    times, stop = [], time.monotonic() + seconds
    while len(times) < 3 or (time.monotonic() < stop and len(times) < 200):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 4]


def sizes(torch, largest):
    """Numbers in a tensor → a function of them."""
    for power in range(largest + 1):
        x = torch.ones(10**power)
        yield 10**power, lambda x=x: x * 2 + 1


def depths(torch):
    """Operations in a chain → the chain and its backward."""
    for count in (10, 100, 1000, 10000):
        leaf = torch.ones(4, requires_grad=True)

        def run(leaf=leaf, count=count):
            leaf.grad = None
            x = leaf
            for _ in range(count):
                x = x + 1
            x.sum().backward()

        yield count, run


def batches(torch):
    """Images in a batch → the training step of an MLP."""
    nn = torch.nn
    layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters())
    for count in (1, 4, 16, 64, 256, 1024, 4096):
        images, labels = torch.randn(count, 784), torch.randint(10, (count,))

        def run(images=images, labels=labels):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()

        yield count, run


def threads(torch):
    """Threads → a product and an exponential of many numbers."""
    square, many = torch.randn(1024, 1024), torch.randn(10**7)
    count = 1
    while count <= (os.cpu_count() or 1):

        def run(count=count):
            torch.set_num_threads(count)
            return square @ square, many.exp()

        yield count, run
        count *= 2


def measure(framework, largest):
    """Print a line of JSON for each point of each curve."""
    torch = importlib.import_module(framework)
    torch.set_num_threads(1)
    curves = (
        ("size", sizes(torch, largest)),
        ("depth", depths(torch)),
        ("batch", batches(torch)),
        ("threads", threads(torch)),
    )
    for curve, points in curves:
        for place, run in points:
            print(json.dumps([curve, place, least(run)]), flush=True)


def gathered(rounds, largest):
    """curve → place → framework → seconds."""
    from rich.progress import track

    path = os.pathsep.join([str(ROOT), str(ROOT / ".oracle"), os.environ.get("PYTHONPATH", "")])
    found = {}
    for _ in track(range(rounds), "rounds"):
        for framework in FRAMEWORKS:
            command = [sys.executable, __file__, "--framework", framework]
            command += ["--largest", str(largest)]
            done = subprocess.run(
                command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
            )
            if "No module named 'torch'" in done.stderr:
                sys.exit("PyTorch, which this compares with, is not here: run `make oracle` first")
            if done.returncode:
                sys.exit(done.stderr)
            for line in done.stdout.splitlines():
                curve, place, seconds = json.loads(line)
                point = found.setdefault(curve, {}).setdefault(place, {})
                point.setdefault(framework, []).append(seconds)
    for points in found.values():
        for point in points.values():
            point.update((k, statistics.median(v)) for k, v in point.items())
    return found


def picture(found, file):
    """The four curves, both axes logarithmic."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(15, 3.6), layout="constrained")
    for axis, (curve, points) in zip(axes, found.items(), strict=True):
        for framework, label in zip(FRAMEWORKS, ("Ember", "PyTorch"), strict=True):
            axis.loglog(list(points), [p[framework] * 1e3 for p in points.values()], "o-")
            axis.lines[-1].set_label(label)
        axis.set_xlabel(curve)
        axis.set_ylabel("milliseconds")
        axis.legend()
    figure.savefig(file, dpi=150)


def main():
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--largest", type=int, default=8, help="the power of ten of the last size")
    parser.add_argument("--picture")
    parser.add_argument("--framework", choices=FRAMEWORKS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.framework:
        measure(options.framework, options.largest)
        return
    from rich.console import Console
    from rich.table import Table

    found = gathered(options.rounds, options.largest)
    table = Table("curve", "at", "Ember, ms", "PyTorch, ms", "PyTorch / Ember")
    for column in table.columns[1:]:
        column.justify = "right"
    for curve, points in found.items():
        for place, point in points.items():
            ember, torch = point["ember"], point["torch"]
            row = (f"{ember * 1e3:.4f}", f"{torch * 1e3:.4f}", f"{torch / ember:.2f}")
            table.add_row(curve, f"{place:,}", *row)
        table.add_section()
    Console(width=100).print(table)
    if options.picture:
        picture(found, options.picture)


if __name__ == "__main__":
    main()
