"""Device mismatches that explain themselves, and a check that finds them before they happen.

ember run --gpus 2 examples/moves.py
"""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.project = nn.Linear(size, size)
        self.mask = torch.linspace(1, 2, size)

    def forward(self, x):
        return self.project(x) * self.mask


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Attention(8) for _ in range(4))
        self.heads = [nn.Linear(8, 2), nn.Linear(8, 3)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def attempt(title, function):
    try:
        function()
    except RuntimeError as error:
        print(f"{title}\n{error}\n")


def main():
    model = Model()
    optimizer = torch.optim.AdamW([torch.zeros(3, requires_grad=True)])
    print("What a move would leave behind")
    for finding in torch.devices.check(model, optimizer):
        print(f"- {finding}")
    print()

    batch = torch.randn(2, 8)
    model.cuda()
    attempt("A batch that was forgotten", lambda: model(batch))
    batch = batch.cuda()
    attempt("A mask that did not move", lambda: model(batch))
    labels = torch.zeros(2, 8, device="cuda:1")
    attempt("Two GPUs", lambda: batch - labels)


if __name__ == "__main__":
    main()
