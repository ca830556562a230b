"""A pass over a loader by worker processes. Loaded when the first loader with workers is used."""

from __future__ import annotations

import multiprocessing
import os
import selectors
import signal
import time
from collections.abc import Iterator
from itertools import cycle
from typing import Any

from ember.utils.data._utils.iterators import _BaseDataLoaderIter
from ember.utils.data._utils.pin_memory import pin_memory
from ember.utils.data._utils.transport import Channel, channel_sockets
from ember.utils.data._utils.worker import ExceptionWrapper
from ember.utils.data._utils.worker_loop import (
    RESUME,
    STOP,
    IterableEnded,
    Resumed,
    WorkerJob,
    run_worker,
)

CHECK_SECONDS = 5.0  # how often a wait looks whether the workers live, should no socket tell
JOIN_SECONDS = 5.0  # how long a worker may take to finish its task when the pass is over


class _Worker:
    """A process, the loader's end of its channel, and whether it still gets tasks."""

    def __init__(self, context: Any, job: WorkerJob, others: list[_Worker]):
        ours, theirs = channel_sockets()
        inherited = []
        if getattr(context, "get_start_method", multiprocessing.get_start_method)() == "fork":
            inherited = [ours, *(other.channel.socket for other in others)]
        self.process = context.Process(
            target=run_worker, args=(job, theirs, inherited), daemon=True
        )
        try:
            self.process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self.channel = Channel(ours, blocking=False)
        self.pid = self.process.pid
        self.active = True

    def describe_death(self) -> str:
        """What became of a worker that is gone before its time."""
        self.process.join(JOIN_SECONDS)
        code = self.process.exitcode
        if code is not None and code < 0:
            return (
                f"DataLoader worker (pid(s) {self.pid}) exited unexpectedly: it is killed by "
                "signal: "
                f"{signal.strsignal(-code)}. The system kills a process so when memory runs out, "
                "or when native "
                "code crashes."
            )
        return (
            f"DataLoader worker (pid {self.pid}) exited unexpectedly with exit code {code}. "
            "Details are lost due "
            "to multiprocessing. Rerunning with num_workers=0 may give better error trace."
        )


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """A pass by workers: tasks are dealt out in turn, `prefetch_factor` to each ahead of what is
    asked for.

    One loop waits on all sockets and never blocks on one, so there are no threads and no locks
    here.
    """

    def __init__(self, loader: Any):
        super().__init__(loader)
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        self._owner = os.getpid()
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._shutdown = False
        self._resuming: set[_Worker] = (
            set()
        )  # who has not yet answered that it starts the next pass
        context = loader.multiprocessing_context or multiprocessing
        try:
            for worker_id in range(self._num_workers):
                job = self._job(loader, worker_id)
                worker = _Worker(context, job, self._workers)
                self._workers.append(worker)
                self._selector.register(worker.channel, selectors.EVENT_READ, worker)
            self._reset(loader, first_iter=True)
        except BaseException:
            self._shutdown_workers()
            raise

    def _job(self, loader: Any, worker_id: int) -> WorkerJob:
        return WorkerJob(
            dataset_kind=self._dataset_kind,
            dataset=self._dataset,
            auto_collation=self._auto_collation,
            collate_fn=self._collate_fn,
            drop_last=self._drop_last,
            base_seed=self._base_seed,
            init_fn=loader.worker_init_fn,
            worker_id=worker_id,
            num_workers=self._num_workers,
        )

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        self._sent = 0  # tasks dealt out in this pass
        self._assigned: dict[int, _Worker] = {}  # tasks dealt out, until their batch is handed over
        self._arrived: dict[int, Any] = {}
        self._turns: Iterator[_Worker] = cycle(self._workers)
        if not first_iter:
            self._resume_workers()
        for worker in self._workers:
            worker.active = True
        for _ in range(self._prefetch_factor * self._num_workers):
            self._deal_out()

    def _resume_workers(self) -> None:
        """Start the workers' next pass; what they still send of the last one is thrown away."""
        self._resuming = set(self._workers)
        for worker in self._workers:
            worker.channel.send(RESUME)
            self._watch(worker)
        while self._resuming:
            if not self._wait(CHECK_SECONDS) or any(w.channel.closed for w in self._resuming):
                self._check_alive(self._resuming)

    def _deal_out(self) -> None:
        """Give the next task to the worker whose turn it is, if there are tasks and workers
        left.
        """
        try:
            indices = self._next_index()
        except StopIteration:
            return
        for _ in range(self._num_workers):
            worker = next(self._turns)
            if worker.active:
                break
        else:
            return
        self._assigned[self._sent] = worker
        worker.channel.send((self._sent, indices))
        self._watch(worker)
        self._sent += 1

    def _watch(self, worker: _Worker) -> None:
        if not worker.channel.closed:
            writing = selectors.EVENT_WRITE if worker.channel.pending else 0
            self._selector.modify(worker.channel, selectors.EVENT_READ | writing, worker)

    def _wait(self, seconds: float) -> bool:
        """Wait for any socket, then read and write what can be; False if nothing happened."""
        ready = self._selector.select(seconds)
        for key, events in ready:
            worker = key.data
            if events & selectors.EVENT_WRITE:
                worker.channel.flush()
                self._watch(worker)
            if events & selectors.EVENT_READ:
                worker.channel.receive()
                if worker.channel.closed:
                    self._selector.unregister(worker.channel)
                while (message := worker.channel.next_message()) is not None:
                    self._take(worker, message)
        return bool(ready)

    def _take(self, worker: _Worker, message: Any) -> None:
        if isinstance(message, Resumed):
            self._resuming.discard(worker)
        elif not self._resuming:
            task, result = message
            if isinstance(result, IterableEnded):
                worker.active = False
                del self._assigned[task]
                self._deal_out()
            else:
                self._arrived[task] = result

    def _next_data(self) -> Any:
        started = time.monotonic()
        while (task := self._ready_task()) is None:
            if not self._assigned:
                if not self._persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            self._wait_for_batch(started)
        del self._assigned[task]
        result = self._arrived.pop(task)
        self._deal_out()
        if isinstance(result, ExceptionWrapper):
            result.reraise()
        return pin_memory(result) if self._pin_memory else result

    def _wait_for_batch(self, started: float) -> None:
        """Wait for sockets; RuntimeError if the batch takes too long, or its worker is gone."""
        left = CHECK_SECONDS
        if self._timeout > 0:
            left = min(left, started + self._timeout - time.monotonic())
            if left <= 0:
                self._fail(f"DataLoader timed out after {self._timeout} seconds")
        first = next(iter(self._assigned))
        owing = {self._assigned[first]} if self._in_order else set(self._assigned.values())
        if any(worker.channel.closed for worker in owing) or not self._wait(left):
            self._check_alive(owing)

    def _check_alive(self, workers: set[_Worker]) -> None:
        """RuntimeError if one of the workers, which all owe something, is gone."""
        for worker in workers:
            if worker.channel.closed or not worker.process.is_alive():
                self._fail(worker.describe_death())

    def _ready_task(self) -> int | None:
        """The task whose batch is to be handed over, if it is here: the oldest one, or any."""
        if not self._in_order:
            return next(iter(self._arrived), None)
        oldest = next(iter(self._assigned), None)
        return oldest if oldest in self._arrived else None

    def _fail(self, message: str) -> None:
        self._shutdown_workers(patience=0)
        raise RuntimeError(message)

    def _shutdown_workers(self, patience: float = JOIN_SECONDS) -> None:
        """Stop the workers and wait for them; one that does not stop in time is terminated."""
        if self._shutdown:
            return
        self._shutdown = True
        ours = (
            self._owner == os.getpid()
        )  # in a forked child, the workers are not this process's to stop
        for worker in self._workers:
            if ours and not worker.channel.closed:
                worker.channel.send(STOP)
            worker.channel.close()
        self._selector.close()
        if ours:
            self._join_workers(time.monotonic() + patience)

    def _join_workers(self, deadline: float) -> None:
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join()

    def __del__(self) -> None:
        if hasattr(self, "_shutdown"):
            self._shutdown_workers()
