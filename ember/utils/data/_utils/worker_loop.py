"""What runs in a worker process."""

from __future__ import annotations

import os
import random
import select
from typing import Any, NamedTuple

import numpy as np

from ember.core.generator import manual_seed
from ember.utils.data._utils import worker
from ember.utils.data._utils.fetch import _DatasetKind
from ember.utils.data._utils.transport import Channel
from ember.utils.data._utils.worker import ExceptionWrapper, WorkerInfo

PARENT_CHECK_SECONDS = 5.0
STOP, RESUME = "stop", "resume"


class IterableEnded(NamedTuple):
    """The result of a task that an iterable dataset has no samples left for."""

    worker_id: int


class Resumed(NamedTuple):
    """The answer to RESUME: the worker starts another pass."""

    worker_id: int


class WorkerJob(NamedTuple):
    """What a worker is given when it starts."""

    dataset_kind: int
    dataset: Any
    auto_collation: bool
    collate_fn: Any
    drop_last: bool
    base_seed: int
    init_fn: Any
    worker_id: int
    num_workers: int


def run_worker(job: WorkerJob, sock: Any, inherited: list[Any]) -> None:
    """The life of a worker: seed, initialise, then a batch for each task until told to stop.

    `inherited` are the loader's own ends of the sockets, which a forked child must not keep open:
    else the other workers would not notice that the loader is gone.
    """
    for other in inherited:
        other.close()
    channel = Channel(sock, blocking=True)
    try:
        _serve(job, channel)
    except KeyboardInterrupt:
        pass  # the terminal sends it to all processes; the loader's own process reports it
    finally:
        channel.close()


def _serve(job: WorkerJob, channel: Any) -> None:
    parent = os.getppid()
    seed = job.base_seed + job.worker_id
    _seed_everything(seed, job)
    worker._worker_info = WorkerInfo(job.worker_id, job.num_workers, seed, job.dataset)
    fetcher = _started(job)
    while (task := _next_task(channel, parent)) is not None and task != STOP:
        if task == RESUME:
            channel.send(Resumed(job.worker_id))
            fetcher = _started(job, again=True)
            continue
        task_id, indices = task
        _answer(channel, task_id, _batch(fetcher, indices, job.worker_id), job.worker_id)


def _seed_everything(seed: int, job: WorkerJob) -> None:
    """Different numbers in each worker, from Ember, `random` and NumPy, that follow from the
    loader's seed.
    """
    random.seed(seed)
    manual_seed(seed)
    state = worker._generate_state(job.base_seed, job.worker_id)
    np.random.seed(state)  # noqa: NPY002  users' datasets draw from NumPy's global state


def _started(job: WorkerJob, *, again: bool = False) -> Any:
    """The fetcher of a pass, or the error that kept it from being made."""
    try:
        if job.init_fn is not None and not again:
            job.init_fn(job.worker_id)
        return _DatasetKind.create_fetcher(
            job.dataset_kind, job.dataset, job.auto_collation, job.collate_fn, job.drop_last
        )
    except Exception:
        return ExceptionWrapper(where=f"in DataLoader worker process {job.worker_id}")


def _batch(fetcher: Any, indices: Any, worker_id: int) -> Any:
    if isinstance(fetcher, ExceptionWrapper):
        return fetcher
    try:
        return fetcher.fetch(indices)
    except StopIteration:
        if hasattr(fetcher, "dataset_iter"):
            return IterableEnded(worker_id)
        return ExceptionWrapper(where=f"in DataLoader worker process {worker_id}")
    except Exception:
        return ExceptionWrapper(where=f"in DataLoader worker process {worker_id}")


def _answer(channel: Any, task_id: int, result: Any, worker_id: int) -> None:
    try:
        channel.send((task_id, result))
    except Exception:  # the batch cannot be pickled
        channel.send((task_id, ExceptionWrapper(f"in DataLoader worker process {worker_id}")))


def _next_task(channel: Any, parent: int) -> Any:
    """The next task; None when the loader's process is gone."""
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN)
    while (found := channel.next_message()) is None:
        if poll.poll(PARENT_CHECK_SECONDS * 1000):
            channel.receive()
        elif os.getppid() != parent:
            return None
        if channel.closed:
            return None
    return found
