"""Grids of processes."""

import pytest

import ember as torch
import ember.distributed as dist
from ember.distributed.device_mesh import DeviceMesh, init_device_mesh


def grid(rank):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    line = mesh["model"]
    x = torch.tensor([float(rank)])
    dist.all_reduce(x, group=mesh.get_group("data"))
    y = torch.tensor([float(rank)])
    dist.all_reduce(y, group=line.get_group())
    z = torch.ones(1)
    dist.all_reduce(z, group=mesh._flatten("all").get_group())
    assert mesh["all"].size() == 4
    assert mesh["data", "model"] is mesh
    assert line.mesh.tolist() == dist.get_process_group_ranks(line.get_group())
    assert line.get_local_rank() == mesh.get_local_rank("model") == rank % 2
    with pytest.raises(RuntimeError, match="`mesh_dim` needs to be specified"):
        mesh.get_group()
    with pytest.raises(KeyError, match="Invalid mesh_dim_names"):
        mesh["rows"]
    with pytest.raises(RuntimeError, match="bigger than default world size 4, but found 6"):
        init_device_mesh("cpu", (3, 2))
    return x.item(), y.item(), z.item(), mesh.get_coordinate(), repr(line)


def test_a_grid(processes):
    assert processes(4, grid) == [
        (2, 1, 4, (0, 0), "DeviceMesh((model=2), 'cpu', stride=(1,))"),
        (4, 1, 4, (0, 1), "DeviceMesh((model=2), 'cpu', stride=(1,))"),
        (2, 5, 4, (1, 0), "DeviceMesh((model=2), 'cpu', stride=(1,))"),
        (4, 5, 4, (1, 1), "DeviceMesh((model=2), 'cpu', stride=(1,))"),
    ]


def test_a_mesh_of_one(alone):
    mesh = DeviceMesh("cpu", [0])
    assert (mesh.shape, mesh.ndim, mesh.size(), mesh.get_rank()) == ((1,), 1, 1, 0)
    assert repr(mesh) == "DeviceMesh((1,), 'cpu', stride=(1,))"
    assert mesh.get_group() is dist.group.WORLD
    assert mesh == DeviceMesh("cpu", torch.tensor([0]))
    assert hash(mesh) == hash(DeviceMesh("cpu", [0]))
    assert DeviceMesh.from_group(dist.group.WORLD, "cpu").get_group() is dist.group.WORLD
    with pytest.raises(RuntimeError, match="without mesh_dim_names"):
        mesh["rows"]
    with pytest.raises(RuntimeError, match="must be unique"):
        init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "a"))
    with pytest.raises(RuntimeError, match="should have same length"):
        init_device_mesh("cpu", (1,), mesh_dim_names=("a", "b"))
    with pytest.raises(RuntimeError, match="Device type with index"):
        init_device_mesh("cuda:0", (1,))
    with pytest.raises(RuntimeError, match="each rank once"):
        DeviceMesh("cpu", [0, 0])
