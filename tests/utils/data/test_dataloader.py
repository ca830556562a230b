"""DataLoader in one process: options, batches, lengths, errors."""

import pickle
import subprocess
import sys

import pytest

import ember as torch
from ember.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset


class Numbers(Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return index


class AtOnce(Numbers):
    def __getitems__(self, indices):
        return [index * 10 for index in indices]


class Count(IterableDataset):
    def __iter__(self):
        return iter(range(5))


class Measured(Count):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length


def lists(loader):
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("dataset", [Numbers(), Count(), range(5), [0, 1, 2, 3, 4]])
def test_batches(dataset):
    assert lists(DataLoader(dataset)) == [[0], [1], [2], [3], [4]]
    assert lists(DataLoader(dataset, batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert lists(DataLoader(dataset, batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(DataLoader(dataset, batch_size=None)) == [0, 1, 2, 3, 4]


def test_pairs_of_tensors():
    dataset = TensorDataset(torch.arange(4.0).view(4, 1), torch.arange(4))
    (x, y), _ = DataLoader(dataset, batch_size=3)
    assert x.shape == (3, 1) and y.tolist() == [0, 1, 2]


def test_samplers_and_collation():
    assert lists(DataLoader(Numbers(), sampler=[3, 1])) == [[3], [1]]
    assert lists(DataLoader(Numbers(), batch_sampler=[[3, 1], [2]])) == [[3, 1], [2]]
    assert list(DataLoader(Numbers(), batch_size=2, collate_fn=sum)) == [1, 5, 4]
    assert list(DataLoader(Numbers(), batch_size=None, collate_fn=str)) == ["0", "1", "2", "3", "4"]
    assert lists(DataLoader(AtOnce(), batch_size=2)) == [[0, 10], [20, 30], [40]]
    found = list(DataLoader(Numbers(), sampler=iter([4, 0]), batch_size=None))
    assert found == [4, 0]


def test_shuffling_has_the_numbers_of_pytorch():
    torch.manual_seed(7)
    loader = DataLoader(range(5), batch_size=2, shuffle=True)
    assert lists(loader) == [[3, 2], [0, 4], [1]]
    assert torch.rand(1).item() == 0.23276156187057495
    generator = torch.Generator().manual_seed(7)
    loader = DataLoader(range(5), batch_size=2, shuffle=True, generator=generator)
    assert lists(loader) == [[1, 3], [0, 4], [2]]
    assert torch.rand(1, generator=generator).item() == 0.8549431562423706


def test_lengths():
    assert len(DataLoader(Numbers(), batch_size=2)) == 3
    assert len(DataLoader(Numbers(), batch_size=2, drop_last=True)) == 2
    assert len(DataLoader(Numbers(), batch_size=None)) == 5
    assert len(DataLoader(Numbers(), batch_sampler=[[0], [1]])) == 2
    assert len(DataLoader(Measured(5), batch_size=2)) == 3
    assert len(DataLoader(Measured(5), batch_size=2, drop_last=True)) == 2
    assert len(DataLoader(Measured(5), batch_size=None)) == 5
    with pytest.raises(TypeError, match="no len"):
        len(DataLoader(Count()))
    assert len(iter(DataLoader(Numbers(), batch_size=2))) == 3


def test_a_length_that_was_wrong():
    loader = DataLoader(Measured(3))
    lists(loader)
    assert len(loader) == 3
    with pytest.warns(UserWarning, match="samples have been fetched") as caught:
        lists(loader)
    assert [str(warning.message)[-33:] for warning in caught] == [
        "but 4 samples have been fetched. ",
        "but 5 samples have been fetched. ",
    ]


REFUSED = [
    ({"num_workers": -1}, "num_workers option should be non-negative"),
    ({"timeout": -1}, "timeout option should be non-negative"),
    ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in multiprocessing"),
    ({"num_workers": 1, "prefetch_factor": -1}, "prefetch_factor option should be non-negative"),
    ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
    ({"shuffle": True, "sampler": [1]}, "sampler option is mutually exclusive with shuffle"),
    ({"batch_sampler": [[1]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
    ({"batch_sampler": [[1]], "shuffle": True}, "batch_sampler option is mutually exclusive"),
    ({"batch_sampler": [[1]], "drop_last": True}, "batch_sampler option is mutually exclusive"),
    ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
    ({"batch_size": 0}, "batch_size should be a positive integer value, but got batch_size=0"),
    ({"batch_size": True}, "batch_size should be a positive integer value"),
    ({"multiprocessing_context": "fork"}, "can only be used with multi-process loading"),
    (
        {"num_workers": 1, "multiprocessing_context": "foo"},
        "should specify a valid start method in .* but got multiprocessing_context='foo'",
    ),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_options_that_exclude_each_other(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(Numbers(), **options)


@pytest.mark.parametrize("name", ["shuffle", "sampler", "batch_sampler"])
def test_options_that_iterable_datasets_do_not_take(name):
    message = (
        f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}="
    )
    with pytest.raises(ValueError, match=message):
        DataLoader(Count(), **{name: True if name == "shuffle" else [[1]]})
    assert lists(DataLoader(Count(), shuffle=False, batch_size=5)) == [[0, 1, 2, 3, 4]]


def test_a_context_of_another_type():
    with pytest.raises(TypeError, match="should be a valid context object or a string"):
        DataLoader(Numbers(), num_workers=1, multiprocessing_context=3)


def test_what_is_fixed_after_it_was_made():
    loader = DataLoader(Numbers(), batch_size=2)
    fixed = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
    for name in fixed:
        with pytest.raises(
            ValueError, match=f"{name} attribute should not be set after DataLoader"
        ):
            setattr(loader, name, 1)
    loader.collate_fn = sum
    assert list(loader) == [1, 5, 4]


def test_more_workers_than_processors():
    with pytest.warns(UserWarning, match="This DataLoader will create 5000 worker processes"):
        DataLoader(Numbers(), num_workers=5000)


def test_pinning_without_a_gpu(monkeypatch):
    # Another test of this process may have asked for simulated GPUs.
    monkeypatch.setattr("ember.utils.data._utils.iterators.base.has_backend", lambda kind: False)
    loader = DataLoader(Numbers(), batch_size=5, pin_memory=True)
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator"):
        (batch,) = loader
    assert not batch.is_pinned()


PINNED = """
import ember as torch
from ember.utils.data import DataLoader
torch.cuda.init()
batch, = DataLoader(range(3), batch_size=3, pin_memory=True)
assert batch.is_pinned() and batch.tolist() == [0, 1, 2]
batch, = DataLoader(range(3), batch_size=3, pin_memory=True, num_workers=1)
assert batch.is_pinned() and batch.tolist() == [0, 1, 2]
"""


def test_pinning_with_a_gpu():
    import os

    environment = os.environ | {"EMBER_SIMULATE_GPUS": "1"}
    command = [sys.executable, "-W", "error::UserWarning", "-c", PINNED]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_a_loader_can_be_pickled_and_an_iterator_cannot():
    loader = pickle.loads(pickle.dumps(DataLoader(Numbers(), batch_size=5)))
    assert lists(loader) == [[0, 1, 2, 3, 4]]
    with pytest.raises(NotImplementedError, match="cannot be pickled"):
        pickle.dumps(iter(loader))


def test_importing_ember_and_loading_here_needs_no_processes():
    program = (
        "import sys, ember; from ember.utils.data import DataLoader; list(DataLoader(range(3)));"
        "assert not {'multiprocessing', 'socket'} & set(sys.modules), sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
