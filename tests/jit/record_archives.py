"""Writes the archives in data/ and what they give: `python tests/jit/record_archives.py`, with
PyTorch."""

import json
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

FOLDER = Path(__file__).parent / "data"


class Pair(NamedTuple):
    value: torch.Tensor
    count: int


class Mode(Enum):
    PLAIN = 1
    NEGATED = 2


@torch.jit.script
class Total:
    def __init__(self, start: int):
        self.total = start
        self.items: list[int] = []

    def push(self, item: int) -> int:
        self.total += item
        self.items.append(item)
        return self.total


@torch.jit.script
def loops(x, n: int):
    for i in range(n):
        x = x + float(i)
        if i > 2:
            break
    while bool(x.sum() > 100.0):
        x = x / 2.0
    return x


@torch.jit.script
def numbers(a: int, b: int) -> tuple[int, float, int, bool, str]:
    return b // 2 + a % 3, b / 2, a if a == 0 else -b, not (a > b and b > 1), f"{a}-{b}"


class Program(nn.Module):
    scale: torch.jit.Final[float]

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.bn = nn.BatchNorm2d(2)
        self.pool = nn.MaxPool2d(2)
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Dropout(0.5), nn.LayerNorm(4))
        self.emb = nn.Embedding(10, 4)
        self.scale, self.names, self.table = 2.5, ["a", "bc"], {"x": 1, "y": 2}
        self.blocks = nn.ModuleList([nn.Linear(4, 2, bias=False), nn.Hardtanh()])
        self.register_buffer("steps", torch.zeros(1))
        self.mode = Mode.NEGATED

    def forward(self, x: torch.Tensor, index: torch.Tensor, option: int | None = None):
        y = self.pool(torch.relu(self.bn(self.conv(x))))
        out = self.seq(y.mean(dim=1))
        for block in self.blocks:
            out = block(out)
        e = self.emb(index).sum(1)
        self.steps += 1
        k = 0 if option is None else option
        total = Total(3)
        total.push(k)
        counts: dict[str, int] = {"q": total.push(4)}
        counts["w"] = len(self.names) + self.table["y"]
        if x.shape[0] > 100:
            raise ValueError(f"too many: {x.shape[0]}")
        parts: list[torch.Tensor] = []
        for t in torch.split(e, 1):
            parts.append(t * self.scale)
        w = torch.zeros([2, 3], dtype=x.dtype, device=x.device)
        w[:, 1] = 5.0
        if self.mode == Mode.NEGATED:
            w = -w
        chosen = e[e[:, 0] > -0.45]
        soft = e.to(torch.float64).softmax(-1)
        numbered = [v for v in counts.values()]  # noqa: C416 (what TorchScript compiles)
        pair = Pair(torch.stack(parts)[..., 1:3], sum(numbered))
        words = [str(k), f"{k} items", self.names[-1].upper()]
        return loops(out, 5), pair, w, soft, chosen, words, numbers(k, 7)

    @torch.jit.export
    def extra(self, n: int) -> list[int]:
        r = [i * 2 for i in range(1, n, 2)]
        r.extend([7, 8])
        return r[::-1]


class Traced(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.up = nn.Conv2d(1, 3, 3, stride=2), nn.ConvTranspose2d(3, 2, 2)
        self.lin, self.rnn = nn.Linear(2, 5), nn.LSTM(5, 4, bidirectional=True, batch_first=True)

    def forward(self, x):
        y = self.up(nn.functional.silu(self.conv(x)))
        b = y.shape[0]
        y = y.view(b, 2, -1).transpose(1, 2).reshape(b, -1, 2)
        y = nn.functional.interpolate(y.unsqueeze(1), scale_factor=2.0).squeeze(1)[:, :, :2]
        y, _ = self.rnn(self.lin(y))
        y = nn.functional.pad(torch.cat([y, y * 2], -1), (1, 1))
        pooled = nn.functional.adaptive_avg_pool1d(y, 2)
        return {"mean": y.mean(-1), "pooled": pooled, "at": y.argmax(-1).to(torch.float32)}


def with_plain_weights(module):
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.linspace(-1, 1, p.numel()).view_as(p) * 0.5)
    return module.eval()


def listed(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {k: listed(v) for k, v in value.items()}
    return [listed(v) for v in value] if isinstance(value, (list, tuple)) else value


def main():
    x = torch.linspace(-1, 1, 2 * 64).view(2, 1, 8, 8)
    program = torch.jit.script(with_plain_weights(Program()))
    program.save(str(FOLDER / "program.pt"), _extra_files={"note.txt": "hello"})
    index = torch.tensor([[1, 2], [3, 4]])
    small = torch.linspace(-1, 1, 2 * 49).view(2, 1, 7, 7)
    traced = torch.jit.trace(with_plain_weights(Traced()), small, strict=False)
    traced.save(str(FOLDER / "traced.pt"))
    values = {
        "program": listed(program(x, index, 3)),
        "without": listed(program(x, index)),
        "traced": listed(traced(small)),
    }
    (FOLDER / "values.json").write_text(json.dumps(values) + "\n")


if __name__ == "__main__":
    main()
