"""Find the hidden copies of a training loop, on a machine without a GPU.

    ember run --gpus 2 examples/copies.py

The loop below makes five mistakes that people make. The ledger names the line of each and says what
to do; then the same loop without them is held to a budget.
"""

import argparse

import torch
from torch import nn


class Model(nn.Module):
    """Its layers jump between two GPUs, and its mask is a plain attribute that stays on the CPU."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(4))
        self.mask = torch.ones(256)

    def spread(self):
        for number, layer in enumerate(self.layers):
            layer.to(f"cuda:{number % 2}")
        return self

    def forward(self, x):
        for layer in self.layers:
            x = layer(x.to(layer.weight.device)).relu()
        return x * self.mask.to(x.device)


def careless(batches):
    model = Model().spread()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    total = 0.0
    for batch in batches:
        optimizer.zero_grad()
        output = model(batch.cuda(0))
        loss = output.pow(2).mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
        kept = output.detach().cpu()
        kept.to("cuda:1")
    return total


def careful(batches):
    model = Model().cuda(0)
    model.mask = model.mask.cuda(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    total = torch.zeros((), device="cuda:0")
    for batch in batches:
        optimizer.zero_grad()
        loss = model(batch.pin_memory().cuda(0, non_blocking=True)).pow(2).mean()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return total.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--page", help="also write the ledger of the careless loop as a page")
    arguments = parser.parse_args()
    batches = [torch.randn(512, 256) for _ in range(10)]

    with torch.devices.ledger() as copies:
        careless(batches)
    copies.print()
    if arguments.page:
        copies.save(arguments.page)

    with torch.devices.ledger(budget={"device to host": {"count": 1}}) as copies:
        careful(batches)
    print(f"careful: {copies.totals()['device to host']['count']} copy to the host")
    try:
        with torch.devices.ledger(step_budget={"device to host": {"count": 1}}):
            careless(batches)
    except torch.devices.CopyBudgetError as error:
        print(f"careless: {error}")


if __name__ == "__main__":
    main()
