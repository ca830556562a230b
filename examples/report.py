"""A page that shows a run: memory over time, copies, kernels, and what is where.

ember report --gpus 2x64MiB -o report.html examples/report.py
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.widen, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        return x + self.narrow(nn.functional.gelu(self.widen(self.norm(x))))


class Model(nn.Module):
    """Half of its blocks are on each GPU."""

    def __init__(self, size=128, layers=6):
        super().__init__()
        self.blocks = nn.ModuleList(
            Block(size).to(f"cuda:{2 * number // layers}") for number in range(layers)
        )
        self.head = nn.Linear(size, 10).to("cuda:1")

    def forward(self, x):
        for block in self.blocks:
            x = block(x.to(block.norm.weight.device))
        return self.head(x)


def main():
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(4):
        batch, labels = torch.randn(512, 128), torch.randint(0, 10, (512,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch.to("cuda:0")), labels.to("cuda:1"))
        loss.backward()
        optimizer.step()
    print(f"the last loss: {loss.item():.2f}")


if __name__ == "__main__":
    main()
