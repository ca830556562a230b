"""What watching costs: training steps with nothing on, inside a ledger, and inside a guard.

python benchmarks/device_sense.py [--rounds 15] [--only REGEX]

Off, on and guarded steps take turns, a handful of milliseconds each, so that a busy machine is busy
for all of them. A figure is the median of the ratios of neighbouring turns, in processor time.
"""

import argparse
import contextlib
import re
import statistics
import time

import ember as torch
from ember import nn


def training(model, x, y, device, loss_of=None, half=False):
    """A function that makes one training step; the batch is moved in each."""
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = loss_of or nn.CrossEntropyLoss()
    place = torch.device(device).type
    scaler = torch.amp.GradScaler(place, init_scale=1024.0) if half else None

    def step():
        optimizer.zero_grad()
        with torch.autocast(place, torch.bfloat16, enabled=half):
            loss = loss_of(model(x.to(device)).float(), y.to(device))
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    return step


def mlp(size, batch, device, half=False):
    model = nn.Sequential(
        nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size), nn.ReLU(), nn.Linear(size, 10)
    )
    return training(
        model, torch.randn(batch, size), torch.randint(0, 10, (batch,)), device, half=half
    )


def convolutions(batch, device):
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1),
        nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * 16 * 16, 10),
    )  # fmt: skip
    x, y = torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))
    return training(model, x, y, device)


class Tagger(nn.Module):
    """A transformer, with dropout, that names each token."""

    def __init__(self, width, layers):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        self.words, self.layers = nn.Embedding(500, width), nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, 20)

    def forward(self, x):
        return self.head(self.layers(self.words(x))).flatten(0, 1)


def transformer(device):
    x, y = torch.randint(0, 500, (8, 32)), torch.randint(0, 20, (256,))
    return training(Tagger(64, 2), x, y, device)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


def recurrent(device):
    return training(Recurrent(), torch.randn(16, 20, 32), torch.randint(0, 10, (16,)), device)


CASES = {
    "MLP 64, batch 32, cpu": lambda: mlp(64, 32, "cpu"),
    "MLP 64, batch 32, simulated GPU": lambda: mlp(64, 32, "cuda"),
    "MLP 512, batch 256, simulated GPU": lambda: mlp(512, 256, "cuda"),
    "MLP 512, bfloat16 and GradScaler": lambda: mlp(512, 256, "cuda", half=True),
    "CNN, batch 32, simulated GPU": lambda: convolutions(32, "cuda"),
    "transformer, cpu": lambda: transformer("cpu"),
    "transformer, simulated GPU": lambda: transformer("cuda"),
    "LSTM, simulated GPU": lambda: recurrent("cuda"),
}


def seconds(step, number):
    """The mean processor time of a step: other programs on the machine do not count."""
    start = time.process_time()
    for _ in range(number):
        step()
    return (time.process_time() - start) / number


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    torch.cuda.simulate(1)
    ways = {"ledger": torch.devices.ledger, "guard": torch.amp.guard, "off": contextlib.nullcontext}
    for title, make in CASES.items():
        if not re.search(arguments.only, title):
            continue
        step = make()
        for _ in range(3):
            step()
        number = max(1, int(0.02 / seconds(step, 2)))
        ratios, times = {name: [] for name in ways}, {name: [] for name in ways}
        for _ in range(arguments.rounds):
            for name, way in ways.items():
                with way():
                    step()  # a block's first step is noted in full, and later ones follow it
                    for _ in range(2):
                        times[name].append(seconds(step, number))
            for name in ways:
                best = min(times[name][-2:])
                ratios[name].append(best / min(times["off"][-2:]))
        text = ", ".join(
            f"{name} {100 * (statistics.median(ratios[name]) - 1):+.1f} %"
            for name in ("ledger", "guard")
        )
        print(f"{title:>34}: {min(times['off']) * 1e3:6.2f} ms; {text}", flush=True)


if __name__ == "__main__":
    main()
