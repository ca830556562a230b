"""The networks of the benchmarks, written once for Ember and for PyTorch: each makes a model, an
optimizer, and a function that gives the loss of its batch."""

from __future__ import annotations

import contextlib

import numpy as np


def numbers(torch, *shape, dtype="float32", seed=0, device="cuda"):
    """The same normal numbers for both."""
    made = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return torch.from_numpy(made).to(device, getattr(torch, dtype))


def classes(torch, high, *shape, seed=1, device="cuda"):
    """The same whole numbers for both."""
    return torch.from_numpy(np.random.default_rng(seed).integers(0, high, shape)).to(device)


def same_weights(torch, model, scale=0.02, device="cuda"):
    """Weights that do not depend on who draws them: matrices normal, gains 1, the rest 0."""
    generator = np.random.default_rng(7)
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters(), key=lambda item: item[0]):
            made = generator.standard_normal(tuple(parameter.shape), np.float32)
            if parameter.dim() > 2:  # convolutions: He's scale
                made *= (2 / np.prod(parameter.shape[1:])) ** 0.5
            elif parameter.dim() == 2:
                made *= scale
            else:
                made = np.full_like(made, float(parameter.detach().mean() == 1))
            parameter.copy_(torch.from_numpy(made))
    return model.to(device)


def half(torch, on):
    """bfloat16 autocast, or nothing."""
    return torch.autocast("cuda", torch.bfloat16) if on else contextlib.nullcontext()


def gpt(torch, batch, length, layers=12, width=768, heads=12, words=50304, amp=True, device="cuda"):
    """GPT-2: 124 M parameters as it is."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            rows, steps, _ = x.shape
            parts = self.joint(self.first(x)).split(width, 2)
            q, k, v = (p.view(rows, steps, heads, -1).transpose(1, 2) for p in parts)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(rows, steps, width))
            return x + self.down(functional.gelu(self.up(self.second(x)), approximate="tanh"))

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(1024, width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, tokens):
            places = torch.arange(tokens.shape[1], device=tokens.device)
            x = self.tokens(tokens) + self.places(places)
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x)).reshape(-1, words)

    model = same_weights(torch, Network(), device=device)
    tokens = classes(torch, words, batch, length + 1, device=device)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=device == "cuda"
    )

    def loss(inputs=inputs, targets=targets):
        with half(torch, amp):
            return functional.cross_entropy(model(inputs), targets)

    return model, optimizer, loss


def resnet(torch, batch, kind=50, size=224, words=1000, amp=True, device="cuda"):
    """ResNet-50 or ResNet-18, on GPUs with channels last."""
    nn, functional = torch.nn, torch.nn.functional
    blocks = [3, 4, 6, 3] if kind == 50 else [2, 2, 2, 2]
    wide = 4 if kind == 50 else 1

    class Block(nn.Module):
        def __init__(self, inside, width, stride):
            super().__init__()
            out = width * wide
            if kind == 50:
                sizes = [(inside, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)]
            else:
                sizes = [(inside, width, 3, stride), (width, out, 3, 1)]
            self.convolutions = nn.ModuleList(
                nn.Conv2d(a, b, k, s, k // 2, bias=False) for a, b, k, s in sizes
            )
            self.norms = nn.ModuleList(nn.BatchNorm2d(b) for _, b, _, _ in sizes)
            self.short = None
            if stride != 1 or inside != out:
                self.short = nn.Sequential(
                    nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out)
                )

        def forward(self, x):
            y = x
            for i, (convolution, norm) in enumerate(zip(self.convolutions, self.norms)):
                y = norm(convolution(y))
                if i + 1 < len(self.norms):
                    y = functional.relu(y)
            return functional.relu(y + (x if self.short is None else self.short(x)))

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inside = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for i in range(count):
            layers.append(Block(inside, width, 2 if stage and not i else 1))
            inside = width * wide
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, words)]
    order = torch.channels_last if device == "cuda" else torch.contiguous_format
    model = same_weights(torch, nn.Sequential(*layers), device=device).to(memory_format=order)
    images = numbers(torch, batch, 3, size, size, device=device).to(memory_format=order)
    targets = classes(torch, words, batch, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def loss(inputs=images, targets=targets):
        with half(torch, amp):
            return functional.cross_entropy(model(inputs), targets)

    return model, optimizer, loss


def depthwise(torch, batch, size=128, words=1000, device="cuda"):
    """Thirteen depthwise convolutions with pointwise ones between, as MobileNet has them."""
    nn = torch.nn
    layers = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    inside = 32
    for out, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5,
                        (1024, 2), (1024, 1)):  # fmt: skip
        layers += [nn.Conv2d(inside, inside, 3, stride, 1, groups=inside, bias=False)]
        layers += [nn.BatchNorm2d(inside), nn.ReLU(), nn.Conv2d(inside, out, 1, bias=False)]
        layers += [nn.BatchNorm2d(out), nn.ReLU()]
        inside = out
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, words)]
    model = same_weights(torch, nn.Sequential(*layers), device=device)
    images = numbers(torch, batch, 3, size, size, device=device)
    targets = classes(torch, words, batch, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return model, optimizer, lambda: nn.functional.cross_entropy(model(images), targets)


def vision(torch, batch, width=384, layers=12, heads=6, size=224, words=1000):
    """A Vision Transformer, ViT-S/16, in bfloat16 autocast."""
    nn, functional = torch.nn, torch.nn.functional
    steps = (size // 16) ** 2

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, 16)
            self.places = nn.Parameter(torch.zeros(1, steps, width))
            layer = nn.TransformerEncoderLayer(
                width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

        def forward(self, images):
            x = self.patches(images).flatten(2).transpose(1, 2) + self.places
            return self.head(self.norm(self.layers(x).mean(1)))

    model = same_weights(torch, Network())
    images, targets = numbers(torch, batch, 3, size, size), classes(torch, words, batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def loss():
        with half(torch, True):
            return functional.cross_entropy(model(images), targets)

    return model, optimizer, loss


def recurrent(torch, batch, width=512, length=64):
    """Two layers of LSTM and a line, in float32."""
    nn = torch.nn

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.LSTM(width, width, 2, batch_first=True)
            self.head = nn.Linear(width, 10)

        def forward(self, x):
            return self.head(self.layers(x)[0][:, -1])

    model = same_weights(torch, Network(), 0.05)
    inputs, targets = numbers(torch, batch, length, width), classes(torch, 10, batch)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return model, optimizer, lambda: nn.functional.cross_entropy(model(inputs), targets)


def perceptron(torch, batch):
    """784-256-256-10 in float32."""
    nn = torch.nn
    layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
    model = same_weights(torch, nn.Sequential(*layers), 0.05)
    inputs, targets = numbers(torch, batch, 784), classes(torch, 10, batch)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss(inputs=inputs, targets=targets):
        return nn.functional.cross_entropy(model(inputs), targets)

    return model, optimizer, loss


STEPS = {
    "gpt2 b16 t1024": lambda torch: gpt(torch, 16, 1024),
    "gpt2 b1 t1024": lambda torch: gpt(torch, 1, 1024),
    "gpt2 b1 t128": lambda torch: gpt(torch, 1, 128),
    "resnet50 b128": lambda torch: resnet(torch, 128),
    "resnet50 b8": lambda torch: resnet(torch, 8),
    "vit-s/16 b64": lambda torch: vision(torch, 64),
    "lstm 2x512 b64 t64": lambda torch: recurrent(torch, 64),
    "mlp b64": lambda torch: perceptron(torch, 64),
}
