"""Train the same digits script four ways with Ember, and compare what comes out.

On the CPU, on one GPU, split over two GPUs, and in half precision. Where there is no GPU, or only
one, they are simulated. Exits with 1 if a run goes wrong: the loss curves of the CPU and of a GPU
in full precision must agree, and every run must reach 97 % on the test images.
"""

import json
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

import ember

HERE = Path(__file__).resolve().parent
OUTPUT = HERE / "output"
NEEDED_ACCURACY = 0.97
# A simulated GPU computes with the CPU's own kernels; a real one adds in another order, and the
# difference grows from step to step.
TOLERANCE = {"simulated": 1e-5, "real": 5e-2}
console = Console(width=None if sys.stdout.isatty() else 110)


class Run:
    """One way of running the script: a title, the script's options, and how many GPUs it needs."""

    def __init__(self, title, options, gpus=0, ledger=False):
        self.title, self.options, self.gpus, self.ledger = title, options, gpus, ledger
        self.curve = OUTPUT / f"{'_'.join(title.lower().split())}.json"
        self.figures = {}

    def simulated(self, real_gpus):
        """Whether this run's GPUs are simulated."""
        return self.gpus > real_gpus

    def start(self, real_gpus):
        """Run the script in a process of its own, progress bars and all."""
        command = [sys.executable, "-m", "ember", "run"]
        if self.simulated(real_gpus):
            command += ["--gpus", f"{self.gpus}x1GiB"]
        if self.ledger:
            command += ["--ledger"]
        command += [str(HERE / "digits.py"), *self.options]
        console.rule(f"[bold]{self.title}")
        shown = " ".join(["python", *command[1:]]).replace(f"{Path.cwd()}/", "")
        console.print(f"$ {shown}", style="dim", highlight=False, soft_wrap=True)
        subprocess.run([*command, "--curve", str(self.curve)], check=True)
        self.figures = json.loads(self.curve.read_text())


def largest_difference(one, other):
    """The largest difference between two loss curves at one step."""
    pairs = zip(one.figures["loss"], other.figures["loss"], strict=True)
    return max(abs(a - b) for a, b in pairs)


def summary(runs, real_gpus):
    """A table of what each run reached and took."""
    note = "* simulated" if any(run.simulated(real_gpus) for run in runs) else None
    table = Table(title="The same script, four ways", caption=note)
    table.add_column("run")
    for name in ("first loss", "last loss", "accuracy", "seconds", "off CPU's curve"):
        table.add_column(name, justify="right")
    table.add_column("memory, at most")
    for run in runs:
        figures = run.figures
        memory = figures["memory"].items()
        used = [f"{name.split()[0]} {count / 2**20:.2f} MiB" for name, count in memory]
        table.add_row(
            run.title + ("*" if run.simulated(real_gpus) else ""),
            f"{figures['loss'][0]:.4f}",
            f"{figures['loss'][-1]:.4f}",
            f"{figures['accuracy']:.2%}",
            f"{figures['seconds']:.1f}",
            f"{largest_difference(runs[0], run):.1e}",
            "\n".join(used) or "-",
        )
    return table


def draw(runs, path):
    """The loss curves as one picture."""
    import matplotlib

    matplotlib.use("Agg")  # a picture, no window
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for run, style in zip(runs, ("-", "--", ":", "-."), strict=True):
        losses = run.figures["loss"]
        axes.plot(range(1, len(losses) + 1), losses, style, label=run.title, linewidth=1.8)
    axes.set(xlabel="step", ylabel="cross-entropy", yscale="log", title="Digits, trained four ways")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def complaints(runs, real_gpus):
    """What went wrong, in words."""
    found = []
    for run in runs:
        if run.figures["accuracy"] < NEEDED_ACCURACY:
            found.append(f"{run.title}: {run.figures['accuracy']:.2%} of the test images are right")
    for run in runs[1:3]:
        limit = TOLERANCE["simulated" if run.simulated(real_gpus) else "real"]
        if (difference := largest_difference(runs[0], run)) > limit:
            found.append(f"{run.title}: the loss is off the CPU's by {difference:.1e} > {limit}")
    return found


def main():
    OUTPUT.mkdir(exist_ok=True)
    real_gpus = ember.cuda.device_count()
    runs = [
        Run("CPU", ["--device", "cpu"]),
        Run("One GPU", ["--device", "cuda"], gpus=1),
        Run("Split over two GPUs", ["--device", "split"], gpus=2, ledger=True),
        Run("Half precision", ["--device", "cuda", "--amp"], gpus=1),
    ]
    for run in runs:
        run.start(real_gpus)
    console.rule("[bold]Summary")
    console.print(summary(runs, real_gpus))
    picture = OUTPUT / "digits.png"
    draw(runs, picture)
    console.print(f"The loss curves are in {picture}", soft_wrap=True)
    wrong = complaints(runs, real_gpus)
    for text in wrong:
        console.print(f"[red]wrong:[/red] {text}")
    if not wrong:
        console.print("[green]All runs agree and reach their accuracy.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
