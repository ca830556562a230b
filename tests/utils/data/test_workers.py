"""DataLoader with worker processes: order, seeds, errors, deaths, and nothing left behind."""

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import numpy as np
import pytest

import ember as torch
from ember.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

# Python 3.12 and later say so of every fork once NumPy has threads.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")


class Numbers(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return index


class Apply(Numbers):
    """Sample i is what a function gives for i."""

    def __init__(self, function):
        self.function = function

    def __getitem__(self, index):
        return self.function(index)


class Share(IterableDataset):
    """Each worker has its own numbers: three of the first, five of the second."""

    def __iter__(self):
        number = get_worker_info().id
        return iter(range(100 * number, 100 * number + 3 + 2 * number))


def lists(loader):
    return [batch.tolist() for batch in loader]


def children():
    """The processes that this one has started and that still run."""
    return multiprocessing.active_children()


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    resource_tracker.ensure_running()  # these two stay once they are started
    forkserver.ensure_running()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    yield
    gc.collect()
    assert not children()
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_the_order_stays(workers):
    loader = DataLoader(Numbers(), batch_size=3, num_workers=workers)
    for _ in range(2):
        assert lists(loader) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def test_a_slow_worker_does_not_change_the_order():
    def delayed(index):
        if index % 2 == 0:
            time.sleep(0.02)
        return index

    loader = DataLoader(Apply(delayed), num_workers=2, batch_size=None)
    assert list(loader) == list(range(10))
    found = list(DataLoader(Apply(delayed), num_workers=2, batch_size=None, in_order=False))
    assert sorted(found) == list(range(10))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_start_methods(method):
    loader = DataLoader(Numbers(), batch_size=5, num_workers=1, multiprocessing_context=method)
    assert lists(loader) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_batches_of_all_kinds():
    def sample(index):
        matrix = torch.full((40, 50), float(index))
        return {
            "big": matrix,
            "array": np.full(30000, index, np.int16),
            "text": "x" * index,
            "half": torch.ones(2, dtype=torch.bfloat16),
            "none": torch.zeros(0, 3),
        }

    for batch, first in zip(DataLoader(Apply(sample), batch_size=5, num_workers=2), (0, 5)):
        wanted = list(range(first, first + 5))
        assert batch["big"].shape == (5, 40, 50) and batch["big"][:, 3, 4].tolist() == wanted
        assert batch["array"].shape == (5, 30000) and batch["array"][:, 9].tolist() == wanted
        assert batch["text"] == ["x" * n for n in wanted]
        assert batch["half"].dtype is torch.bfloat16 and batch["none"].shape == (5, 0, 3)
        batch["big"] += 1
        assert batch["big"][:, 3, 4].tolist() == [n + 1 for n in wanted]


def test_a_batch_outlives_its_worker():
    loader = DataLoader(Apply(lambda i: torch.full((30000,), i)), batch_size=None, num_workers=1)
    batches = list(loader)
    assert not children()
    assert [int(batch[77]) for batch in batches] == list(range(10))
    del batches


def test_very_many_batches_at_once():
    class Many(Apply):
        def __len__(self):
            return 300

    loader = DataLoader(Many(lambda i: torch.full((10000,), i)), batch_size=None, num_workers=2)
    batches = list(loader)
    assert [int(batch[5]) for batch in batches] == list(range(300))
    assert len(os.listdir("/proc/self/fd")) < 250
    del batches


def test_views_of_one_storage_share_it_again():
    def sample(index):
        base = torch.arange(20000)
        return base, base[index:]

    base, view = next(iter(DataLoader(Apply(sample), batch_size=None, num_workers=1)))
    base[3] = -1
    assert view[3] == -1


def test_a_small_part_of_a_big_tensor_travels_alone():
    base = torch.arange(1_000_000)
    loader = DataLoader(Apply(lambda i: base[i : i + 2]), batch_size=None, num_workers=1)
    found = list(loader)
    assert [part.tolist() for part in found] == [[i, i + 1] for i in range(10)]
    assert found[0].untyped_storage().nbytes() == 16


def test_gradients_do_not_cross():
    weight = torch.ones(2, requires_grad=True)
    loader = DataLoader(Apply(lambda i: weight), batch_size=None, num_workers=1)
    assert next(iter(loader)).requires_grad
    loader = DataLoader(Apply(lambda i: weight * 2), batch_size=None, num_workers=1)
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        next(iter(loader))


def test_many_indices_and_much_prefetching():
    class Long(Numbers):
        def __len__(self):
            return 60000

        def __getitem__(self, index):
            return index

    loader = DataLoader(
        Long(), batch_size=20000, num_workers=2, prefetch_factor=40, collate_fn=lambda batch: batch
    )
    assert [batch[-1] for batch in loader] == [19999, 39999, 59999]
    text = DataLoader(
        Apply(lambda i: "x" * 25000), batch_size=None, num_workers=1, prefetch_factor=100
    )
    assert [len(found) for found in text] == [25000] * 10


# seeds


def drawn(index):
    info = get_worker_info()
    return torch.rand(()).item(), random.random(), np.random.rand(), info.seed  # noqa: NPY002


def test_the_numbers_of_workers_are_those_of_pytorch():
    class Four(Apply):
        def __len__(self):
            return 4

    torch.manual_seed(5)
    found = list(DataLoader(Four(drawn), num_workers=2, batch_size=None))
    seed = 4095051218741643470
    assert found == [
        [0.7106006741523743, 0.9732059885921714, 0.48524966518109036, seed],
        [0.2905186414718628, 0.7347412016282042, 0.08072729909407361, seed + 1],
        [0.34830594062805176, 0.09916814881074121, 0.24756875093656816, seed],
        [0.5857152342796326, 0.421098279900221, 0.9242645271423134, seed + 1],
    ]
    assert torch.rand(1).item() == 0.9074696898460388


def test_a_generator_seeds_the_workers():
    def seeds(number):
        generator = torch.Generator().manual_seed(number)
        loader = DataLoader(
            Apply(drawn), num_workers=2, batch_size=None, generator=generator, shuffle=True
        )
        return [sample[3] for sample in loader]

    assert seeds(1) == seeds(1) != seeds(2)


def test_what_a_worker_knows():
    assert get_worker_info() is None

    def known(index):
        info = get_worker_info()
        with pytest.raises(AttributeError, match="cannot assign to field 'id'"):
            info.id = 3
        return info.id, info.num_workers, type(info.dataset).__name__, str(info)[:17]

    found = list(DataLoader(Apply(known), num_workers=2, batch_size=None))[:2]
    assert found == [[n, 2, "Apply", f"WorkerInfo(id={n}, "] for n in (0, 1)]


def test_worker_init_fn():
    def start(worker_id):
        os.environ["WORKER"] = f"worker {worker_id}"

    loader = DataLoader(
        Apply(lambda i: os.environ["WORKER"]), num_workers=2, batch_size=None, worker_init_fn=start
    )
    assert list(loader)[:3] == ["worker 0", "worker 1", "worker 0"]

    def fail(worker_id):
        raise RuntimeError("no start")

    loader = DataLoader(Numbers(), num_workers=1, worker_init_fn=fail)
    with pytest.raises(RuntimeError, match="Caught RuntimeError in DataLoader worker process 0"):
        list(loader)


# iterable datasets


def test_iterable_datasets_in_workers():
    found = lists(DataLoader(Share(), num_workers=2, batch_size=2))
    assert found == [[0, 1], [100, 101], [2], [102, 103], [104]]
    found = lists(DataLoader(Share(), num_workers=2, batch_size=2, drop_last=True))
    assert found == [[0, 1], [100, 101], [102, 103]]
    assert list(DataLoader(Share(), num_workers=2, batch_size=None)) == [
        0, 100, 1, 101, 2, 102, 103, 104,
    ]  # fmt: skip


def test_a_length_that_workers_exceed():
    class Measured(Share):
        def __len__(self):
            return 2

    loader = DataLoader(Measured(), num_workers=2, batch_size=4)
    assert len(loader) == 1
    with pytest.warns(UserWarning, match="configuring the IterableDataset replica at each worker"):
        lists(loader)


# persistent workers


def test_persistent_workers_serve_every_pass():
    loader = DataLoader(
        Apply(lambda i: os.getpid()), num_workers=2, batch_size=5, persistent_workers=True
    )
    first, second = set(lists(loader)[0]), set(lists(loader)[0])
    assert first == second and len(children()) == 2
    for _ in loader:
        break
    assert set(lists(loader)[0]) == first
    loader = DataLoader(Share(), num_workers=2, batch_size=2, persistent_workers=True)
    passes = [lists(loader) for _ in range(3)]
    assert passes[0] == passes[1] == passes[2] == [[0, 1], [100, 101], [2], [102, 103], [104]]
    del loader


# errors


class Custom(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


def raising(error):
    def function(index):
        if index == 1:
            raise error
        return index

    return Apply(function)


@pytest.mark.parametrize("kind", [ValueError, KeyError, ZeroDivisionError, NotImplementedError])
def test_errors_keep_their_type_and_traceback(kind):
    loader = DataLoader(raising(kind("bad sample")), num_workers=1, batch_size=None)
    with pytest.raises(kind) as caught:
        list(loader)
    message = str(caught.value)
    assert message.startswith(f"Caught {kind.__name__} in DataLoader worker process 0.\nOriginal ")
    assert "raise error" in message and "bad sample" in message and __file__ in message
    del caught


def test_a_pass_goes_on_after_an_error():
    batches = iter(DataLoader(raising(ValueError("bad")), num_workers=2, batch_size=None))
    assert next(batches) == 0
    with pytest.raises(ValueError, match="worker process 1"):
        next(batches)
    assert list(batches) == list(range(2, 10))


def test_errors_of_types_that_cannot_be_made_again():
    with pytest.raises(RuntimeError, match="Caught Custom in DataLoader worker process 0"):
        list(DataLoader(raising(Custom(1, 2)), num_workers=1))

    class Local(LookupError):
        pass

    with pytest.raises(LookupError, match="Caught Local in DataLoader worker process 0"):
        list(DataLoader(raising(Local("here")), num_workers=1))


def test_a_batch_that_cannot_be_pickled():
    loader = DataLoader(Apply(lambda i: lambda: i), num_workers=1, batch_size=None)
    with pytest.raises((AttributeError, TypeError), match="in DataLoader worker process 0"):
        list(loader)


# deaths


def dying(how):
    def function(index):
        if index == 2:
            how()
        return index

    return DataLoader(Apply(function), num_workers=1, batch_size=None)


def test_a_worker_that_is_killed():
    found = []
    with pytest.raises(
        RuntimeError, match=r"DataLoader worker \(pid.*\d+.*exited unexpectedly.*Kill"
    ):
        for sample in dying(lambda: os.kill(os.getpid(), signal.SIGKILL)):
            found.append(sample)
    assert found == [0, 1]


def test_a_worker_that_exits():
    with pytest.raises(RuntimeError, match="exited unexpectedly with exit code 3.*num_workers=0"):
        list(dying(lambda: os._exit(3)))


def test_a_worker_that_takes_too_long():
    loader = DataLoader(
        Apply(lambda i: time.sleep(60)), num_workers=1, batch_size=None, timeout=0.2
    )
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.2 seconds"):
        list(loader)


def test_leaving_a_pass_early_stops_the_workers():
    batches = iter(DataLoader(Apply(lambda i: torch.zeros(30000)), num_workers=2, batch_size=None))
    next(batches)
    assert len(children()) == 2
    del batches
    gc.collect()
    assert not children()


ORPHANS = """
import os, sys, time
sys.path.insert(0, {root!r})
import ember as torch
from ember.utils.data import DataLoader

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        return os.getpid()

loaders = [iter(DataLoader(Numbers(), num_workers=2, batch_size=None)) for _ in range(2)]
print(*{{next(batches) for batches in loaders for _ in range(2)}}, flush=True)
time.sleep(60)
"""


def alive(pid):
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return status != "Z"


def test_workers_end_when_their_program_is_killed():
    root = str(Path(torch.__file__).parent.parent)
    command = [sys.executable, "-c", ORPHANS.format(root=root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        workers = [int(pid) for pid in program.stdout.readline().split()]
        assert len(workers) == 4 and all(alive(pid) for pid in workers)
        program.kill()
        program.wait()
    for _ in range(600):
        if not any(alive(pid) for pid in workers):
            break
        time.sleep(0.05)
    assert not any(alive(pid) for pid in workers)


def test_a_program_ends_with_a_pass_under_way():
    root = str(Path(torch.__file__).parent.parent)
    program = ORPHANS.format(root=root).replace("time.sleep(60)", "")
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and done.stderr == ""
