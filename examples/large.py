"""A training script whose model of 7 billion parameters few machines hold. Where would it run?

ember plan examples/large.py --meta --gpus 4x24GiB@pcie
ember plan examples/large.py --meta --gpus 1024xH100@nvlink --batch 2048
"""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.RMSNorm(size), nn.RMSNorm(size)
        self.mixed, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.gate, self.up = nn.Linear(size, 11008), nn.Linear(size, 11008)
        self.down = nn.Linear(11008, size)

    def forward(self, x):
        rows, length, size = x.shape
        split = self.mixed(self.before(x)).view(rows, length, 3, self.heads, size // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, size))
        y = self.between(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Language(nn.Module):
    def __init__(self, size=4096, layers=32, heads=32, words=32000):
        super().__init__()
        self.tokens = nn.Embedding(words, size)
        self.layers = nn.ModuleList(Layer(size, heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(size), nn.Linear(size, words, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def main(steps=10):
    model = Language()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in range(steps):
        tokens = torch.randint(0, 32000, (4, 2048))
        output = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(output.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item())


if __name__ == "__main__":
    main()
