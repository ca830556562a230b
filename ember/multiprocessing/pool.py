"""Pools of processes and of threads: Python's own, which send tensors without copying them."""

from multiprocessing.pool import Pool, ThreadPool

__all__ = ["Pool", "ThreadPool"]
