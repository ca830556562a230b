"""How long work takes on a device: measured once on this machine, or taken from data sheets."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ember import dtypes, ops
from ember.backends import kept
from ember.backends.base import backend_of
from ember.core.modes import no_grad
from ember.cuda.devices import get_device_name
from ember.cuda.streams import synchronize
from ember.device import device as Device
from ember.devices.planning.machines import LINKS, PUBLISHED, Figures, Machine, Place
from ember.errors import check
from ember.version import ember_version

MEASURED, SIMULATED = "as measured here", "of the simulated clock"
RESERVE = 0.05  # of a real GPU's free memory, for its libraries and what lies between tensors
LAUNCH = 2e-6  # seconds that a kernel takes beside its work, as the simulated clock counts


class Rates(NamedTuple):
    """Operations and bytes a second, and seconds for each call."""

    flops: float
    half_flops: float
    bandwidth: float
    overhead: float


def seconds(rates: Rates, work: Sequence[tuple[float, float, bool]]) -> float:
    """Time of calls, each bound by its operations or its bytes."""
    if not work:
        return 0.0
    operations, moved, half = np.array(work, dtype=float).T
    speed = np.where(half > 0, rates.half_flops, rates.flops)
    slower = np.maximum(operations / speed, moved / rates.bandwidth)
    return float(slower.sum() + len(work) * rates.overhead)


def published(figures: Figures, efficiency: float = 1.0) -> Rates:
    """The rates of a data sheet, or a part of them."""
    return Rates(
        figures.flops * efficiency,
        figures.half_flops * efficiency,
        figures.bandwidth * min(1.0, 2 * efficiency),
        LAUNCH,
    )


def is_simulated(device: Device) -> bool:
    """Whether a device is a simulated GPU."""
    return device.type == "cuda" and bool(getattr(backend_of("cuda"), "simulated", False))


def this_machine(devices: Sequence[Any], held: dict[str, int]) -> tuple[Machine, list[Rates]]:
    """Devices of this process, with the memory that is free (`held` is what the model has there
    now, which will be free), and their rates."""
    names = [str(Device(d)) for d in devices]
    names = [f"{n}:0" if n == "cuda" else n for n in names]
    check(
        bool(names) and len(set(names)) == len(names),
        ValueError,
        f"plan: devices must be different ones, at least one, not {names}",
    )
    places, rates = [], []
    for name in names:
        device = Device(name)
        place, rate = _host(device) if device.type == "cpu" else _gpu(device)
        places.append(place._replace(memory=place.memory + held.get(name, 0)))
        rates.append(rate)
    link = _link(Device(names[0]))
    return Machine("+".join(names), tuple(places), "the link", link, link), rates


def _host(device: Device) -> tuple[Place, Rates]:
    found = measured(device)
    rates = Rates(found["flops"], found["half_flops"], found["bandwidth"], found["overhead"])
    figures = Figures("host", _host_memory(), rates.bandwidth, rates.flops, rates.half_flops, "")
    return Place("cpu", figures.memory, figures, MEASURED), rates


def _host_memory() -> float:
    try:
        with open("/proc/meminfo") as file:
            lines = dict(line.split(":", 1) for line in file)
        return float(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return PUBLISHED[""].memory


def _gpu(device: Device) -> tuple[Place, Rates]:
    backend = backend_of("cuda")
    backend.check_index(device.index or 0)
    memory: Any = backend.memory(device.index or 0)
    free = memory.capacity * getattr(memory, "limit", 1.0) - memory.allocated
    if is_simulated(device):
        model: Any = getattr(backend, "model", None)
        figures = Figures(model.name, free, model.bandwidth, model.flops, model.flops, "")
        return Place(str(device), float(free), figures, SIMULATED), published(figures)
    found, free = measured(device), free * (1 - RESERVE)
    rates = Rates(found["flops"], found["half_flops"], found["bandwidth"], found["overhead"])
    name = get_device_name(device)
    figures = Figures(name, free, rates.bandwidth, rates.flops, rates.half_flops, "")
    return Place(str(device), float(free), figures, MEASURED), rates


def _link(device: Device) -> float:
    if device.type == "cpu":
        return LINKS["pcie4"]
    if is_simulated(device):
        model: Any = getattr(backend_of("cuda"), "model", None)
        return float(model.link)
    return float(measured(device)["link"])


# measuring


def measured(device: Device) -> dict[str, float]:
    """The rates of a device of this machine: measured in about a second the first time, then read
    from the cache on disk (EMBER_CACHE)."""
    name = "host" if device.type == "cpu" else get_device_name(device)
    path = kept.path_of("costs", f"{name} {_processor()} {ember_version}", ".json")
    text = kept.read(path)
    if text is not None:
        found: dict[str, float] = json.loads(text)
        return found
    found = _measure(device)
    kept.write(path, json.dumps(found).encode())
    return found


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next((line.strip() for line in file if line.startswith("model name")), "")
    except OSError:
        return ""


def _measure(device: Device) -> dict[str, float]:
    size, elements = (512, 1 << 22) if device.type == "cpu" else (4096, 1 << 26)
    with no_grad():
        a = ops.ones(size, size, device=device)
        half = a.to(dtypes.bfloat16)
        large = ops.ones(elements, device=device)
        tiny = ops.ones(4, device=device)
        host = ops.ones(elements // 4)
        return {
            "flops": 2.0 * size**3 / _fastest(lambda: a @ a, device),
            "half_flops": 2.0 * size**3 / _fastest(lambda: half @ half, device),
            "bandwidth": 8.0 * elements / _fastest(lambda: large + 1, device),
            "overhead": _fastest(lambda: [tiny + 1 for _ in range(100)], device) / 100,
            "link": float(elements) / _fastest(lambda: host.to(device, copy=True), device),
        }


def _fastest(work: Callable[[], Any], device: Device, times: int = 5) -> float:
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            synchronize(device)
        best = min(best, time.perf_counter() - start)
    return max(best, 1e-9)
