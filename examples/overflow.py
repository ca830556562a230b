"""Find the op that overflows in half precision, and the dtypes that a model's values fit in.

ember run examples/overflow.py
"""

import argparse
import warnings

import torch
from torch import nn


class Block(nn.Module):
    """A block whose product of large activations leaves float16."""

    def __init__(self, size):
        super().__init__()
        self.first, self.second = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x):
        x = self.first(x).relu()
        energy = x * x
        return self.second(energy)


def train(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    with torch.amp.guard():
        for batch in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = model(batch).float().pow(2).mean()
            loss.backward()
            optimizer.step()


def train_scaled(model, batch):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, explain=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same text, as a warning
        for _ in range(3):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = model(batch).float().pow(2).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return scaler


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--picture", help="also draw the ranges (matplotlib)")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), Block(32), nn.Linear(32, 1))

    print("Batches that grow, in float16:")
    try:
        train(model, [torch.randn(8, 16) * size for size in (1.0, 10.0, 3000.0)])
    except torch.amp.NonFiniteError as error:
        print(error)

    print("\nA loss scale that is too large:")
    print(train_scaled(model, torch.randn(8, 16) * 10).last_overflow)

    print()
    sample = torch.randn(8, 16) * 3000
    found = torch.amp.ranges(model, sample, loss=lambda output: output.pow(2).mean())
    found.print()
    if arguments.picture:
        found.plot(arguments.picture)


if __name__ == "__main__":
    main()
