"""The `ember` command: what it understands, and who does the work."""

from __future__ import annotations

import importlib
import sys

from ember.cli.info import info
from ember.cli.run import USAGE as RUN_USAGE
from ember.cli.run import UsageError, report, run
from ember.version import __version__, ember_version

HELP = f"""\
usage: ember COMMAND [options]

commands:
  run    run a Python program with Ember as its `torch`, on real or simulated GPUs
         {RUN_USAGE.removeprefix("usage: ")}
  report run a program and write a page about it: memory over time, copies, kernels, what is where
         ember report [-o FILE] [--gpus N[xMEM][:NAME]] (SCRIPT | -c CODE | -m MODULE) [arguments]
  plan   where a program's model would go on GPUs that need not be here
         ember plan SCRIPT --gpus MACHINE [options]
  info   show versions, devices and memory
         ember info [--json]

options:
  --version   show the version and exit
  --help      show this text and exit; `ember run --help` tells more"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command in `arguments` (by default the process's) and return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    command, rest = (arguments[0], arguments[1:]) if arguments else ("--help", [])
    try:
        if command == "run":
            return run(rest)
        if command == "report":
            return report(rest)
        if command == "plan":
            planned: int = importlib.import_module("ember.cli.plan").plan(rest)
            return planned
        if command == "info":
            return info(rest)
    except UsageError as error:
        print(f"ember {command}: error: {error}", file=sys.stderr)
        return 2
    if command in ("--version", "-V"):
        print(f"ember {ember_version} (PyTorch interface {__version__.partition('+')[0]})")
        return 0
    if command in ("--help", "-h"):
        print(HELP)
        return 0 if arguments else 2
    print(f"ember: error: there is no command {command!r}\n\n{HELP}", file=sys.stderr)
    return 2
