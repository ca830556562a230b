"""A model that is too large for one GPU, trained on three that differ and the host, several at work
at a time; and the same question about machines that are not here.

ember run --gpus 3x48MiB examples/plan.py
"""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.attention = nn.MultiheadAttention(size, 4, batch_first=True)
        self.first, self.second = nn.LayerNorm(size), nn.LayerNorm(size)
        self.widen, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.narrow(nn.functional.gelu(self.widen(self.second(x))))


class Transformer(nn.Module):
    def __init__(self, size=128, layers=24, words=100, length=32):
        super().__init__()
        self.tokens, self.places = nn.Embedding(words, size), nn.Embedding(length, size)
        self.layers = nn.ModuleList(Block(size) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, words)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def token_loss(output, targets):
    return nn.functional.cross_entropy(output.flatten(0, 1), targets.flatten())


def train_on_one_device(inputs, targets, steps):
    torch.manual_seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        loss = token_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def main(steps=2):
    torch.manual_seed(1)
    inputs, targets = torch.randint(0, 100, (32, 32)), torch.randint(0, 100, (32, 32))
    torch.cuda.set_per_process_memory_fraction(0.75, 1)  # one GPU with three quarters of the
    torch.cuda.set_per_process_memory_fraction(0.5, 2)  # memory, and one with half of it

    torch.manual_seed(0)
    model = Transformer()
    plan = torch.devices.plan(model, inputs, micro_batches=8)
    print(plan.explain())

    print("\nTrained by it:")
    model = plan.apply(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = [plan.step(token_loss, inputs, targets, optimizer).item() for _ in range(steps)]
    print(f"losses          {losses}")
    print(f"on one device   {train_on_one_device(inputs, targets, steps)}")
    for name, predicted in plan.peaks.items():
        measured = torch.cuda.max_memory_allocated(name)
        print(f"{name} held {measured:,} bytes at most; {predicted:,} were predicted")
    took, busy = plan.measured_seconds, plan.measured_utilisation
    print(f"By the simulated clocks it took {1000 * took:.1f} ms forward and backward, and worked:")
    print(", ".join(f"{name} {part:.0%} of that" for name, part in busy.items()))
    print(plan.timeline(measured=True))

    print("\nA machine that is not here:")
    with torch.device("meta"):
        large = Transformer(size=2048, layers=24, words=32000, length=512)
    tokens = torch.zeros(16, 512, dtype=torch.long)
    print(torch.devices.plan(large, tokens, "24GiB:L4+16GiB:RTX4090@pcie").explain())

    print("\nOne that is too small:")
    try:
        torch.devices.plan(Transformer(), inputs, "2x8MiB", remedies=("recompute",))
    except RuntimeError as error:
        print(error)


if __name__ == "__main__":
    main()
