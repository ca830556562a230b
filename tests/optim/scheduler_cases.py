"""Schedules with their arguments, for recorded rates and live comparison.

`python tests/optim/scheduler_cases.py` records the rates anew; it needs PyTorch.
"""

import json
import pathlib
import warnings

RECORDED = pathlib.Path(__file__).with_name("scheduler_values.json")
STEPS = 13
LOSSES = [1.0, 0.8, 0.9, 0.95, 0.7, 0.71, 0.72, 0.73, 0.5, 0.6, 0.6, 0.6, 0.6]


class Power:
    """A callable object, whose attribute is part of a schedule's state."""

    def __init__(self, base):
        self.base = base

    def __call__(self, epoch):
        return self.base**epoch


CASES = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    "LambdaLR list": lambda s, o: s.LambdaLR(o, [Power(0.9), lambda epoch: 1 + epoch]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.9),
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.1),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [4, 2, 4], 0.1),
    "ConstantLR": lambda s, o: s.ConstantLR(o),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.25, 0.75, 4),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 5, 0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 5, 2.0),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 1.0, total_steps=16),
    "OneCycleLR three": lambda s, o: s.OneCycleLR(
        o, [1.0, 2.0], epochs=4, steps_per_epoch=4, three_phase=True, anneal_strategy="linear"
    ),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3),
    "CyclicLR triangular2": lambda s, o: s.CyclicLR(
        o, [0.01, 0.02], [0.1, 0.3], 3, 5, mode="triangular2"
    ),
    "CyclicLR exp_range": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, mode="exp_range", gamma=0.9),
    "CyclicLR scale_fn": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, 3, scale_fn=lambda x: 1 / x, cycle_momentum=False
    ),
    "CyclicLR object": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, 3, scale_fn=Power(0.8), scale_mode="iterations"
    ),
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(
        o, patience=1, cooldown=1, min_lr=1e-3, factor=0.5
    ),
    "ReduceLROnPlateau max": lambda s, o: s.ReduceLROnPlateau(
        o, mode="max", patience=0, threshold_mode="abs", threshold=0.1, min_lr=[0.01, 0.02]
    ),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)], [3, 7]
    ),
    "SequentialLR restarts": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1.0, 2), s.CosineAnnealingWarmRestarts(o, 3)], [3]
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)], o
    ),
}

# Schedules that start at a later epoch, or are sent to one
RESUMED = {
    "StepLR": lambda s, o, e: s.StepLR(o, 2, 0.1, e),
    "MultiStepLR": lambda s, o, e: s.MultiStepLR(o, [2, 4], 0.1, e),
    "ConstantLR": lambda s, o, e: s.ConstantLR(o, 0.5, 4, e),
    "LinearLR": lambda s, o, e: s.LinearLR(o, 0.5, 1.0, 4, e),
    "ExponentialLR": lambda s, o, e: s.ExponentialLR(o, 0.5, e),
    "CosineAnnealingLR": lambda s, o, e: s.CosineAnnealingLR(o, 5, 0.01, e),
    "CosineAnnealingWarmRestarts": lambda s, o, e: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01, e),
    "PolynomialLR": lambda s, o, e: s.PolynomialLR(o, 5, 2.0, e),
    "LambdaLR": lambda s, o, e: s.LambdaLR(o, lambda k: 0.9**k, e),
    "MultiplicativeLR": lambda s, o, e: s.MultiplicativeLR(o, lambda k: 0.9, e),
    "CyclicLR": lambda s, o, e: s.CyclicLR(o, 0.01, 0.1, 3, cycle_momentum=False, last_epoch=e),
}


def optimizer_of(torch, kind="SGD"):
    """An optimizer of two groups with different rates."""
    groups = [
        {"params": [torch.nn.Parameter(torch.ones(2))]},
        {"params": [torch.nn.Parameter(torch.ones(2))], "lr": 0.2},
    ]
    if kind == "Adam":
        return torch.optim.Adam(groups, lr=0.1)
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9)


def run(torch, name, kind):
    """The rates and momenta after each step; the state in the middle and at the end."""
    optimizer = optimizer_of(torch, kind)
    scheduler = CASES[name](torch.optim.lr_scheduler, optimizer)
    key = "betas" if kind == "Adam" else "momentum"
    rates, states = [[[g["lr"], g[key]] for g in optimizer.param_groups]], []
    for step in range(STEPS):
        optimizer.step()
        scheduler.step(*([LOSSES[step]] if name.startswith("Reduce") else []))
        rates.append([[g["lr"], g[key]] for g in optimizer.param_groups])
        assert scheduler.get_last_lr() == [g["lr"] for g in optimizer.param_groups]
        if step in (4, STEPS - 1):
            states.append(scheduler.state_dict())
    return {"rates": rates, "states": states}


def resume(torch, name, epoch):
    """The rate of a schedule that starts at `epoch`, and after three steps."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.03)
    optimizer.param_groups[0]["initial_lr"] = 0.1
    scheduler = RESUMED[name](torch.optim.lr_scheduler, optimizer, epoch)
    rates = [*scheduler.get_last_lr()]
    for _ in range(3):
        optimizer.step()
        scheduler.step()
        rates += scheduler.get_last_lr()
    return rates


def jump(torch, name):
    """The rates of a schedule that is sent to epochs out of order."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    scheduler = RESUMED[name](torch.optim.lr_scheduler, optimizer, -1)
    rates = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for epoch in (3, 1, 7, 12, 2):
            scheduler.step(epoch)
            rates += scheduler.get_last_lr()
        scheduler.step()
    return rates + scheduler.get_last_lr()


def everything(torch):
    """All of the above, through JSON: tuples as lists, keys as strings, functions never."""
    found = {
        "runs": {
            f"{name} {kind}": run(torch, name, kind) for name in CASES for kind in ("SGD", "Adam")
        },
        "resumed": {name: [resume(torch, name, e) for e in range(6)] for name in RESUMED},
        "jumps": {name: jump(torch, name) for name in RESUMED},
    }
    return json.loads(json.dumps(found))


def record():
    """Write what PyTorch gives to the file of recorded rates."""
    import torch

    parts = []
    for part, entries in everything(torch).items():
        lines = [
            f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in entries.items()
        ]
        parts.append(f"{json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n}")
    RECORDED.write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    record()
