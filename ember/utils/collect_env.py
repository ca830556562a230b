"""`torch.utils.collect_env`: what a report of a fault should say of the machine. `python -m
torch.utils.collect_env` prints it."""

from __future__ import annotations

import importlib
import platform
import sys
from typing import NamedTuple

from ember.backends.base import has_backend
from ember.version import __version__, ember_version

PACKAGES = ("numpy", "scipy", "ml_dtypes", "llvmlite", "safetensors", "torch")


class SystemEnv(NamedTuple):
    """The parts of the report."""

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str
    os: str
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    nvidia_gpu_models: str
    cpu_info: str
    pip_packages: str


def get_env_info() -> SystemEnv:
    """What this machine and this Python are."""
    available = has_backend("cuda")
    names = "N/A"
    if available:
        cuda = importlib.import_module("ember.cuda")
        names = "\n".join(f"GPU {i}: {cuda.get_device_name(i)}" for i in range(cuda.device_count()))
    return SystemEnv(
        torch_version=f"{__version__} (Ember {ember_version})",
        is_debug_build="False",
        cuda_compiled_version="None",
        os=f"{platform.system()} {platform.release()} ({platform.machine()})",
        libc_version="-".join(platform.libc_ver()) or "N/A",
        python_version=f"{sys.version} ({sys.maxsize.bit_length() + 1}-bit runtime)",
        python_platform=platform.platform(),
        is_cuda_available=str(available),
        nvidia_gpu_models=names,
        cpu_info=platform.processor() or platform.machine(),
        pip_packages="\n".join(_versions()),
    )


def _versions() -> list[str]:
    from importlib import metadata  # slow to import, and only needed for a report

    found = []
    for name in PACKAGES:
        try:
            found.append(f"[pip3] {name}=={metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return found


def pretty_str(envinfo: SystemEnv) -> str:
    """The report as text."""
    packages = envinfo.pip_packages or "[pip3] No relevant packages"
    return (
        f"PyTorch version: {envinfo.torch_version}\n"
        f"Is debug build: {envinfo.is_debug_build}\n"
        f"CUDA used to build PyTorch: {envinfo.cuda_compiled_version}\n\n"
        f"OS: {envinfo.os}\n"
        f"Libc version: {envinfo.libc_version}\n\n"
        f"Python version: {envinfo.python_version}\n"
        f"Python platform: {envinfo.python_platform}\n"
        f"Is CUDA available: {envinfo.is_cuda_available}\n"
        f"GPU models and configuration: {envinfo.nvidia_gpu_models}\n\n"
        f"CPU: {envinfo.cpu_info}\n\n"
        f"Versions of relevant libraries:\n{packages}\n"
    )


def get_pretty_env_info() -> str:
    """The report of this machine.

    >>> from ember.utils import collect_env
    >>> "Python version" in collect_env.get_pretty_env_info()
    True
    """
    return pretty_str(get_env_info())


def main() -> None:
    """Print the report."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
