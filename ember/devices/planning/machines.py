"""Machines that a plan can be made for: how they are written, and what vendors publish of them."""

from __future__ import annotations

from typing import NamedTuple

from ember.devices.amounts import bytes_of, size
from ember.errors import check

GRAMMAR = (
    "[N x]MEMORY[:NAME] or [N x]NAME, joined by +, then @LINK: 2x24GiB, 24GiB+8GiB@pcie, "
    "8x80GiB:H100@nvlink, 4xA100"
)


class Figures(NamedTuple):
    """What a data sheet says of a GPU: bytes, bytes a second, operations a second."""

    name: str
    memory: float
    bandwidth: float
    flops: float  # float32
    half_flops: float  # bfloat16 on tensor cores, without sparsity
    link: str


GIB = float(1 << 30)
# From the vendors' data sheets. The first is what a simulated GPU without a name is told to be.
PUBLISHED = {
    "": Figures("simulated GPU", 16 * GIB, 900e9, 15e12, 15e12, "pcie3"),
    "T4": Figures("T4", 15 * GIB, 300e9, 8.1e12, 65e12, "pcie3"),
    "V100": Figures("V100", 32 * GIB, 900e9, 15.7e12, 125e12, "nvlink2"),
    "L4": Figures("L4", 24 * GIB, 300e9, 30.3e12, 121e12, "pcie4"),
    "A10": Figures("A10", 24 * GIB, 600e9, 31.2e12, 125e12, "pcie4"),
    "RTX3090": Figures("RTX 3090", 24 * GIB, 936e9, 35.6e12, 71e12, "pcie4"),
    "RTX4090": Figures("RTX 4090", 24 * GIB, 1008e9, 82.6e12, 165e12, "pcie4"),
    "RTX5090": Figures("RTX 5090", 32 * GIB, 1792e9, 104.8e12, 209e12, "pcie5"),
    "L40S": Figures("L40S", 48 * GIB, 864e9, 91.6e12, 362e12, "pcie4"),
    "A100": Figures("A100", 80 * GIB, 2039e9, 19.5e12, 312e12, "nvlink3"),
    "H100": Figures("H100", 80 * GIB, 3350e9, 67e12, 989e12, "nvlink"),
    "H200": Figures("H200", 141 * GIB, 4800e9, 67e12, 989e12, "nvlink"),
    "B200": Figures("B200", 180 * GIB, 8000e9, 75e12, 2250e12, "nvlink5"),
}
# Which of them stands for a GPU of which only the memory is given: the first that is as large.
BY_MEMORY = ((16, ""), (24, "RTX4090"), (32, "RTX5090"), (48, "L40S"), (80, "H100"), (141, "H200"))

# Bytes a second in one direction between two GPUs, or a GPU and the host.
LINKS = {
    "pcie3": 12e9,
    "pcie": 25e9,
    "pcie4": 25e9,
    "pcie5": 50e9,
    "nvlink2": 150e9,
    "nvlink3": 300e9,
    "nvlink": 450e9,
    "nvlink5": 900e9,
    "ethernet": 3e9,
    "infiniband": 50e9,
}


PUBLISHED_THEM = "as published"
GUESSED = "as published; chosen by its memory: name one as in 24GiB:L4"


class Place(NamedTuple):
    """A device of a plan: its name in a program, what it holds and how fast it is."""

    device: str
    memory: float  # bytes that the plan may use
    figures: Figures
    source: str = PUBLISHED_THEM  # where the figures are from

    @property
    def guessed(self) -> bool:
        """Whether the figures were chosen by the memory."""
        return self.source == GUESSED


class Machine(NamedTuple):
    """Devices and what joins them."""

    text: str
    places: tuple[Place, ...]
    link: str
    link_speed: float  # bytes a second from one GPU to another
    host_speed: float  # bytes a second between a GPU and the host

    @property
    def assumptions(self) -> list[str]:
        """What was taken for granted."""
        kinds = {p.figures.name: p for p in self.places}
        lines = []
        for name, place in kinds.items():
            kind = place.figures
            lines.append(
                f"{name}: {kind.bandwidth / 1e9:,.0f} GB/s, {kind.flops / 1e12:.3g} TFLOPS in "
                f"float32, {kind.half_flops / 1e12:.3g} in bfloat16 ({place.source})"
            )
        lines.append(
            f"{self.link} between GPUs: {self.link_speed / 1e9:.0f} GB/s each way; to the host: "
            f"{self.host_speed / 1e9:.0f} GB/s"
        )
        return lines


def parse(text: str) -> Machine:
    """The machine that a text describes. ValueError that shows the grammar for anything else."""
    parts, at, link = text.strip().partition("@")
    places: list[Place] = []
    for term in parts.split("+"):
        count, memory, figures, known = _term(term.strip(), text)
        for _ in range(count):
            places.append(
                Place(f"cuda:{len(places)}", memory, figures, PUBLISHED_THEM if known else GUESSED)
            )
    check(bool(places), ValueError, f"plan: {text!r} has no device; the form is {GRAMMAR}")
    link = link if at else places[0].figures.link
    check(
        link in LINKS,
        ValueError,
        f"plan: there is no link {link!r} in {text!r}; there are {', '.join(LINKS)}",
    )
    host = min(LINKS["pcie5"], *(_host_speed(p.figures) for p in places))
    return Machine(text, tuple(places), link, LINKS[link], host)


def _term(term: str, text: str) -> tuple[int, float, Figures, bool]:
    head, _, name = term.partition(":")
    count, x, rest = head.partition("x")
    if not (x and count.isascii() and count.isdigit()):
        count, rest = "1", head
    if rest.upper() in PUBLISHED and rest:
        figures = PUBLISHED[rest.upper()]
        return int(count), figures.memory, figures, True
    try:
        memory = float(bytes_of(rest))
    except ValueError:
        raise ValueError(f"plan: {term!r} of {text!r} is not of the form {GRAMMAR}") from None
    known = name.upper() in PUBLISHED if name else False
    check(
        known or not name,
        ValueError,
        f"plan: no figures are known of {name!r}; there are "
        f"{', '.join(n for n in PUBLISHED if n)}, or leave the name out",
    )
    kind = name.upper() if name else _by_memory(memory)
    return int(count), memory, PUBLISHED[kind], known


def _by_memory(memory: float) -> str:
    for most, name in BY_MEMORY:
        if memory <= most * GIB:
            return name
    return "B200"


def _host_speed(figures: Figures) -> float:
    return LINKS["pcie5" if figures.name in ("H100", "H200", "B200") else figures.link]


def described(machine: Machine) -> str:
    """The devices in words: 2 GPUs of 24.0 GiB and 1 of 8.0 GiB."""
    counts: dict[str, int] = {}
    for place in machine.places:
        kind = "host" if place.device == "cpu" else size(place.memory)
        counts[kind] = counts.get(kind, 0) + 1
    return " + ".join(f"{n} x {kind}" for kind, n in counts.items())


__all__ = ["GRAMMAR", "LINKS", "PUBLISHED", "Figures", "Machine", "Place", "described", "parse"]
