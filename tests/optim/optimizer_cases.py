"""Optimizers with their options, on one small regression, for recorded values and live comparison.

`python tests/optim/optimizer_cases.py` records the values anew; it needs PyTorch.
"""

import json
import pathlib

RECORDED = pathlib.Path(__file__).with_name("optimizer_values.json")
STEPS = 10

CASES = {
    "SGD": ("SGD", {}),
    "SGD momentum": ("SGD", {"lr": 0.05, "momentum": 0.9}),
    "SGD nesterov": ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "SGD dampening": ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.5}),
    "SGD maximize": ("SGD", {"lr": 0.01, "maximize": True, "weight_decay": 0.1}),
    "SGD fused": ("SGD", {"lr": 0.05, "momentum": 0.9, "fused": True}),
    "Adam": ("Adam", {"lr": 0.05}),
    "Adam amsgrad": ("Adam", {"lr": 0.05, "amsgrad": True, "weight_decay": 0.1}),
    "Adam maximize": ("Adam", {"lr": 0.05, "maximize": True}),
    "Adam fast": ("Adam", {"lr": 0.05, "betas": (0.2, 0.4), "eps": 0.01}),
    "Adam decoupled": ("Adam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "Adam fused": ("Adam", {"lr": 0.05, "fused": True}),
    "AdamW": ("AdamW", {"lr": 0.05}),
    "AdamW amsgrad": ("AdamW", {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True}),
    "Adamax": ("Adamax", {"lr": 0.05}),
    "Adamax decay": ("Adamax", {"lr": 0.05, "weight_decay": 0.1, "maximize": True}),
    "NAdam": ("NAdam", {"lr": 0.05}),
    "NAdam decay": ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "momentum_decay": 0.01}),
    "NAdam decoupled": (
        "NAdam",
        {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True},
    ),
    "RAdam": ("RAdam", {"lr": 0.05}),
    "RAdam short": ("RAdam", {"lr": 0.05, "betas": (0.8, 0.7), "weight_decay": 0.1}),
    "RAdam decoupled": (
        "RAdam",
        {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True},
    ),
    "RMSprop": ("RMSprop", {"lr": 0.05}),
    "RMSprop momentum": ("RMSprop", {"lr": 0.05, "momentum": 0.5, "weight_decay": 0.1}),
    "RMSprop centered": ("RMSprop", {"lr": 0.05, "centered": True}),
    "RMSprop both": ("RMSprop", {"lr": 0.05, "centered": True, "momentum": 0.5, "maximize": True}),
    "Adagrad": ("Adagrad", {"lr": 0.05}),
    "Adagrad decay": (
        "Adagrad",
        {"lr": 0.05, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2},
    ),
    "Adadelta": ("Adadelta", {}),
    "Adadelta decay": ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1}),
    "ASGD": ("ASGD", {"lr": 0.05}),
    "ASGD averaged": ("ASGD", {"lr": 0.05, "t0": 3, "lambd": 0.1, "weight_decay": 0.1}),
    "Rprop": ("Rprop", {"lr": 0.01}),
    "Rprop bounded": ("Rprop", {"lr": 0.01, "etas": (0.3, 1.5), "step_sizes": (0.005, 0.03)}),
    "LBFGS": ("LBFGS", {"lr": 0.1, "max_iter": 4}),
    "LBFGS wolfe": ("LBFGS", {"max_iter": 4, "line_search_fn": "strong_wolfe"}),
    "LBFGS short": ("LBFGS", {"lr": 0.2, "max_iter": 3, "history_size": 2, "max_eval": 2}),
    "Adafactor": ("Adafactor", {}),
    "Adafactor decay": ("Adafactor", {"lr": 0.05, "weight_decay": 0.1, "d": 1.5}),
    "Muon": ("Muon", {"lr": 0.02}),
    "Muon plain": (
        "Muon",
        {"lr": 0.02, "nesterov": False, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 4},
    ),
}


def wave(torch, shape, start, dtype):
    """Numbers in [-1, 1] that look like nothing in particular."""
    count = 1
    for size in shape:
        count *= size
    return torch.tensor(
        [((start + i) * 0.7390851332) % 2 - 1 for i in range(count)], dtype=dtype
    ).reshape(shape)


def problem(torch, dtype):
    """Two matrices and a function of their loss; a vector more unless they must be matrices."""
    x, y = wave(torch, (8, 4), 1, dtype), wave(torch, (8, 3), 50, dtype)
    w = torch.nn.Parameter(wave(torch, (5, 4), 80, dtype))
    v = torch.nn.Parameter(wave(torch, (3, 5), 120, dtype))
    return w, v, lambda: ((x @ w.t()).tanh() @ v.t() - y).pow(2).mean()


def numbers(value):
    """A state entry as plain numbers: [dtype, shape, sum] of a tensor, lists of lists."""
    if hasattr(value, "tolist"):
        return [str(value.dtype), list(value.shape), value.sum().item()]
    if isinstance(value, (list, tuple)):
        return [numbers(entry) for entry in value]
    return value


def train(torch, name, dtype="float64", steps=STEPS):
    """Ten steps: losses, final parameters, the state by parameter, and the options."""
    kind, options = CASES[name]
    w, v, loss_of = problem(torch, getattr(torch, dtype))
    optimizer = getattr(torch.optim, kind)([w, v], **options)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        return loss

    for _ in range(steps):
        losses.append(optimizer.step(closure).item())
    saved = optimizer.state_dict()
    return {
        "losses": losses,
        "w": w.reshape(-1).tolist(),
        "v": v.reshape(-1).tolist(),
        "state": {
            str(key): {name: numbers(value) for name, value in entry.items()}
            for key, entry in saved["state"].items()
        },
        "groups": [
            {key: numbers(value) for key, value in g.items()} for g in saved["param_groups"]
        ],
    }


def rounded(tree):
    """A tree with its floats to ten digits, which is what a JSON file needs."""
    if isinstance(tree, float):
        return float(f"{tree:.10g}")
    if isinstance(tree, dict):
        return {key: rounded(value) for key, value in tree.items()}
    return [rounded(value) for value in tree] if isinstance(tree, list) else tree


def record():
    """Write what PyTorch gives to the file of recorded values."""
    import torch

    lines = [
        f"{json.dumps(name)}: {json.dumps(rounded(train(torch, name)), separators=(',', ':'))}"
        for name in CASES
    ]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    record()
