"""Datasets and their combinations."""

import pytest

import ember as torch
from ember.utils.data import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)


class Squares(Dataset):
    def __init__(self, count=5):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if not 0 <= index < self.count:
            raise IndexError(index)
        return index**2


class Batched(Squares):
    """Loads many at once."""

    def __getitems__(self, indices):
        return [index**2 for index in indices]


class Liar(Squares):
    def __getitems__(self, indices):
        return [0]


class Count(IterableDataset):
    def __init__(self, count=3):
        self.count = count

    def __iter__(self):
        return iter(range(self.count))

    def __len__(self):
        return self.count


def test_the_bases_ask_for_methods():
    with pytest.raises(NotImplementedError, match="should implement __getitem__"):
        Dataset()[0]
    with pytest.raises(TypeError):
        len(Dataset())
    with pytest.raises(TypeError, match="abstract"):
        IterableDataset()
    assert issubclass(Dataset[int], Dataset) if isinstance(Dataset[int], type) else Dataset[int]


def test_tensors():
    dataset = TensorDataset(torch.arange(3), torch.arange(6).view(3, 2))
    assert len(dataset) == 3
    number, pair = dataset[2]
    assert number.item() == 2 and pair.tolist() == [4, 5]
    numbers, _ = dataset[[0, 1]]
    assert numbers.tolist() == [0, 1]
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        TensorDataset(torch.ones(2), torch.ones(3))


def test_stacks():
    by_place, by_name = StackDataset(Squares(), Batched()), StackDataset(a=Squares(), b=Batched())
    assert len(by_place) == len(by_name) == 5
    assert by_place[2] == (4, 4) and by_name[3] == {"a": 9, "b": 9}
    assert by_place.__getitems__([1, 2]) == [(1, 1), (4, 4)]
    assert by_name.__getitems__([1, 2]) == [{"a": 1, "b": 1}, {"a": 4, "b": 4}]
    for arguments, names, message in (
        ((), {}, "At least one dataset should be passed"),
        ((Squares(),), {"b": Squares()}, "both types are given"),
        ((Squares(), Squares(4)), {}, "Size mismatch between datasets"),
        ((), {"a": Squares(), "b": Squares(4)}, "Size mismatch between datasets"),
    ):
        with pytest.raises(ValueError, match=message):
            StackDataset(*arguments, **names)
    for stack in (StackDataset(Liar()), StackDataset(a=Liar())):
        with pytest.raises(ValueError, match="output size mismatch. Expected 2, got 1"):
            stack.__getitems__([1, 2])


def test_one_after_another():
    both = Squares(3) + Squares(2)
    assert type(both) is ConcatDataset and len(both) == 5
    assert [both[i] for i in range(5)] == [0, 1, 4, 0, 1] and both[-1] == 1 and both[-5] == 0
    assert both.cumulative_sizes == [3, 5]
    with pytest.raises(ValueError, match="absolute value of index should not exceed"):
        both[-6]
    with pytest.raises(IndexError):
        both[5]
    with pytest.raises(AssertionError, match="not be an empty iterable"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match="does not support IterableDataset"):
        ConcatDataset([Count()])
    with pytest.warns(FutureWarning, match="renamed to `cumulative_sizes`"):
        assert both.cummulative_sizes == [3, 5]


def test_chains():
    chain = Count(2) + Count(3)
    assert type(chain) is ChainDataset
    assert list(chain) == [0, 1, 0, 1, 2] and len(chain) == 5
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        list(ChainDataset([Squares()]))
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        len(ChainDataset([Squares()]))


def test_subsets():
    subset = Subset(Squares(), [4, 2])
    assert len(subset) == 2 and subset[0] == 16 and subset.__getitems__([1, 0]) == [4, 16]
    assert Subset(Batched(), [4, 2]).__getitems__([1, 0]) == [4, 16]
    assert Subset(torch.arange(5), [4, 2])[[0, 1]].tolist() == [4, 2]


def test_random_split_draws_the_numbers_of_pytorch():
    generator = torch.Generator().manual_seed(3)
    parts = random_split(range(7), [3, 4], generator)
    assert [list(part.indices) for part in parts] == SPLIT
    torch.manual_seed(3)
    parts = random_split(range(7), [3, 4])
    assert [list(part.indices) for part in parts] == SPLIT


# Recorded from PyTorch 2.13 with seed 3.
SPLIT = [[5, 3, 4], [6, 0, 2, 1]]


@pytest.mark.parametrize(
    ("fractions", "lengths"),
    [
        ([0.3, 0.3, 0.3, 0.1], [3, 2, 2, 0]),
        ([1 / 3] * 3, [3, 2, 2]),
        ([0.1] * 10, [1, 1, 1, 1, 1, 1, 1, 0, 0, 0]),
        ([1], [7]),
        ([0.5, 0.5], [4, 3]),
    ],
)
@pytest.mark.filterwarnings("ignore:Length of split at index")
def test_fractions_of_seven(fractions, lengths):
    parts = random_split(range(7), fractions)
    assert [len(part) for part in parts] == lengths
    assert sorted(i for part in parts for i in part.indices) == list(range(7))


def test_splits_that_are_refused():
    for lengths in ([2, 2], [0.5, 0.2], [0.5, 0.6]):
        with pytest.raises(ValueError, match="Sum of input lengths does not equal"):
            random_split(range(5), lengths)
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        random_split(range(5), [1.5, -0.5])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(range(5), [1.0, 0.0])
