"""`ember info`: versions, devices and memory, as a table or as JSON."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

import ember
from ember.backends.base import backend_of
from ember.backends.sim import SimBackend
from ember.version import __version__, ember_version

PACKAGES = ("numpy", "ml_dtypes", "llvmlite", "safetensors", "scipy", "tqdm", "rich")
GPU_PACKAGES = (
    "cuda-core",
    "cuda-bindings",
    "nvidia-cublas",
    "nvidia-cudnn-cu13",
    "nvidia-nccl-cu13",
)
USAGE = "usage: ember info [--json]"


def info(arguments: list[str]) -> int:
    """Print what `collect` finds; `--json` prints it for programs."""
    if arguments in (["-h"], ["--help"]):
        print(
            f"{USAGE}\n\nShow the versions of Ember and its parts, the devices, and their memory."
        )
        return 0
    if arguments not in ([], ["--json"]):
        print(f"ember info: error: cannot read {' '.join(arguments)}\n{USAGE}", file=sys.stderr)
        return 2
    found = collect()
    if arguments:
        import json

        print(json.dumps(found, indent=2))
    else:
        show(found)
    return 0


def collect() -> dict[str, Any]:
    """Versions by package (None: not installed) and one record for each device."""
    from importlib import metadata

    versions: dict[str, str | None] = {}
    for package in PACKAGES + GPU_PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "ember": ember_version,
        "torch_interface": str(__version__),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": versions,
        "devices": [_cpu(), *_gpus()],
    }


def _cpu() -> dict[str, Any]:
    total, free = _host_memory()
    # The cores that this process may use, which containers and schedulers make fewer.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "device": "cpu",
        "name": _processor() or platform.machine(),
        "kind": f"{cores} cores",
        "total_memory": total,
        "free_memory": free,
    }


def _host_memory() -> tuple[int | None, int | None]:
    """Total and available bytes of the host's memory; None where the system does not tell."""
    try:
        with open("/proc/meminfo") as file:
            lines = dict(line.split(":", 1) for line in file)
        kib = [int(lines[name].split()[0]) for name in ("MemTotal", "MemAvailable")]
        return kib[0] * 1024, kib[1] * 1024
    except (OSError, KeyError, ValueError):
        return None, None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            names = [
                line.split(":", 1)[1].strip() for line in file if line.startswith("model name")
            ]
        return names[0] if names else platform.processor()
    except OSError:
        return platform.processor()


def _gpus() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if not ember.cuda.is_available():
        return found
    simulated = isinstance(backend_of("cuda"), SimBackend)
    for index in range(ember.cuda.device_count()):
        properties = ember.cuda.get_device_properties(index)
        free, total = ember.cuda.mem_get_info(index)
        found.append(
            {
                "device": f"cuda:{index}",
                "name": properties.name,
                "kind": "simulated" if simulated else "GPU",
                "total_memory": total,
                "free_memory": free,
            }
        )
    return found


def show(found: dict[str, Any]) -> None:
    """Print what `collect` found as two tables."""
    from rich.console import Console
    from rich.table import Table

    versions = Table("part", "version", title=f"Ember {found['ember']}")
    versions.add_row("PyTorch interface", found["torch_interface"])
    versions.add_row("Python", f"{found['python']} on {found['platform']}")
    for package, version in found["packages"].items():
        if version is not None or package not in GPU_PACKAGES:
            versions.add_row(package, version or "not installed")
    devices = Table("device", "name", "kind", title="Devices")
    devices.add_column("memory", justify="right")
    devices.add_column("free", justify="right")
    for device in found["devices"]:
        amounts = [_gib(device[field]) for field in ("total_memory", "free_memory")]
        devices.add_row(device["device"], device["name"], device["kind"], *amounts)
    console = Console()
    console.print(versions)
    console.print(devices)
    if len(found["devices"]) == 1:
        console.print("No GPU was found. `ember run --gpus 2 SCRIPT` simulates two.")


def _gib(count: int | None) -> str:
    return "?" if count is None else f"{count / 2**30:.1f} GiB"
