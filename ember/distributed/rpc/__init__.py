"""The names of remote calls, which Ember does not have."""

from __future__ import annotations

from ember.distributed.left_out import left_out_class, left_out_function

INSTEAD = (
    "send objects with torch.distributed.send_object_list, or start workers with "
    "torch.multiprocessing"
)


def is_available() -> bool:
    """False: there are no remote calls."""
    return False


RRef = left_out_class(__name__, "RRef", INSTEAD)
init_rpc = left_out_function(__name__, "init_rpc", INSTEAD)
shutdown = left_out_function(__name__, "shutdown", INSTEAD)
rpc_sync = left_out_function(__name__, "rpc_sync", INSTEAD)
rpc_async = left_out_function(__name__, "rpc_async", INSTEAD)
remote = left_out_function(__name__, "remote", INSTEAD)
get_worker_info = left_out_function(__name__, "get_worker_info", INSTEAD)
