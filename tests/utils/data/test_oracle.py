"""Loaders and samplers next to a live PyTorch: the same draws, from everything, in every mode."""

import random

import numpy as np
import pytest

import ember
from ember.utils import data as ours

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("torch.utils.data")
pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
]


class Draws:
    """Samples that draw from all three sources, in workers from the workers' own."""

    def __init__(self, framework, data):
        self.framework, self.data = framework, data

    def __len__(self):
        return 7

    def __getitem__(self, index):
        info = self.data.get_worker_info()
        seed = info.seed if info else 0
        drawn = self.framework.rand(()).item(), random.random(), np.random.rand()  # noqa: NPY002
        return index, *drawn, seed


class Eager:
    """A sampler that draws when a pass is made."""

    def __init__(self, framework):
        self.framework, self.passes = framework, 0

    def __iter__(self):
        self.passes += 1
        return iter(self.framework.randperm(7).tolist())

    def __len__(self):
        return 7


def passes(framework, data, options):
    framework.manual_seed(5)
    random.seed(1)
    np.random.seed(2)  # noqa: NPY002
    options = dict(options)
    if options.pop("eager", False):
        options["sampler"] = Eager(framework)
    loader = data.DataLoader(Draws(framework, data), batch_size=2, **options)
    found = []
    for _ in range(3):
        found += [[part.tolist() for part in batch] for batch in loader]
        found.append(framework.rand(()).item())
    return found, getattr(options.get("sampler"), "passes", 0)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": True},
        {"shuffle": True, "num_workers": 2},
        {"num_workers": 2, "persistent_workers": True, "shuffle": True},
        {"eager": True},
        {"eager": True, "num_workers": 1},
        {"eager": True, "num_workers": 1, "persistent_workers": True},
    ],
    ids=str,
)
def test_passes(options):
    assert passes(ember, ours, options) == passes(torch, theirs, options)


@pytest.mark.parametrize("count", range(0, 12, 2))
@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
def test_shares_of_processes(count, replicas):
    for rank in range(replicas):
        for shuffle in (False, True):
            for drop_last in (False, True):
                options = {"shuffle": shuffle, "drop_last": drop_last, "seed": 3}
                found = [
                    list(data.DistributedSampler(range(count), replicas, rank, **options))
                    for data in (ours, theirs)
                ]
                assert found[0] == found[1], (rank, options)


@pytest.mark.parametrize(
    "options", [{}, {"num_samples": 23}, {"replacement": True, "num_samples": 70}]
)
def test_random_samplers(options):
    found = []
    for framework, data in ((ember, ours), (torch, theirs)):
        framework.manual_seed(1)
        sampler = data.RandomSampler(range(10), **options)
        found.append((list(sampler), list(sampler), framework.rand(()).item()))
    assert found[0] == found[1]
