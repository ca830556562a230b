"""What simulated GPUs there are: `4`, `2x16GiB`, `2x80GiB:NAME`, and the machines that the numbers
describe."""

from __future__ import annotations

from typing import NamedTuple

GRAMMAR = "N[xMEMORY][:NAME], for example 4, 2x16GiB, 8x80GiB:H100"
UNITS = {
    "b": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
}


class GpuModel(NamedTuple):
    """What the simulated clock is told of a GPU: names and peak rates, from vendors' data
    sheets."""

    name: str
    memory: int  # bytes
    bandwidth: float  # bytes a second
    flops: float  # float32 operations a second
    link: float  # bytes a second to the host
    capability: tuple[int, int]
    processors: int


MODELS = {
    "": GpuModel("Ember Simulated GPU", 16 << 30, 900e9, 15e12, 12e9, (8, 0), 80),
    "T4": GpuModel("Tesla T4", 15 << 30, 300e9, 8e12, 12e9, (7, 5), 40),
    "A100": GpuModel("NVIDIA A100-SXM4-80GB", 80 << 30, 2039e9, 19.5e12, 25e9, (8, 0), 108),
    "H100": GpuModel("NVIDIA H100 80GB HBM3", 80 << 30, 3350e9, 67e12, 50e9, (9, 0), 132),
    "H200": GpuModel("NVIDIA H200", 141 << 30, 4800e9, 67e12, 50e9, (9, 0), 132),
    "RTX4090": GpuModel("NVIDIA GeForce RTX 4090", 24 << 30, 1008e9, 82.6e12, 25e9, (8, 9), 128),
}


def parse(text: str) -> tuple[int, GpuModel]:
    """(count, model) of a specification. ValueError that shows the grammar for anything else."""
    head, colon, name = text.strip().partition(":")
    count, x, memory = head.partition("x")
    complete = bool(x) == bool(memory) and bool(colon) == bool(name)
    if not (complete and count.isascii() and count.isdigit()):
        raise ValueError(f"simulated GPUs: {text!r} is not of the form {GRAMMAR}")
    model = MODELS.get(name.upper(), MODELS[""]._replace(name=name))
    if memory:
        model = model._replace(memory=_bytes(memory, text))
    return int(count), model


def _bytes(text: str, whole: str) -> int:
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text[len(digits) :].lower() or "b"
    try:
        amount = float(digits)
        scale = UNITS[unit]
    except (ValueError, KeyError):
        raise ValueError(
            f"simulated GPUs: the memory {text!r} of {whole!r} is not a number with a unit "
            f"({', '.join(UNITS)}); the form is {GRAMMAR}"
        ) from None
    if amount <= 0:
        raise ValueError(f"simulated GPUs: the memory of {whole!r} must be positive")
    return int(amount * scale)
