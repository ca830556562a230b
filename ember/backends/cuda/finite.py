"""Whether many arrays of a GPU are free of inf and NaN: one kernel over all of them, and one number
that comes back."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ember.backends.cuda.prelude import PRELUDE
from ember.kernel.array import Array
from ember.layout import extent

THREADS = 256
MOST = 65535  # arrays of one launch
# How a dtype is read: inf and NaN have all bits of the exponent.
KINDS = {"float32": 0, "float16": 1, "bfloat16": 2, "float64": 3}
TEXT = f"""{PRELUDE}
extern "C" __global__ __launch_bounds__({THREADS}) void kernel(const u64* table, int* flag) {{
  const u64* row = table + 3 * blockIdx.y;
  const u32* words = (const u32*)row[0];
  const u64 count = row[1];
  const u32 kind = (u32)row[2];
  const u64 step = (u64)gridDim.x * blockDim.x, first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  int bad = 0;
  if (kind == 0) {{
    for (u64 e = first; e < count; e += step) bad |= (words[e] & 0x7f800000u) == 0x7f800000u;
  }} else if (kind == 3) {{
    for (u64 e = first; e < count; e += step) {{
      bad |= (words[2 * e + 1] & 0x7ff00000u) == 0x7ff00000u;
    }}
  }} else {{
    const u32 mask = kind == 1 ? 0x7c00u : 0x7f80u;
    for (u64 e = first; e < count; e += step) {{
      const u32 word = words[e / 2] >> (16 * (u32)(e % 2));
      bad |= (word & mask) == mask;
    }}
  }}
  if (bad) *flag = 1;
}}
"""


class _Held:
    """What the checks of one GPU keep: the flag, and the tables of the last arrays."""

    def __init__(self, kernels: Any):
        self.function = kernels.driver.compile(kernels.index, TEXT).prepare(["p", "p"])
        self.word = kernels.driver.word(kernels.index)
        self.rows: tuple[tuple[int, int, int], ...] = ()
        self.table: Any = None


_held: weakref.WeakKeyDictionary[Any, _Held] = weakref.WeakKeyDictionary()


def fits(array: Array) -> bool:
    """Whether an array can be looked at by the kernel: it covers its memory without gaps, and
    starts at a word."""
    spec = array.spec
    whole = extent(spec.shape, spec.strides) == spec.numel
    start = array.offset * spec.dtype.itemsize
    return spec.dtype.name in KINDS and whole and start % 4 == 0 and 0 < spec.numel


def all_finite(kernels: Any, arrays: Sequence[Array]) -> bool:
    """Whether no element of arrays on one GPU, each of which `fits`, is inf or NaN; waits for the
    GPU."""
    if len(arrays) > MOST:
        return all_finite(kernels, arrays[:MOST]) and all_finite(kernels, arrays[MOST:])
    if not arrays:
        return True
    held = _held.get(kernels)
    if held is None:
        held = _held[kernels] = _Held(kernels)
    rows = tuple(
        (
            a.storage.buffer.address + a.offset * a.spec.dtype.itemsize,
            a.spec.numel,
            KINDS[a.spec.dtype.name],
        )
        for a in arrays
    )
    driver, index = kernels.driver, kernels.index
    if rows != held.rows:  # gradients mostly get the memory that they had in the last step
        table = np.array(rows, np.uint64)
        held.table = kernels.memory.allocate(table.nbytes)
        driver.upload(index, held.table.address, table)
        held.rows = rows
    held.word[0] = 0
    most = max(count for _, count, _ in rows)
    blocks = min(max(most // (THREADS * 16), 1), 1024)
    held.function.launch((blocks, len(rows)), THREADS, [held.table.address, held.word.ctypes.data])
    driver.synchronize(index)
    return not held.word[0]
