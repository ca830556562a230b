"""Hooks that average a bucket as it is, or in half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.distributed.process_group import ProcessGroup
from ember.distributed.reducer import GradBucket
from ember.distributed.world import _get_default_group
from ember.dtypes import bfloat16, float16
from ember.dtypes import dtype as DType
from ember.futures import Future

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]
Hook = Callable[[Any, GradBucket], Future]


def _averaged(group: ProcessGroup | None, tensor: Any) -> Future:
    found = group or _get_default_group()
    tensor.div_(found.size())
    work = found.allreduce([tensor], in_background=True)
    return work.get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future:
    """The average of the gradients: what happens without a hook."""
    return _averaged(process_group, bucket.buffer())


def _compressed(process_group: Any, bucket: GradBucket, dtype: DType) -> Future:
    full = bucket.buffer()
    future = _averaged(process_group, full.to(dtype))  # type: ignore[attr-defined]
    return future.then(lambda done: full.copy_(done.value()))  # type: ignore[attr-defined]


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """The average in float16: half the bytes."""
    return _compressed(process_group, bucket, float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """The average in bfloat16: half the bytes."""
    return _compressed(process_group, bucket, bfloat16)


def _wrapper(hook: Hook, dtype: DType) -> Hook:
    def compressed(state: Any, bucket: GradBucket) -> Future:
        full = bucket.buffer()
        bucket.set_buffer(full.to(dtype))  # type: ignore[attr-defined]
        return hook(state, bucket).then(
            lambda done: full.copy_(done.value())  # type: ignore[attr-defined]
        )

    return compressed


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gets its buckets in float16."""
    return _wrapper(hook, float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gets its buckets in bfloat16."""
    return _wrapper(hook, bfloat16)
