"""Two simulated GPUs of a process of their own, for as long as a test needs them."""

import gc

import pytest

import ember
from ember.backends import base


@pytest.fixture
def gpus():
    """The memories of two simulated GPUs; a machine with real ones is skipped."""
    gc.collect()
    if not ember.cuda.is_available():
        ember.cuda.simulate(2)
    backend = base.backend_of("cuda")
    if not getattr(backend, "simulated", False) or backend.device_count() < 2:
        pytest.skip("needs two simulated GPUs")
    memories = [backend.memory(0), backend.memory(1)]
    kept = [(memory.capacity, memory.limit) for memory in memories]
    for index in range(2):
        ember.cuda.reset_peak_memory_stats(index)
    yield memories
    backend.set_current(0)
    for memory, (capacity, limit) in zip(memories, kept, strict=True):
        memory.capacity, memory.limit = capacity, limit
