"""Samplers: their orders are PyTorch's for the same seed (the numbers are recorded from 2.13)."""

import pytest

import ember as torch
from ember.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


def test_the_numbers_of_the_default_generator():
    torch.manual_seed(7)
    assert list(RandomSampler(range(8))) == [5, 6, 3, 4, 2, 1, 7, 0]
    assert list(RandomSampler(range(4), num_samples=10)) == [3, 2, 0, 1, 3, 0, 1, 2, 1, 3]
    assert list(RandomSampler(range(5), True, 6)) == [1, 4, 3, 4, 1, 0]
    assert list(SubsetRandomSampler([5, 6, 7, 8])) == [8, 5, 7, 6]
    assert list(WeightedRandomSampler([0.1, 0.5, 0.4], 6)) == [2, 1, 2, 2, 1, 2]
    assert list(WeightedRandomSampler([0.1, 0.5, 0.4], 2, False)) == [1, 2]


def test_the_numbers_of_a_generator():
    generator = torch.Generator().manual_seed(7)
    assert list(RandomSampler(range(8), generator=generator)) == [7, 0, 3, 4, 1, 5, 2, 6]


def test_two_passes_differ():
    sampler = RandomSampler(range(100))
    assert list(sampler) != list(sampler) and sorted(sampler) == list(range(100))


def test_lengths():
    assert len(RandomSampler("abc")) == 3 and len(RandomSampler("abc", num_samples=7)) == 7
    assert len(SequentialSampler("abc")) == 3 and list(SequentialSampler("abc")) == [0, 1, 2]
    assert len(SubsetRandomSampler([3, 4])) == 2
    assert len(WeightedRandomSampler([1, 1], 9)) == 9
    grows = [1]
    sampler = RandomSampler(grows)
    grows.append(2)
    assert len(sampler) == sampler.num_samples == 2


@pytest.mark.parametrize(
    ("drop_last", "lists"), [(False, [[0, 1], [2, 3], [4]]), (True, [[0, 1], [2, 3]])]
)
def test_batches(drop_last, lists):
    sampler = BatchSampler(range(5), 2, drop_last)
    assert list(sampler) == lists and len(sampler) == len(lists)
    assert list(BatchSampler(iter(range(5)), 2, drop_last)) == lists


def test_arguments_that_are_refused():
    with pytest.raises(TypeError, match="replacement should be a boolean value"):
        RandomSampler("abc", replacement=1)
    for count in (0, 2.0, -1):
        with pytest.raises(ValueError, match="num_samples should be a positive integer value"):
            RandomSampler("abc", num_samples=count)
    with pytest.raises(ValueError, match="num_samples should be a positive integer value"):
        RandomSampler([])
    for count in (0, True):
        with pytest.raises(ValueError, match="num_samples should be a positive integer value"):
            WeightedRandomSampler([1, 2], count)
    with pytest.raises(ValueError, match="replacement should be a boolean value"):
        WeightedRandomSampler([1, 2], 2, "x")
    with pytest.raises(ValueError, match=r"1d sequence but given weights have shape \(1, 2\)"):
        WeightedRandomSampler([[1, 2]], 2)
    for size in (0, True, 1.5):
        with pytest.raises(ValueError, match="batch_size should be a positive integer value"):
            BatchSampler("abc", size, False)
    with pytest.raises(ValueError, match="drop_last should be a boolean value"):
        BatchSampler("abc", 1, 0)
    with pytest.raises(NotImplementedError):
        iter(Sampler())
    with pytest.raises(TypeError):
        len(Sampler())


@pytest.mark.parametrize("count", [1, 4, 5, 6, 7])
@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_shares_of_processes(count, replicas, shuffle, drop_last):
    shares = [
        list(DistributedSampler(range(count), replicas, rank, shuffle, drop_last=drop_last))
        for rank in range(replicas)
    ]
    lengths = {len(share) for share in shares}
    assert len(lengths) == 1
    everything = [index for share in shares for index in share]
    if drop_last:
        assert len(everything) == len(set(everything)) > count - replicas
    else:
        assert set(everything) == set(range(count)) and len(everything) < count + replicas


def test_shares_have_the_numbers_of_pytorch():
    sampler = DistributedSampler(range(7), 3, 1, seed=2)
    assert list(sampler) == SHARES[0] and len(sampler) == 3
    sampler.set_epoch(1)
    assert list(sampler) == SHARES[1]


SHARES = [[4, 6, 2], [3, 0, 5]]


def test_shares_need_a_group_or_numbers():
    with pytest.raises(
        ValueError, match=r"Invalid rank 5, rank should be in the interval \[0, 1\]"
    ):
        DistributedSampler(range(7), 2, 5)
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DistributedSampler(range(7))
