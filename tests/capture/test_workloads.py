"""A hundred steps of small versions of the benchmarks' workloads, compiled as a whole and as they
are: the same losses and parameters, but for the rounding that fused kernels are allowed."""

import pytest

import ember as torch
from ember import nn
from ember.capture.compiled import Captured
from ember.nn import functional as F

STEPS = 100


class Block(nn.Module):
    """Of a GPT: attention that looks back, and two maps around a GELU, each after a norm."""

    def __init__(self, width, heads):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads = heads
        self.maps = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        q, k, v = self.qkv(self.first(x)).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.maps(self.second(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(11, 16), nn.Embedding(6, 16)
        self.blocks = nn.Sequential(Block(16, 2), Block(16, 2))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 11, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x):
        x = self.words(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


class Residual(nn.Module):
    def __init__(self, channels, made, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, made, 3, stride, 1, bias=False),
            nn.BatchNorm2d(made),
            nn.ReLU(inplace=True),
            nn.Conv2d(made, made, 3, 1, 1, bias=False),
            nn.BatchNorm2d(made),
        )
        self.skip = nn.Sequential()
        if stride != 1 or channels != made:
            self.skip = nn.Sequential(
                nn.Conv2d(channels, made, 1, stride, bias=False), nn.BatchNorm2d(made)
            )

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def resnet():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, 1, 1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        Residual(4, 4, 1),
        Residual(4, 8, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )


def depthwise():
    return nn.Sequential(
        nn.Conv2d(3, 6, 1),
        nn.Conv2d(6, 6, 3, padding=1, groups=6),
        nn.BatchNorm2d(6),
        nn.Hardswish(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(96, 5),
    )


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cells, self.head = kind(3, 8, batch_first=True), nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.token, self.places = (
            nn.Parameter(torch.zeros(1, 1, 16)),
            nn.Parameter(torch.zeros(1, 5, 16)),
        )
        self.layer = nn.TransformerEncoderLayer(
            16, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.layer(x)[:, 0])


def mlp():
    return nn.Sequential(
        nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 5)
    )


IMAGES, SERIES, ROWS = (3, 8, 8), (7, 3), (12,)
WORKLOADS = {
    "mlp": (mlp, ROWS),
    "gpt": (GPT, None),
    "resnet": (resnet, IMAGES),
    "depthwise": (depthwise, IMAGES),
    "lstm": (lambda: Recurrent(nn.LSTM), SERIES),
    "gru": (lambda: Recurrent(nn.GRU), SERIES),
    "vit": (ViT, IMAGES),
}


def trained(make, shape, dtype, captured):
    """The losses of the steps, and the state at the end."""
    torch.manual_seed(0)
    net = make().to(dtype)
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, eps=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    data = torch.Generator().manual_seed(1)

    def batch():
        if shape is None:
            words = torch.randint(0, 11, (4, 7), generator=data)
            return words[:, :-1].contiguous(), words[:, 1:].flatten()
        x = torch.randn(4, *shape, generator=data, dtype=dtype)
        return x, torch.randint(0, 5, (4,), generator=data)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss

    run = Captured(step) if captured else step
    losses = []
    for _ in range(STEPS):
        losses.append(run(*batch()).detach())
        schedule.step()
    if captured:
        assert [r.eager for r in run.recordings] == [None], run.report()
    return torch.stack(losses), net.state_dict()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_hundred_steps(name, dtype):
    exact, found = (trained(*WORKLOADS[name], dtype, captured) for captured in (False, True))
    # with Adam's usual eps, parameters without gradients (as biases before norms) go astray
    near = {"rtol": 1e-3, "atol": 1e-4} if dtype is torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(found[0], exact[0], **near)
    for key, value in exact[1].items():
        torch.testing.assert_close(found[1][key], value, **near)
