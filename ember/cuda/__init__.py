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

has_half, has_magma = True, False
_LATER = {  # names that few programs ask for, by the module that loads then
    "figures": "clock_rate device_memory_used get_allocator_backend get_gencode_flags "
    "get_per_process_memory_fraction host_memory_stats host_memory_stats_as_nested_dict "
    "is_tf32_supported list_gpu_processes memory_stats_as_nested_dict memory_usage power_draw "
    "reset_accumulated_host_memory_stats reset_peak_host_memory_stats temperature utilization",
    "graphs": "CUDAGraph graph graph_pool_handle is_current_stream_capturing "
    "make_graphed_callables",
    "status": "CudaError DeferredCudaCallError check_error cudaStatus",
    "synchronizing": "get_sync_debug_mode set_sync_debug_mode",
}
_HOMES = {name: module for module, names in _LATER.items() for name in names.split()}
_NO_POINTERS = "memory of GPUs is reached through tensors"
_LEFT_OUT = {
    "CUDAPluggableAllocator": "there is one allocator",
    "ExternalStream": "streams are made here: torch.cuda.Stream()",
    "GreenContext": "a GPU is used as a whole",
    "MemPool": "there is one pool of memory",
    "caching_allocator_alloc": _NO_POINTERS,
    "caching_allocator_delete": _NO_POINTERS,
    "caching_allocator_disabled": "torch.cuda.empty_cache() gives back what is not in use",
    "caching_allocator_enable": "torch.cuda.empty_cache() gives back what is not in use",
    "change_current_allocator": "there is one allocator",
    "cudart": "the CUDA runtime is not called",
    "current_blas_handle": "no handle of cuBLAS is handed out",
    "current_solver_handle": "no handle of cuSOLVER is handed out",
    "get_stream_from_external": "streams are made here: torch.cuda.Stream()",
    "use_mem_pool": "there is one pool of memory",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(importlib.import_module(f"ember.cuda.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    if name in _LEFT_OUT:
        message = f"torch.cuda has no {name} in Ember: {_LEFT_OUT[name]}"
        raise AttributeError(message, name=name)
    if name in CUDA_TYPES:
        return CUDA_TYPES[name]
    if name == "default_generators":
        return tuple(default_of(torch_device("cuda", i)) for i in range(device_count()))
    if name == "amp":
        return importlib.import_module("ember.cuda.amp")
    raise missing_attribute("torch.cuda", name, lambda: [*globals(), *_HOMES, *CUDA_TYPES, "amp"])
