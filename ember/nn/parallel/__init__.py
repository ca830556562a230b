"""One module on several GPUs: of one process, or of several."""

from typing import Any

from ember.missing import missing_attribute
from ember.nn.parallel import distributed
from ember.nn.parallel.data_parallel import DataParallel, data_parallel
from ember.nn.parallel.parallel_apply import parallel_apply
from ember.nn.parallel.replicate import replicate
from ember.nn.parallel.scatter_gather import gather, scatter, scatter_kwargs

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "distributed",
    "parallel_apply",
    "replicate",
    "scatter",
    "scatter_kwargs",
]


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        return distributed.DistributedDataParallel
    raise missing_attribute("torch.nn.parallel", name, lambda: __all__)
