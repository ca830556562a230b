"""`torch.__config__`: what Ember computes with, as text."""

from __future__ import annotations

import sys

import numpy as np

from ember.settings import get_num_interop_threads, get_num_threads
from ember.version import ember_version


def show() -> str:
    """What this build computes with: Python, NumPy and the threads of the CPU."""
    return (
        f"Ember {ember_version} built with:\n"
        f"  - Python {sys.version.split()[0]}\n"
        f"  - NumPy {np.__version__}\n"
        "  - CPU capability usage: DEFAULT\n"
    )


def parallel_info() -> str:
    """How many threads compute."""
    return (
        "ATen/Parallel:\n"
        f"\tat::get_num_threads() : {get_num_threads()}\n"
        f"\tat::get_num_interop_threads() : {get_num_interop_threads()}\n"
    )
