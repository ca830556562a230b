"""Simulated GPUs: the CPU's kernels by composition, with memories, queues and clocks of their
own."""

from ember.backends.sim.backend import SimBackend, configure, configured
from ember.backends.sim.specification import parse

__all__ = ["SimBackend", "configure", "configured", "parse"]
