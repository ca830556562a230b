"""What watching costs: training steps with nothing on, inside a ledger, and inside a guard.

python benchmarks/device_sense.py
"""

import statistics
import time

import ember as torch
from ember import nn


def mlp(size, batch, device):
    model = nn.Sequential(
        nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size), nn.ReLU(), nn.Linear(size, 10)
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(batch, size), torch.randint(0, 10, (batch,))
    loss_of = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss_of(model(x.to(device)), y.to(device)).backward()
        optimizer.step()

    return step


def convolutions(batch, device):
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(64 * 16 * 16, 10),
    ).to(device)  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))
    loss_of = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss_of(model(x.to(device)), y.to(device)).backward()
        optimizer.step()

    return step


def seconds(step, context, number):
    """The mean processor time of a step: other programs on the machine do not count."""
    with context():
        start = time.process_time()
        for _ in range(number):
            step()
        return (time.process_time() - start) / number


class nothing:
    def __enter__(self):
        return self

    def __exit__(self, *rest):
        pass


def main():
    torch.cuda.simulate(1)
    cases = {
        "MLP 64, batch 32": (mlp(64, 32, "cuda"), 40),
        "MLP 512, batch 256": (mlp(512, 256, "cuda"), 10),
        "CNN, batch 32": (convolutions(32, "cuda"), 3),
    }
    ways = {"off": nothing, "ledger": torch.devices.ledger, "guard": torch.amp.guard}
    for title, (step, number) in cases.items():
        for _ in range(3):
            step()
        found = {name: [] for name in ways}
        for _ in range(9):  # in turns, so that a busy machine is busy for all of them
            for name, way in ways.items():
                found[name].append(seconds(step, way, number))
        ratios = {
            name: statistics.median(a / b for a, b in zip(found[name], found["off"], strict=True))
            for name in ways
        }
        best = {name: min(times) for name, times in found.items()}
        text = ", ".join(
            f"{name} {best[name] * 1e3:.2f} ms ({100 * (ratios[name] - 1):+.1f} %)" for name in ways
        )
        print(f"{title}: {text}")


if __name__ == "__main__":
    main()
