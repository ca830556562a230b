"""Trains models by plans on eight simulated GPUs, whose memories it sets; prints what happened."""

import copy
import gc
import json
import threading

import ember as torch
from ember import nn
from ember.backends import base

MIB = 1 << 20


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.attention = nn.MultiheadAttention(size, 2, batch_first=True)
        self.first, self.second = nn.LayerNorm(size), nn.LayerNorm(size)
        self.widen, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.narrow(nn.functional.gelu(self.widen(self.second(x))))


class Transformer(nn.Module):
    """24 layers; a weight of its own, a factory in forward, and a head tied to the embedding."""

    def __init__(self, size=32, tied=True):
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, size), nn.Parameter(torch.randn(8, size))
        self.layers = nn.ModuleList(Block(size) for _ in range(24))
        self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, 50, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places[: tokens.shape[1]] + 0.01 * torch.arange(32)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class VeryBigModule(nn.Module):
    """Two weights, and moves between GPUs in its forward."""

    def __init__(self):
        super().__init__()
        self.giant1 = nn.Parameter(torch.randn(2000, 400))
        self.giant2 = nn.Parameter(torch.randn(400, 2000))

    def forward(self, x):
        x = self.giant1.mm(x.cuda(0))
        return self.giant2.mm(x.cuda(1))


class Ladder(nn.Module):
    """Values that skip stages, a buffer, in-place writes, arguments by name, a dict of results."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.up = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.scale = nn.Parameter(torch.ones(64))
        self.register_buffer("mask", torch.linspace(0, 1, 64))

    def forward(self, x, shift=None):
        saved = []
        for layer in self.down:
            x = torch.tanh(layer(x))
            saved.append(x)
        for layer in self.up:
            x = torch.tanh(layer(x)) + saved.pop() * self.mask
        x = x * self.scale
        x += 1
        x[:, 0] = 0.5
        return {"out": x + shift}


def token_loss(output, targets):
    return nn.functional.cross_entropy(output.flatten(0, 1), targets.flatten())


def made(**options):
    torch.manual_seed(0)
    return Transformer(**options)


def on_one_device(model, inputs, targets, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        loss = token_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def set_memories(sizes):
    """Give the first GPUs so much memory; the plan may use those."""
    gc.collect()  # what the run before has left in cycles
    for index, size in enumerate(sizes):
        memory = base.backend_of("cuda").memory(index)
        memory.capacity = memory.allocated + int(size * MIB)
        torch.cuda.reset_peak_memory_stats(index)
    return [torch.device("cuda", index) for index in range(len(sizes))]


def planned(sizes, inputs, targets, steps, tied=True, loss=None, **options):
    """Losses, peaks predicted and measured, utilisation, what was done."""
    model = made(tied=tied)
    devices = set_memories(sizes)
    before = [torch.cuda.memory_allocated(d) for d in devices]
    plan = torch.devices.plan(model, inputs, devices, loss=loss, **options)
    model = plan.apply(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = [plan.step(token_loss, inputs, targets, optimizer).item() for _ in range(steps)]
    return {
        "losses": losses,
        "predicted": plan.peaks,
        "measured": {
            name: torch.cuda.max_memory_allocated(name) - before[torch.device(name).index]
            for name in plan.peaks
        },
        "busy": plan.utilisation,
        "busy_measured": plan.measured_utilisation,
        "seconds": plan.seconds - plan.found.optimizer_seconds,
        "measured_seconds": plan.measured_seconds,
        "treatments": plan.treatments,
        "device_map": plan.device_map,
        "micro_batches": plan.micro_batches,
        "placed": {n: str(p.device) for n, p in model.named_parameters()},
    }


def meta_loss(output):
    return token_loss(output, torch.zeros(output.shape[:2], dtype=torch.int64))


def very_big():
    """The two-parameter module with an ordinary loop of training."""
    torch.manual_seed(0)
    model, x = VeryBigModule(), torch.randn(400, 8, requires_grad=True)
    want = model.giant2.detach() @ (model.giant1.detach() @ x.detach())
    plan = torch.devices.plan(model, x, set_memories([24, 24]), micro_batches=1)
    model = plan.apply(model)
    output = model(x)
    output.square().mean().backward()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    optimizer.step()
    return {
        "right": torch.allclose(output.cpu(), want, rtol=1e-4, atol=1e-2),
        "output": str(output.device),
        "weights": [str(model.giant1.device), str(model.giant2.device)],
        "gradients": [str(model.giant1.grad.device), str(model.giant2.grad.device)],
        "of the input": str(x.grad.device),
        "state": str(optimizer.state[model.giant2]["exp_avg"].device),
    }


def ladder():
    """Gradients of plan.step and of an ordinary loop, and a step that fails."""
    torch.manual_seed(0)
    model, inputs = Ladder(), {"x": torch.randn(32, 64), "shift": torch.randn(32, 64)}
    plain = copy.deepcopy(model)

    def loss(output):
        return output["out"].square().mean()

    def failing(output):
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("the loss of the second micro-batch")
        return loss(output)

    def difference():
        pairs = zip(model.parameters(), plain.parameters(), strict=True)
        found = max((a.grad.cpu() - b.grad).abs().max().item() for a, b in pairs)
        for parameter in model.parameters():
            parameter.grad = None
        return found

    loss(plain(**inputs)).backward()
    plan = torch.devices.plan(model, inputs, set_memories([0.2] * 3), loss=loss, micro_batches=4)
    model = plan.apply(model)
    plan.step(loss, inputs)
    found = {"stages": len(plan.found.parts), "step": difference()}
    loss(model(**inputs)).backward()
    found["loop"] = difference()
    calls, threads = [], threading.active_count()
    try:
        plan.step(failing, inputs)
    except ValueError as error:
        found["error"] = str(error)
    found["threads left"] = threading.active_count() - threads
    for parameter in model.parameters():
        parameter.grad = None
    plan.step(loss, inputs)
    found["step after the error"] = difference()
    return found


def main():
    torch.cuda.simulate(8)
    torch.manual_seed(1)
    inputs, targets = torch.randint(0, 50, (16, 8)), torch.randint(0, 50, (16, 8))
    steps = 2
    runs = {
        "2, 1F1B": ([8, 8], {"micro_batches": 4}),
        "2, GPipe": ([8, 8], {"micro_batches": 4, "schedule": "GPipe"}),
        "3 that differ": ([3, 4, 2.5], {"micro_batches": 3}),
        "4, free": ([2.5] * 4, {}),
        "8": ([2] * 8, {"micro_batches": 8}),
        "2, recompute": ([3.6, 3.6], {"micro_batches": 1, "remedies": ("recompute",)}),
        "2, offload": ([3.6, 3.6], {"micro_batches": 1, "remedies": ("offload",)}),
        "2, host": ([1.2, 1.2], {"micro_batches": 2}),
    }
    found = {"one device": on_one_device(made(), inputs, targets, steps)}
    found["untied"] = on_one_device(made(tied=False), inputs, targets, steps)
    for name, (sizes, options) in runs.items():
        found[name] = planned(sizes, inputs, targets, steps, loss=meta_loss, **options)
    options = {"micro_batches": 4, "tied": False, "loss": meta_loss}
    found["4, untied"] = planned([2.5] * 4, inputs, targets, steps, **options)
    found["very big"] = very_big()
    found["ladder"] = ladder()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
