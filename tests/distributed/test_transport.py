"""What happens when processes die, are late, or do not make the same calls."""

import socket
import struct
from datetime import timedelta

import pytest

import ember as torch
from ember.distributed import DistBackendError, HashStore
from ember.distributed.transport import Peers

SOON = timedelta(milliseconds=80)


def test_what_was_sent_before_the_end_arrives(groups):
    first, second = groups.make(2)
    first.send([torch.ones(100_000)], 1)
    first._peers.close()
    x = torch.zeros(100_000)
    second.recv(x, 0).wait()
    assert x.sum().item() == 100_000
    with pytest.raises(DistBackendError, match="Connection closed by peer: rank 0"):
        second.recv(x, 0).wait()
    with pytest.raises(DistBackendError, match="nothing can be sent to rank 0"):
        second.send([x], 0)


def test_a_collective_names_the_dead(groups, threads):
    made = groups.make(3)
    made[2]._peers.close()

    def work(rank):
        with pytest.raises(DistBackendError, match="Connection closed by peer: .*rank 2"):
            made[rank].allreduce([torch.ones(2)])

    threads(2, work)


def test_late_processes_are_named(groups):
    first, _ = groups.make(2, timeout=SOON)
    with pytest.raises(DistBackendError, match=r"Timed out waiting 80ms .*all_reduce .* rank 1"):
        first.allreduce([torch.ones(2)])


def test_a_failure_reaches_the_others(groups, threads):
    made = groups.make(4)

    def work(rank):  # 0 sends to 1 and 2, and 1 to 3
        x = torch.full((3 if rank == 1 else 2,), float(rank))
        try:
            made[rank].broadcast([x], 0)
        except DistBackendError as error:
            return str(error)
        return x.tolist()

    first, second, third, fourth = threads(4, work)
    assert first == third == [0, 0]
    assert "rank 0 sent 8 bytes of float32, where 12 bytes" in second
    assert fourth.startswith("rank 1 failed in this collective: DistBackendError: broadcast")


def test_other_calls_and_sizes_are_told(groups):
    def calls(group):
        if group.rank() == 0:
            group.allreduce([torch.ones(2)])
        else:
            group.barrier()

    with pytest.raises(DistBackendError, match="do not make the same calls.*rank 1 called barrier"):
        groups(2, calls)

    with pytest.raises(DistBackendError, match="rank 1 sent 12 bytes of float32, where 8 bytes"):
        groups(2, lambda group: group.allreduce([torch.ones(2 + group.rank())]))

    def dtypes(group):
        group.allreduce([torch.ones(2, dtype=[torch.float32, torch.int32][group.rank()])])

    with pytest.raises(DistBackendError, match="bytes of int32, where 8 bytes of float32"):
        groups(2, dtypes)


def test_messages_of_the_wrong_size_are_told(groups):
    first, second = groups.make(2)
    first.send([torch.ones(3)], 1)
    with pytest.raises(DistBackendError, match="rank 0 sent 12 bytes of float32, where rank 1"):
        second.recv(torch.zeros(2), 0).wait()


def test_monitored_barrier_names_who_is_missing(groups):
    first, second, _ = groups.make(3)
    with pytest.raises(DistBackendError, match="Ranks 1, 2 failed to pass monitoredBarrier"):
        first.monitored_barrier(SOON, wait_all_ranks=True)
    with pytest.raises(DistBackendError, match="Ranks 1 failed to pass monitoredBarrier in 80 ms"):
        first.monitored_barrier(SOON)
    with pytest.raises(DistBackendError, match="rank 0"):
        second.monitored_barrier(SOON)


def test_an_error_in_the_background_is_raised_by_wait(groups):
    first, second = groups.make(2)
    second._peers.close()
    work = first.allreduce([torch.ones(2)], in_background=True)
    with pytest.raises(DistBackendError, match="rank 1"):
        work.wait()
    assert isinstance(work.exception(), DistBackendError)
    assert not work.is_success()
    with pytest.raises(DistBackendError, match="rank 1"):
        work.get_future().wait()
    first.shutdown()


def test_who_does_not_come_is_named():
    store = HashStore()
    store.set("rank 1", "127.0.0.1 1 00")
    with pytest.raises(DistBackendError, match="rank 1 did not connect to rank 0"):
        Peers(store, 0, 2, SOON)


def test_strangers_are_turned_away(threads):
    store, rest = HashStore(), timedelta(seconds=60)
    store.set("rank 1", "127.0.0.1 1 00")  # so that rank 0 listens before rank 1 is there

    def work(rank):
        if rank == 1:
            host, port, _ = store.get("rank 0").decode().split()
            with socket.create_connection((host, int(port))) as stranger:
                stranger.sendall(struct.pack("<I16s", 1, b"x" * 16))
                assert stranger.recv(1) == b""  # closed
        return Peers(store, rank, 2, rest)

    for peers in threads(2, work):
        assert peers.size == 2
        peers.close()
