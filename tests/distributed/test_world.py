"""Forming groups, asking about them, ending them."""

import os
import subprocess
import sys
import textwrap
from datetime import timedelta

import pytest

import ember as torch
import ember.distributed as dist

NOT_YET = "Default process group has not been initialized, please make sure to call"


def test_before_there_is_a_group():
    assert dist.is_available()
    assert not dist.is_initialized()
    assert dist.group.WORLD is None
    for ask in (dist.get_rank, dist.get_world_size, dist.get_backend, dist.barrier, dist.new_group):
        with pytest.raises(ValueError, match=NOT_YET):
            ask()
    with pytest.raises(ValueError, match=NOT_YET):
        dist.all_reduce(torch.ones(1))
    with pytest.raises(AssertionError, match="Process group cannot be None"):
        dist.destroy_process_group()


def test_backends():
    assert dist.Backend("GLOO") == dist.Backend.GLOO == "gloo"
    assert dist.is_gloo_available()
    assert not dist.is_mpi_available()
    assert dist.is_backend_available("GLOO")
    assert not dist.is_backend_available("mpi")
    assert dist.get_default_backend_for_device("cpu") == "gloo"
    assert dist.get_default_backend_for_device("cuda:1") == "nccl"
    with pytest.raises(ValueError, match="Backend constructor parameter must be a string"):
        dist.Backend(1)
    with pytest.raises(ValueError, match="Unknown backend 'goo'"):
        dist.init_process_group("goo")
    with pytest.raises(RuntimeError, match="doesn't have MPI"):
        dist.init_process_group("mpi")
    assert not dist.is_initialized()


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({}, ValueError, "environment variable RANK expected, but not set"),
        ({"rank": 0}, ValueError, "environment variable WORLD_SIZE expected"),
        (
            {"rank": 0, "world_size": 1},
            ValueError,
            "environment variable MASTER_ADDR expected",
        ),
        ({"init_method": "foo://"}, RuntimeError, "No rendezvous handler for foo://"),
        ({"init_method": "tcp://localhost:0"}, ValueError, "tcp:// .* rank parameter missing"),
        ({"init_method": "tcp://localhost", "rank": 0}, ValueError, "port number missing"),
        ({"init_method": "file:///nowhere"}, ValueError, "file:// .* rank parameter missing"),
        ({"init_method": "file://", "rank": 0}, ValueError, "path missing"),
        ({"store": dist.HashStore(), "init_method": "env://"}, AssertionError, "both init_method"),
        ({"store": dist.HashStore(), "rank": 0}, AssertionError, "world_size must be positive"),
        ({"store": dist.HashStore(), "world_size": 1}, AssertionError, "rank must be non-neg"),
        (
            {"store": dist.HashStore(), "world_size": 1, "rank": 1},
            ValueError,
            "rank 1 is not in a world of 1",
        ),
        ({"timeout": 5}, TypeError, "timedelta"),
    ],
)
def test_wrong_arguments_leave_nothing(monkeypatch, options, kind, message):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(kind, match=message):
        dist.init_process_group("gloo", **options)
    assert not dist.is_initialized()


def test_a_group_of_one(alone):
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    assert dist.get_backend_config() == "cpu:gloo,cuda:gloo"
    assert isinstance(dist.group.WORLD, dist.ProcessGroup)
    assert dist.distributed_c10d._get_default_group() is dist.GroupMember.WORLD
    assert dist.get_process_group_ranks(dist.group.WORLD) == [0]
    assert dist.get_pg_count() == 1
    part = dist.new_group([0], timeout=timedelta(seconds=3))
    assert (dist.get_rank(part), dist.get_group_rank(part, 0), dist.get_pg_count()) == (0, 0, 2)
    with pytest.raises(ValueError, match="Global rank 4 is not part of group"):
        dist.get_group_rank(part, 4)
    with pytest.raises(ValueError, match="Group rank 4 is not part of group"):
        dist.get_global_rank(part, 4)
    with pytest.raises(ValueError, match="less or equal to the world size"):
        dist.new_group([0, 1])
    dist.destroy_process_group(part)
    with pytest.raises(ValueError, match="Invalid process group"):
        dist.all_reduce(torch.ones(1), group=part)
    dist.destroy_process_group()
    assert not dist.is_initialized()


