"""How far the peaks that `ember.devices.fits` predicts are from those of simulated GPUs.

python benchmarks/fit_errors.py
"""

import ember as torch
from ember import nn


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return x + self.second(self.norm(self.first(x)).relu())


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 4)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


def models():
    """(name, module, sample) of six kinds of models."""
    torch.manual_seed(0)
    relu = nn.ReLU
    yield (
        "MLP",
        nn.Sequential(nn.Linear(256, 512), relu(), nn.Linear(512, 512), relu(), nn.Linear(512, 10)),
        torch.randn(256, 256),
    )
    yield (
        "CNN",
        nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), relu(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(16 * 256, 10),
        ),
        torch.randn(16, 3, 32, 32),
    )  # fmt: skip
    yield (
        "residual CNN",
        nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), Residual(16), Residual(16), nn.Flatten()),
        torch.randn(4, 3, 16, 16),
    )
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    yield "transformer", nn.TransformerEncoder(layer, 3), torch.randn(8, 32, 64)
    yield "LSTM", Recurrent(), torch.randn(16, 20, 32)
    yield (
        "embeddings",
        nn.Sequential(nn.Embedding(1000, 64), nn.Flatten(), nn.LayerNorm(64 * 12), nn.GELU(),
                      nn.Linear(64 * 12, 100)),
        torch.randint(0, 1000, (32, 12)),
    )  # fmt: skip
    yield (
        "autoencoder",
        nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1), nn.SiLU(), nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Sigmoid()
        ),
        torch.randn(16, 1, 28, 28),
    )  # fmt: skip


def measured(model, sample):
    """The peak of two training steps on a simulated GPU."""
    model, sample = model.cuda(), sample.cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    torch.cuda.reset_peak_memory_stats()
    for _ in range(2):
        output = model(sample)
        output.sum().backward()
        del output
        optimizer.step()
        optimizer.zero_grad()
    return torch.cuda.max_memory_allocated()


def errors():
    """(name, predicted, measured) of each model."""
    for name, model, sample in models():
        predicted = torch.devices.fits(model, sample, "1x1GiB", search=False).peak.bytes
        before = torch.cuda.memory_allocated()
        yield name, predicted, measured(model, sample) - before
        model.cpu()


def main():
    torch.cuda.simulate(1)
    for name, predicted, found in errors():
        print(
            f"{name:>14}: predicted {predicted / 2**20:6.2f} MiB, "
            f"simulated {found / 2**20:6.2f} MiB "
            f"({100 * (predicted / found - 1):+.2f} %)"
        )


if __name__ == "__main__":
    main()
