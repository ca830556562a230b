"""Will it fit? Ask before renting the machine, and read what an out-of-memory error says.

ember run --gpus 1x64MiB examples/fit.py
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
    def __init__(self, size=128, layers=6):
        super().__init__()
        self.blocks = nn.ModuleList(Block(size) for _ in range(layers))
        self.head = nn.Linear(size, 10)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main():
    torch.manual_seed(0)
    model, batch = Model(), torch.randn(2048, 128)

    print("A large one, on paper:")
    large = Model(size=2048, layers=8)
    print(torch.devices.fits(large, torch.randn(4096, 2048), "2x24GiB", search=False))

    print("\nThe one at hand:")
    print(torch.devices.fits(model, batch, "1x64MiB"))

    print("\nAnd if one tries all the same:")
    try:
        with torch.devices.track():
            model.cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(2):
                model(batch.cuda()).sum().backward()
                optimizer.step()
    except torch.OutOfMemoryError as error:
        print(error)


if __name__ == "__main__":
    main()
