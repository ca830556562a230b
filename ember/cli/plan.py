"""`ember plan`: where a program's model would go on a machine that need not be there."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import Any

from ember import torch_alias
from ember.backends import sim
from ember.cli.run import UsageError
from ember.core.executor import current_executor
from ember.device import META
from ember.devices.memory import MemoryTracker
from ember.nn.modules.module import register_module_forward_pre_hook
from ember.optim.adamw import AdamW
from ember.optim.optimizer import Optimizer

USAGE = "usage: ember plan SCRIPT --gpus MACHINE [options] [-- arguments of the script]"
HELP = f"""\
{USAGE}

Run a program until it calls its model for the first time, and plan a training step of that model
and batch on the machine; the program goes no further.

  --gpus MACHINE        2x24GiB, 24GiB+8GiB@pcie, 8xH100@nvlink, 1024x80GiB:H100@nvlink
  --batch N             rows of a step (default: those of the program's call; on more than one
                        GPU of a kind, so many for each)
  --meta                make the program's tensors without data: for models that this machine
                        cannot hold
  --node N              GPUs in one machine (8); --network NAME joins machines (infiniband)
  --precision NAME      bfloat16 or float32, for what data, tensor and pipeline parallel would give
  --svg FILE            write the placement's drawing"""
VALUES = ("--gpus", "--batch", "--node", "--network", "--precision", "--svg")
MOST_PLACED = 8  # GPUs up to which the placement of each part is shown


class _Called(BaseException):
    """The model was called: the program has done its part."""


def plan(arguments: list[str]) -> int:
    """Plan what `arguments` name, and print it."""
    options, script, rest = _read(arguments)
    if "--help" in options:
        print(HELP)
        return 0
    if not script or "--gpus" not in options:
        raise UsageError(f"a script and --gpus are needed\n{USAGE}")
    planning = importlib.import_module("ember.devices.planning")
    machines = importlib.import_module("ember.devices.planning.machines")
    try:
        machine = machines.parse(options["--gpus"])
    except ValueError as error:
        raise UsageError(str(error)) from None
    model, sample, optimizer = _first_call(script, rest, machine, "--meta" in options)
    count = sum(p.numel() for p in model.parameters())
    print(f"{type(model).__name__} with {count:,} parameters, as {script} calls it\n")
    alike = len({(p.memory, p.figures) for p in machine.places}) == 1
    if len(machine.places) <= MOST_PLACED:
        _placed(planning, model, sample, optimizer, options)
    if alike and len(machine.places) > 1:
        names = {"batch": int, "node": int, "network": str, "precision": str}
        given = {n: of(options[f"--{n}"]) for n, of in names.items() if f"--{n}" in options}
        print(planning.what_if(model, sample, options["--gpus"], optimizer=optimizer, **given))
    elif len(machine.places) > MOST_PLACED:
        raise UsageError(f"more than {MOST_PLACED} GPUs must be alike, to be split by kinds")
    return 0


def _placed(planning: Any, model: Any, sample: Any, optimizer: Any, options: Any) -> None:
    try:
        found = planning.plan(model, sample, options["--gpus"], optimizer=optimizer)
    except RuntimeError as error:
        print(f"{error}\n")
        return
    print(f"{found}\n")
    if "--svg" in options:
        with open(options["--svg"], "w", encoding="utf-8") as file:
            file.write(found.drawing())


def _read(arguments: list[str]) -> tuple[dict[str, str], str, list[str]]:
    options: dict[str, str] = {}
    script, rest = "", list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name in VALUES:
            if not equals and not rest:
                raise UsageError(f"something must follow {word}\n{USAGE}")
            options[name] = value if equals else rest.pop(0)
        elif word in ("-h", "--help", "--meta"):
            options["--help" if word == "-h" else word] = ""
        elif word == "--":
            break
        elif word.startswith("-") or script:
            raise UsageError(f"cannot read {word}\n{USAGE}")
        else:
            script = word
    return options, script, rest


def _first_call(script: str, arguments: list[str], machine: Any, on_meta: bool) -> Any:
    """(model, arguments, optimizer) of the first call of a module with parameters."""
    found: list[Any] = []

    def called(module: Any, inputs: Any) -> None:
        if isinstance(current_executor(), MemoryTracker):
            return  # the program plans, or asks what fits
        if inputs and any(True for _ in module.parameters()):
            found.append((module, inputs, _optimizer_of(module)))
            raise _Called

    sim.configure(f"{min(len(machine.places), MOST_PLACED)}x{int(machine.places[0].memory)}b")
    torch_alias.install()
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.realpath(script)))
    try:
        with open(script, "rb") as file:
            code = compile(file.read(), os.path.abspath(script), "exec", dont_inherit=True)
    except OSError as error:
        raise UsageError(f"can't open {script}: {error.strerror}") from None
    handle = register_module_forward_pre_hook(called)
    names = {"__name__": "__main__", "__file__": os.path.abspath(script)}
    try:
        if on_meta:
            with META:
                exec(code, names)
        else:
            exec(code, names)
    except _Called:
        pass
    finally:
        handle.remove()
    if not found:
        raise UsageError(f"{script} has called no module with parameters and positional arguments")
    return found[0]


def _optimizer_of(model: Any) -> Any:
    """A maker of optimizers like the one that the program has for this model, or AdamW."""
    own = {id(p) for p in model.parameters()}
    for thing in gc.get_objects():
        if issubclass(type(thing), Optimizer) and any(
            id(p) in own for group in thing.param_groups for p in group["params"]
        ):
            kind = type(thing)
            learning_rate = thing.param_groups[0].get("lr", 1e-3)
            momentum = thing.defaults.get("momentum")
            more = {} if momentum is None else {"momentum": momentum}
            return lambda parameters: kind(parameters, lr=learning_rate, **more)
    return AdamW


__all__ = ["HELP", "USAGE", "plan"]