def test_every_way_to_meet(tmp_path, monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "0")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    ways = ["env://", "tcp://127.0.0.1:0?rank=0&world_size=1", f"file://{tmp_path}/meet?rank=0"]
    for way in ways:
        world = {"world_size": 1} if "file" in way else {}
        dist.init_process_group("gloo", init_method=way, **world)
        assert dist.get_world_size() == 1
        dist.destroy_process_group()
    with pytest.raises(RuntimeError, match="already registered"):
        dist.register_rendezvous_handler("tcp", None)
    with pytest.raises(RuntimeError, match="has node-specific arguments"):
        dist.rendezvous("tcp://127.0.0.1:0?rank=0", rank=0)


def two_rounds(rank):
    store = dist.distributed_c10d._get_default_store()
    dist.barrier()
    dist.destroy_process_group()
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    x = torch.ones(1)
    dist.all_reduce(x)
    return x.item()


def test_a_store_serves_several_runs(processes):
    assert processes(2, two_rounds) == [2, 2]


def parts(rank):
    left, right = dist.new_group([0, 1]), dist.new_group([2, 1])
    x, y = torch.tensor([float(rank)]), torch.tensor([float(rank)])
    if rank < 2:
        dist.all_reduce(x, group=left)
    else:
        assert left is dist.GroupMember.NON_GROUP_MEMBER
        assert dist.get_rank(left) == dist.get_world_size(left) == -1
        with pytest.warns(UserWarning, match="outside the group"):
            assert dist.all_reduce(x, group=left) is None
    if rank > 0:
        dist.broadcast(y, src=2, group=right)
        assert dist.get_process_group_ranks(right) == [1, 2]
        assert dist.get_group_rank(right, 2) == 1
        z = torch.tensor([float(rank)])
        dist.broadcast(z, group_src=0, group=right)
        assert z.item() == 1
        with pytest.raises(ValueError, match="both src and group_src"):
            dist.broadcast(z, 1, right, group_src=0)
    if rank != 1:  # only its members make it
        local = dist.new_group([0, 2], use_local_synchronization=True)
        z = torch.ones(1)
        dist.all_reduce(z, group=local)
        assert z.item() == 2
    half = dist.split_group(None, [[0, 1], [2]])
    assert dist.get_process_group_ranks(half) == ([2] if rank == 2 else [0, 1])
    own, every = dist.new_subgroups_by_enumeration([[0, 2], [1]])
    assert len(every) == 2
    assert dist.get_world_size(own) == (1 if rank == 1 else 2)
    return x.item(), y.item()


def test_parts_of_a_run(processes):
    assert processes(3, parts) == [(1, 0), (1, 2), (2, 2)]


def test_local_ranks(monkeypatch):
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert dist.get_node_local_rank(3) == 3
    with pytest.raises(RuntimeError, match="LOCAL_RANK is not in the environment"):
        dist.get_node_local_rank()
    monkeypatch.setenv("LOCAL_RANK", "5")
    assert dist.get_node_local_rank() == 5


def test_debug_levels(monkeypatch):
    before = dist.get_debug_level()
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "detail")
    dist.set_debug_level_from_env()
    assert dist.get_debug_level() is dist.DebugLevel.DETAIL
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "loud")
    with pytest.raises(RuntimeError, match="must be OFF, INFO, or DETAIL"):
        dist.set_debug_level_from_env()
    dist.set_debug_level(before)


def test_missing_names_are_told():
    with pytest.raises(AttributeError, match="all_reduce"):
        dist.al_reduce
    assert "fsdp" in dir(dist)


GPUS = """
import os, sys
import ember as torch, ember.distributed as dist
from ember.devices import ledger

def main():
    store = dist.HashStore()
    dist.init_process_group("nccl", store=store, rank=0, world_size=1)
    x = torch.ones(256, device="cuda")
    with ledger() as seen:
        dist.all_reduce(x)
    print(dist.get_backend(), int(seen.totals()["all"]["bytes"]), x.device)
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError as error:
        print(error)
    objects = [None]
    dist.all_gather_object(objects, {"a": 1})
    print(objects)
    dist.destroy_process_group()

main()
"""


def test_gpus(no_gpus):
    with pytest.raises(ValueError, match="no GPUs found"):
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    environment = {**os.environ, "EMBER_SIMULATE_GPUS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(GPUS)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    name, moved, place = done.stdout.splitlines()[0].split()
    assert (name, int(moved), place) == ("nccl", 2 * 256 * 4, "cuda:0")
    assert "No backend type associated with device type cpu" in done.stdout
    assert "[{'a': 1}]" in done.stdout
