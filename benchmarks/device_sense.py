"""What watching costs: training steps with nothing on, inside a ledger, and inside a guard.

python benchmarks/device_sense.py [--rounds 40] [--only REGEX]

The ways take turns, a few steps each, so that a busy machine is busy for all of them. Each step is
timed, in processor time of one thread; a figure compares the lower fifths of all of them, which
disturb each other least. "off" is compared with copies that nobody could watch.
"""

import argparse
import contextlib
import re
import time

import ember as torch
from ember import nn
from ember.backends import base


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


def unwatched(source, target, *, blocking=True):
    """A copy between devices without a place for observers."""
    host = base.memory_of(source.device).read(source.buffer)
    base.memory_of(target.device).write(target.buffer, host)


class Bare:
    """Copies as they would be if no ledger existed."""

    def __enter__(self):
        self.known, base.copy_bytes = base.copy_bytes, unwatched

    def __exit__(self, *exception):
        base.copy_bytes = self.known


def timed(step, number, found):
    """The processor time of each of some steps; what other threads and programs do counts not."""
    for _ in range(number):
        start = time.thread_time()
        step()
        found.append(time.thread_time() - start)


def copies_alone():
    """What a ledger costs a copy, when there is none and when there is one."""
    for nbytes in (4 << 10, 1 << 20):
        x, best = torch.ones(nbytes // 4), {}
        ways = (("bare", Bare), ("off", contextlib.nullcontext), ("on", torch.devices.ledger))
        for way, context in ways * 30:
            with context():
                start = time.thread_time()
                for _ in range(100):
                    x.cuda()
                elapsed = (time.thread_time() - start) / 100
            best[way] = min(best.get(way, 1.0), elapsed)
        off, on = best["off"] / best["bare"] - 1, best["on"] - best["off"]
        print(
            f"x.cuda() of {nbytes >> 10} KiB: {best['off'] * 1e6:.1f} µs, ledger off "
            f"{100 * off:+.1f} %, on {on * 1e6:+.1f} µs"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    torch.cuda.simulate(1)
    torch.set_num_threads(1)
    copies_alone()
    ways = {
        "bare": Bare,
        "off": contextlib.nullcontext,
        "ledger": torch.devices.ledger,
        "guard": torch.amp.guard,
    }
    for title, make in CASES.items():
        if not re.search(arguments.only, title):
            continue
        step, times = make(), {name: [] for name in ways}
        for _ in range(3):
            step()
        timed(step, 2, first := [])
        number = max(2, int(0.01 / min(first)))
        for turn in range(arguments.rounds):
            names = list(ways)[turn % 4 :] + list(ways)[: turn % 4]
            for name in names:
                with ways[name]():
                    step(), step()  # a block's first step is noted in full; later ones follow it
                    timed(step, number, times[name])
        fifth = {name: sorted(all_)[len(all_) // 5] for name, all_ in times.items()}
        text = ", ".join(
            f"{name} {100 * (fifth[one] / fifth[other] - 1):+.1f} %"
            for name, one, other in (
                ("ledger off", "off", "bare"), ("on", "ledger", "off"), ("guard", "guard", "off"),
            )
        )  # fmt: skip
        print(f"{title:>34}: {fifth['off'] * 1e3:6.2f} ms; {text}", flush=True)


if __name__ == "__main__":
    main()
