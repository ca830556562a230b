"""GPUs, real or simulated: which there are, which is current, what their memories hold, streams and
events."""

from __future__ import annotations

import importlib
from typing import Any

from ember.core.generator import default_of
from ember.cuda.devices import (
    DeviceProperties as _CudaDeviceProperties,
)
from ember.cuda.devices import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    ipc_collect,
    is_available,
    is_bf16_supported,
    is_initialized,
    set_device,
    simulate,
)
from ember.cuda.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from ember.cuda.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from ember.cuda.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
    synchronize,
)
from ember.device import device as torch_device
from ember.errors import AcceleratorError, OutOfMemoryError
from ember.missing import missing_attribute
from ember.ops.legacy import CUDA_TYPES


def __getattr__(name: str) -> Any:
    if name in CUDA_TYPES:
        return CUDA_TYPES[name]
    if name == "default_generators":
        return tuple(default_of(torch_device("cuda", i)) for i in range(device_count()))
    if name == "amp":
        return importlib.import_module("ember.cuda.amp")
    raise missing_attribute("torch.cuda", name, lambda: [*globals(), *CUDA_TYPES, "amp"])
