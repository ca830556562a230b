"""How tensors travel through the queues and pipes of `multiprocessing`: as descriptors of memory.

What is registered here is used by `multiprocessing` only: copies and saved files are as before.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import weakref
from multiprocessing import process, reduction, resource_sharer, util
from typing import Any

from ember.backends import base
from ember.core.shared_memory import SharedBlock
from ember.core.storages import UntypedStorage, storage_face
from ember.core.tensor import Tensor
from ember.core.typed_storages import TypedStorage
from ember.device import CPU, META
from ember.device import device as Device
from ember.errors import check
from ember.kernel.array import Array, Exposed, Storage

__all__ = ["init_reductions", "reduce_storage", "reduce_tensor"]

ALONE = 2  # references to a storage that one array views: the array's, and that of the count itself
STAY_SECONDS = 5.0  # how long a worker that is done waits for receivers
FIRST, LAST = 100, -50  # LAST: after the queues' threads (-5), before sockets are removed (-100)
# The memory that this process has sent or received, by its file: what comes twice is one storage.
_known: weakref.WeakValueDictionary[tuple[int, int], Storage] = weakref.WeakValueDictionary()


def _file_of(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def reduce_storage(storage: UntypedStorage) -> Any:
    """A storage as the descriptor of its memory, which it moves to first if need be."""
    place = str(storage.device)
    if storage.device is META or not storage.nbytes():
        return _without_memory, (storage.nbytes(), place)
    block = storage.shared_block()
    _known[_file_of(block.descriptor)] = storage._cell
    return _attached, (reduction.DupFd(block.descriptor), storage.nbytes(), place)


def _stay_for_receivers(_: Any = None) -> None:
    """Let a worker process that is done wait until what it has sent is received: descriptors are
    handed over on request.
    """
    starting = getattr(process.current_process(), "_inheriting", False)
    if starting or process.parent_process() is not None:
        util.Finalize(None, _keep_socket, exitpriority=FIRST)
        util.Finalize(None, _wait_for_receivers, exitpriority=LAST)


def _keep_socket() -> None:
    """Keep the name of the socket that receivers ask at, which would go at once."""
    with contextlib.suppress(AttributeError):  # no descriptor has been sent yet
        sharer: Any = resource_sharer._resource_sharer  # type: ignore[attr-defined]
        sharer._listener._listener._unlink.cancel()


def _wait_for_receivers() -> None:
    sharer: Any = resource_sharer._resource_sharer  # type: ignore[attr-defined]
    deadline = time.monotonic() + STAY_SECONDS
    while sharer._cache and time.monotonic() < deadline:
        time.sleep(0.005)
    if sharer._listener is not None:
        resource_sharer.stop(timeout=1)  # after the hand-over that is under way


def _without_memory(nbytes: int, place: str) -> UntypedStorage:
    return UntypedStorage(nbytes, device=place)


def _attached(sent: Any, nbytes: int, place: str) -> UntypedStorage:
    """The storage over the memory that another process has sent."""
    descriptor = sent.detach()
    try:
        key = _file_of(descriptor)
        cell = _known.get(key)
        if cell is None:
            device = CPU if place == "cpu" else base.resolve(Device(place))
            block = SharedBlock.attach(os.dup(descriptor), nbytes)
            cell = _known[key] = Exposed(block.array(), device)
            if device is not CPU:
                base.memory_of(device).adopt_foreign(cell)  # type: ignore[attr-defined]
    finally:
        os.close(descriptor)
    return storage_face(cell)


def reduce_tensor(tensor: Tensor) -> Any:
    """A tensor as its storage, and how it lies there. RuntimeError for what an op has recorded."""
    check(
        tensor.is_leaf or not tensor.requires_grad,
        RuntimeError,
        "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does "
        "not support crossing process boundaries. If you just want to transfer the data, call "
        "detach() on the tensor before serializing (e.g., putting it on the queue).",
    )
    _share(tensor)
    return tensor.__reduce_ex__(2)


def _share(tensor: Tensor) -> None:
    """Move a tensor's memory to where it can be shared, without a search for what else views it
    where nothing does.
    """
    array: Array = tensor._array
    dense = array.kind == "strided"  # the parts of others are sent one by one
    if dense and array.spec.device is not META and array.storage.nbytes:
        alone = sys.getrefcount(array.storage) == ALONE
        storage_face(array.storage).shared_block(array if alone else None)


def reduce_typed_storage(storage: TypedStorage) -> Any:
    """A typed storage as its bytes, and their dtype."""
    return _typed, (type(storage), storage.untyped(), storage.dtype)


def _typed(kind: Any, storage: UntypedStorage, dtype: Any) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=dtype)


def init_reductions() -> None:
    """Let `multiprocessing` send tensors so.

    A tensor of a subclass, like a parameter, is pickled by its own rules; only its storage is sent
    so.
    """
    register = reduction.ForkingPickler.register
    register(UntypedStorage, reduce_storage)
    register(TypedStorage, reduce_typed_storage)
    register(Tensor, reduce_tensor)


_stay_for_receivers()
util.register_after_fork(_stay_for_receivers, _stay_for_receivers)
