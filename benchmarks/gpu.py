"""Ember and PyTorch on the same GPU in the same process: ops in microseconds, training steps in
milliseconds.

    python benchmarks/gpu.py [ops] [steps] [--torch-compile]

Wants a GPU, PyTorch beside Ember, and an otherwise idle machine. Each figure is the least of five
rounds; the last column says how much quicker Ember is.
"""

from __future__ import annotations

import argparse
import datetime
import math
import time

import numpy as np

import ember
import torch as pytorch

BOTH = (ember, pytorch)


def synchronize():
    """Wait for all GPU work."""
    for torch in BOTH:
        torch.cuda.synchronize()


def seconds(function, repeats, rounds=5):
    """The time of a call, in the best of some rounds."""
    for _ in range(4):
        function()
    synchronize()
    best = math.inf
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeats):
            function()
        synchronize()
        best = min(best, (time.perf_counter() - start) / repeats)
    return best


def row(name, unit, scale, times):
    """One line of the table."""
    cells = " | ".join(
        f"{t * scale:10.1f}" if unit == "us" else f"{t * scale:10.3f}" for t in times
    )
    print(f"| {name:36} | {unit} | {cells} | {times[-1] / times[0]:5.2f} |", flush=True)


def array(torch, *shape, dtype="float32"):
    """The same normal numbers for both."""
    made = np.random.default_rng(0).standard_normal(shape, np.float32)
    return torch.from_numpy(made).to(getattr(torch, dtype)).cuda()


def cases(torch):
    """(name, function) of each op."""
    functional = torch.nn.functional
    few, many = array(torch, 4), array(torch, 1 << 26)
    rows, square = array(torch, 65536, 1024), array(torch, 4096, 4096, dtype="bfloat16")
    half, weight = array(torch, 16384, 768, dtype="bfloat16"), array(torch, 768, dtype="bfloat16")
    small = array(torch, 64, 64)
    yield "add of 4", lambda: few + few
    yield "add of 64M", lambda: many + many
    yield "gelu of 64M", lambda: functional.gelu(many)
    yield "sum of 64M", lambda: many.sum()
    yield "softmax 65536x1024", lambda: functional.softmax(rows, -1)
    yield "sum of columns 65536x1024", lambda: rows.sum(0)
    yield "sum of rows 65536x1024", lambda: rows.sum(1)
    yield "transposed copy 65536x1024", lambda: rows.t().contiguous()
    yield "layer_norm bf16 16384x768", lambda: functional.layer_norm(half, (768,), weight, weight)
    yield "bias bf16 16384x768", lambda: half + weight
    yield "dropout bf16 16384x768", lambda: functional.dropout(half, 0.1)
    yield "randn 64M", lambda: torch.randn(1 << 26, device="cuda")
    yield "matmul bf16 4096", lambda: square @ square
    yield "matmul f32 64", lambda: small @ small
    for dtype in ("float32", "float16"):
        image = array(torch, 32, 64, 56, 56, dtype=dtype)
        kernel = array(torch, 64, 64, 3, 3, dtype=dtype)
        yield (
            f"conv 3x3 {dtype} 32x64x56x56",
            lambda x=image, w=kernel: functional.conv2d(x, w, padding=1),
        )
    yield "item", lambda: few[0].item()


def multilayer(torch):
    """A small network and its batch."""
    nn = torch.nn
    layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
    return nn.Sequential(*layers), torch.randn(64, 784), torch.randint(0, 10, (64,))


def residual(torch, width=64, blocks=6):
    """A small residual network of convolutions and its images."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = (
                nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width))
                for _ in range(2)
            )

        def forward(self, x):
            return (x + self.two(self.one(x).relu())).relu()

    stem = [nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    end = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
    model = nn.Sequential(*stem, *(Block() for _ in range(blocks)), *end)
    return model, torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))


def transformer(torch, width=256, layers=4, heads=4, length=128, words=1000):
    """A small GPT and its tokens."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, time, _ = x.shape
            parts = self.joint(self.first(x)).split(width, 2)
            q, k, v = (p.view(batch, time, heads, -1).transpose(1, 2) for p in parts)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, time, width))
            return x + self.down(functional.gelu(self.up(self.second(x))))

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, tokens):
            places = torch.arange(tokens.shape[1], device=tokens.device)
            made = self.blocks(self.tokens(tokens) + self.places(places))
            return self.head(self.norm(made)).reshape(-1, words)

    tokens = torch.randint(0, words, (8, length + 1))
    return Network(), tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)


def training(torch, make):
    """A function that does one training step and returns its loss."""
    torch.manual_seed(0)
    model, inputs, targets = make(torch)
    model, inputs, targets = model.cuda(), inputs.cuda(), targets.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    return step


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["ops", "steps"])
    parser.add_argument("--torch-compile", action="store_true", help="PyTorch's compiler too")
    options = parser.parse_args()
    today = datetime.date.today().isoformat()
    print(f"{today}, {pytorch.cuda.get_device_name(0)}, PyTorch {pytorch.__version__}")
    if "ops" in options.parts:
        print("| op | | Ember | PyTorch | Ember is quicker by |")
        for (name, ours), (_, theirs) in zip(cases(ember), cases(pytorch), strict=True):
            row(name, "us", 1e6, [seconds(f, 30) for f in (ours, theirs)])
    if "steps" not in options.parts:
        return
    print("| training step | | Ember | PyTorch | Ember is quicker by |")
    for make in (multilayer, residual, transformer):
        eager = [training(torch, make) for torch in BOTH]
        theirs = seconds(eager[1], 20)
        row(f"{make.__name__}, eager", "ms", 1e3, [seconds(eager[0], 20), theirs])
        compiled = ember.compile(training(ember, make))
        row(f"{make.__name__}, compiled by Ember", "ms", 1e3, [seconds(compiled, 20), theirs])
        if options.torch_compile:
            both = pytorch.compile(training(pytorch, make))
            row(f"{make.__name__}, both compiled", "ms", 1e3,
                [seconds(compiled, 20), seconds(both, 20)])  # fmt: skip
        ours, theirs = (training(torch, make) for torch in BOTH)
        losses = [[float(step()) for _ in range(3)] for step in (ours, theirs)]
        assert np.allclose(*losses, rtol=2e-3), losses
        print(f"  first losses {losses[0]}, PyTorch's {losses[1]}")


if __name__ == "__main__":
    main()
