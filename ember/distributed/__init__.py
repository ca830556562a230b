"""Processes that work together: groups, collectives, and what stands on them (`torch.distributed`).

`python -m ember.distributed.run --nproc-per-node 4 script.py` starts the processes of a script;
`init_process_group` forms their group. Tensors travel over TCP connections between the processes,
from the CPU and from (simulated) GPUs alike.
"""

from __future__ import annotations

import importlib
from datetime import timedelta
from typing import Any

from ember.distributed import sync_batch_norm as _sync_batch_norm  # makes nn.SyncBatchNorm real
from ember.distributed.collectives import (
    _all_gather_base,
    _reduce_scatter_base,
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from ember.distributed.debug import (
    DebugLevel,
    get_debug_level,
    set_debug_level,
    set_debug_level_from_env,
)
from ember.distributed.errors import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
)
from ember.distributed.objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from ember.distributed.point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
from ember.distributed.process_group import ProcessGroup
from ember.distributed.reduce_op import ReduceOp, supports_complex
from ember.distributed.reduce_op import premul_sum as _make_nccl_premul_sum
from ember.distributed.rendezvous import register_rendezvous_handler, rendezvous
from ember.distributed.stores import FileStore, HashStore, PrefixStore, Store
from ember.distributed.tcp_store import TCPStore
from ember.distributed.work import Work
from ember.distributed.world import (
    Backend,
    GroupMember,
    _get_default_group,
    _rank_not_in_group,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    split_group,
)
from ember.missing import missing_attribute

reduce_op = ReduceOp  # its older name
_SUBMODULES = frozenset(
    "_composable _functional_collectives _tensor algorithms checkpoint constants device_mesh "
    "distributed_c10d elastic fsdp launch nn optim rpc run tensor".split()
)
_MODULE_OF = {
    "DeviceMesh": "device_mesh",
    "init_device_mesh": "device_mesh",
    "GradBucket": "reducer",
    "BuiltinCommHookType": "reducer",
}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"ember.distributed.{name}")
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"ember.distributed.{_MODULE_OF[name]}"), name)
    raise missing_attribute("torch.distributed", name, lambda: __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES, *_MODULE_OF} - {"Any", "importlib", "annotations"})
