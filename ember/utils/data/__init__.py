"""Datasets, samplers and the loader that makes batches of them: `torch.utils.data`."""

from importlib import import_module
from typing import Any

from ember.missing import missing_attribute
from ember.utils.data._utils.worker import WorkerInfo
from ember.utils.data.dataloader import (
    DataLoader,
    _DatasetKind,
    default_collate,
    default_convert,
    get_worker_info,
)
from ember.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from ember.utils.data.distributed import DistributedSampler
from ember.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "_DatasetKind",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

_PIPES = {  # few programs use them: they load at their first use
    **dict.fromkeys(
        ("DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe"),
        "datapipe",
    ),
    **dict.fromkeys(
        (
            "argument_validation",
            "guaranteed_datapipes_determinism",
            "non_deterministic",
            "runtime_validation",
            "runtime_validation_disabled",
        ),
        "decorators",
    ),
}


def __getattr__(name: str) -> Any:
    if name == "datapipes":
        return import_module("ember.utils.data.datapipes")
    if name in _PIPES:
        pipes = import_module("ember.utils.data.datapipes")  # which gives pipes their functions
        return getattr(import_module(f"{pipes.__name__}.{_PIPES[name]}"), name)
    raise missing_attribute("torch.utils.data", name, lambda: [*__all__, *_PIPES])
