"""One module on several GPUs of one process."""

from ember.nn.parallel.data_parallel import DataParallel, data_parallel
from ember.nn.parallel.parallel_apply import parallel_apply
from ember.nn.parallel.replicate import replicate
from ember.nn.parallel.scatter_gather import gather, scatter, scatter_kwargs

__all__ = [
    "DataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
    "scatter_kwargs",
]
