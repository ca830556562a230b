"""Several processes in a test: as threads with a process group each, or as forked processes."""

import multiprocessing
import threading
import traceback
import warnings
from datetime import timedelta

import pytest

import ember.distributed as dist
from ember.distributed.process_group import ProcessGroup
from ember.distributed.transport import Peers

LIMIT = timedelta(seconds=60)  # for what must happen; what must not is given its own, short one


def in_threads(count, work):
    """[work(rank) for rank in range(count)], at the same time; the first error is raised."""
    results, errors = [None] * count, [None] * count

    def run(rank):
        try:
            results[rank] = work(rank)
        except BaseException as error:
            errors[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        if error is not None:
            raise error
    return results


@pytest.fixture
def threads():
    """threads(count, work): work(rank) for each rank at the same time."""
    return in_threads


@pytest.fixture
def groups():
    """groups(count, work): work(group) for each rank of a process group, in threads."""
    opened = []

    def make(count, timeout=LIMIT):
        store = dist.HashStore()
        peers = in_threads(count, lambda rank: Peers(store, rank, count, LIMIT))
        opened.extend(peers)
        return [ProcessGroup(p, 0, list(range(count)), "gloo", timeout, "0") for p in peers]

    def run(count, work, **options):
        made = make(count, **options)
        try:
            return in_threads(count, lambda rank: work(made[rank]))
        finally:
            for group in made:
                group.shutdown()

    run.make = make
    yield run
    for peers in opened:
        peers.close()


def _child(work, rank, count, path, arguments, pipe):
    try:
        dist.init_process_group(
            "gloo", init_method=f"file://{path}", rank=rank, world_size=count, timeout=LIMIT
        )
        found = work(rank, *arguments)
        dist.destroy_process_group()
        pipe.send((found, None))
    except BaseException:
        pipe.send((None, traceback.format_exc()))


@pytest.fixture
def processes(tmp_path):
    """processes(count, work, *arguments): work(rank, *arguments) in forked processes of a run."""
    context = multiprocessing.get_context("fork")

    def run(count, work, *arguments):
        path, started = tmp_path / "rendezvous", []
        for rank in range(count):
            ours, theirs = context.Pipe(duplex=False)
            given = (work, rank, count, path, arguments, theirs)
            process = context.Process(target=_child, args=given)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # forks beside threads
                process.start()
            theirs.close()
            started.append((process, ours))
        found = []
        for _, pipe in started:
            try:
                found.append(pipe.recv())
            except EOFError:
                found.append((None, "the process ended without a word"))
            pipe.close()
        for process, _ in started:
            process.join()
            process.close()
        for _, error in found:
            if error is not None:
                pytest.fail(error)
        return [value for value, _ in found]

    return run


@pytest.fixture
def alone():
    """A run of one process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()
