"""Splits of a step over GPUs that are not there: what is counted, what holds between them."""

import itertools

import numpy as np
import pytest

import ember as torch
from ember import nn
from ember.devices import what_if
from ember.devices.planning import paper
from ember.devices.planning.machines import parse


@pytest.fixture(scope="module")
def net():
    return nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(8)))


@pytest.fixture(scope="module")
def parts(net):
    machine = parse("4xA100")
    return paper._parts(net, torch.ones(32, 512), machine, torch.optim.SGD, None, "float32")[0]


def test_operations_of_a_row(parts):
    # Forward, and the weight's and the input's gradients; the first layer's input has none.
    assert parts.operations() == 2 * 512 * 512 * (8 + 8 + 7)


def test_bytes_of_parts_grow_with_rows(parts):
    assert parts.weights.tolist() == [512 * 512 * 4] * 8
    assert parts.crossing[0].tolist() == [512 * 4] * 7 + [0]
    assert parts.crossing[1].tolist() == [512 * 4] * 7 + [0]
    assert parts.state.tolist() == [0] * 8


def test_times_are_those_of_operations_or_bytes(parts):
    # One part, forward: 2·512·512·rows operations against its weight, its input and its output.
    fast = paper.Rates(1e30, 1e30, 1e9, 0.0)
    slow = paper.Rates(1e6, 1e6, 1e30, 0.0)
    rows = 16
    assert parts.times(rows, 1, slow)[3, 0] == pytest.approx(2 * 512 * 512 * rows / 1e6)
    moved = 4 * (512 * 512 + 2 * 512 * rows)
    assert parts.times(rows, 1, fast)[3, 0] == pytest.approx(moved / 1e9)
    assert parts.times(rows, 4, fast)[3, 0] == pytest.approx(moved / 4e9)


def test_splits_use_every_gpu_and_every_row(net):
    found = what_if(net, torch.ones(32, 512), "64xA100", batch=512, node=8)
    assert found.searched >= len(found.splits) > 50
    for split in found.splits:
        assert split.data * split.tensor * split.pipeline == split.gpus == 64
        assert split.data * split.micro_batches * split.rows == 512
        assert split.tensor <= 8 and split.pipeline <= 8
        assert split.bytes <= 80 << 30 and 0 < split.useful < 0.5
    times = [split.seconds for split in found.splits]
    assert times == sorted(times)


def test_what_saves_memory_saves_it(net):
    found = what_if(net, torch.ones(32, 512), "8xA100", batch=512)
    by = {split[:7]: split for split in found.splits}
    compared = 0
    for key, split in by.items():
        if not split.recompute and (*key[:5], True, key[6]) in by:
            assert by[(*key[:5], True, key[6])].seconds > split.seconds
        if not split.sharded and (*key[:6], True) in by:
            compared += 1
            assert by[(*key[:6], True)].bytes < split.bytes
    assert compared > 5


def test_thousands_of_gpus(net):
    found = what_if(net, torch.ones(1, 512), "4096xH100")
    assert found.batch == 4096 and found.best.gpus == 4096
    text = str(found)
    assert "infiniband between machines: 50 GB/s" in text
    assert "kernels reach 50% of the published operations" in text
    assert str(found.best) in text


def test_more_gpus_are_faster():
    large = nn.Sequential(*(nn.Linear(4096, 4096, device="meta") for _ in range(8)))
    sample = torch.ones(64, 4096, device="meta")
    times = [what_if(large, sample, f"{n}xH100", batch=65536).best.seconds for n in (1, 2, 4, 8)]
    assert times == sorted(times, reverse=True)
    assert 4 < times[0] / times[3] <= 8


def test_what_does_not_fit_says_how_much_it_needs(net):
    found = what_if(net, torch.ones(32, 512), "2x1MiB", batch=64)
    assert not found.splits and "nothing fits; nearest: " in str(found)
    with pytest.raises(RuntimeError, match=r"nothing fits on 2x1MiB: .* needs .* of 1.0 MiB"):
        _ = found.best


@pytest.mark.parametrize("pieces", [1, 2, 3, 5])
def test_runs_are_cut_as_evenly_as_can_be(pieces):
    spent = np.array([3.0, 1, 4, 1, 5, 9, 2, 6])
    edges = paper._cut(spent, pieces)
    assert len(edges) == pieces and edges[0][0] == 0 and edges[-1][1] == len(spent)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(edges))
    ways = itertools.combinations(range(1, len(spent)), pieces - 1)
    least = min(
        max(spent[a:b].sum() for a, b in itertools.pairwise((0, *way, len(spent)))) for way in ways
    )
    assert max(spent[a:b].sum() for a, b in edges) == pytest.approx(least)


def test_what_is_refused(net):
    x = torch.ones(8, 512)
    with pytest.raises(ValueError, match="GPUs that differ"):
        what_if(net, x, "24GiB+8GiB")
    with pytest.raises(ValueError, match="no precision 'int3'"):
        what_if(net, x, "2x24GiB", precision="int3")
    with pytest.raises(ValueError, match="no network 'pigeons'"):
        what_if(net, x, "2x24GiB", network="pigeons")
