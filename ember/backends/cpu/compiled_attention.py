"""Attention of float32 heads by compiled functions (attention_text.py): what they are told of the
arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ember.backends.cpu import threads
from ember.backends.cpu.attention_text import backward_text, forward_text
from ember.backends.cpu.native import builtin
from ember.backends.cpu.products import scratch
from ember.backends.cpu.tile_text import lanes, tile_for

NDArray = np.ndarray[Any, Any]
Step = Callable[[], None]

TILE_ELEMENTS = 1 << 16  # of scores
LEAST_ROWS, MOST_ROWS = 16, 64  # of a tile
WORTH_COMPILING = 1 << 12  # scores of all heads
GRAIN = 1 << 20  # multiplications that are worth a thread
ONE = np.ones(1, np.float32)


def is_compiled(query: NDArray, key: NDArray) -> bool:
    """Whether attention of these is worth compiling."""
    scores = query.shape[-2] * key.shape[-2] * int(np.prod(query.shape[:-2]))
    return query.dtype == np.float32 and scores >= WORTH_COMPILING


def heads(x: NDArray) -> NDArray:
    """x as (outer, inner, rows, columns), each row dense: a view where there is one."""
    if x.ndim != 4:
        x = x.reshape(-1, *x.shape[-3:]) if x.ndim > 4 else x.reshape((1,) * (4 - x.ndim) + x.shape)
    return x if x.strides[-1] == x.itemsize or x.shape[-1] == 1 else np.ascontiguousarray(x)


def are_heads(*arrays: NDArray) -> bool:
    """Whether arrays are read and written where they lie."""
    dense = (x.strides[-1] == x.itemsize or x.shape[-1] == 1 for x in arrays)
    return all(dense) and all(x.ndim <= 4 for x in arrays)


def _padded(count: int) -> int:
    return -(-count // lanes()) * lanes()


class _Heads:
    """The sizes of a call: geometry, scratch and tiles."""

    def __init__(self, q: NDArray, k: NDArray, v: NDArray, is_causal: bool):
        outer, inner, queries, features = q.shape
        keys, values = k.shape[2], v.shape[3]
        pitch = _padded(keys)
        rows = min(queries, MOST_ROWS, max(LEAST_ROWS, TILE_ELEMENTS // pitch))
        self.count, self.sizes = outer * inner, [queries, keys, features, values, rows]
        self.sizes += [int(is_causal), inner, pitch]
        self.tiles = tile_for(rows, keys), tile_for(rows, features), tile_for(rows, values)
        self.turned = _padded(features) + _padded(values)
        self.scratch = (self.turned + 2 * _padded(rows)) * pitch
        self.grain = max(1, GRAIN // (queries * keys * (features + values)))

    def geometry(self, arrays: tuple[NDArray, ...]) -> NDArray:
        steps = [step // 4 for a in arrays for step in a.strides[:3]]
        return np.array([*self.sizes, *steps], np.int64)

    def step(self, kernel: Any, arrays: tuple[NDArray, ...]) -> Step:
        """A function that runs a kernel on all heads."""
        count, grain, size = self.count, self.grain, self.scratch

        def part(begin: int, end: int) -> None:
            kernel(*arrays, scratch("attention", size), begin, end)

        return lambda: threads.split(part, count, grain)


def forward(
    query: NDArray,
    key: NDArray,
    value: NDArray,
    is_causal: bool,
    scale: float,
    outs: tuple[NDArray, NDArray],
) -> Step:
    """A function that computes attention into its result and the logs of the rows' sums, which is
    dense."""
    given = heads(query), heads(key), heads(value), heads(outs[0])
    sizes = _Heads(*given[:3], is_causal)
    kernel = builtin(forward_text(lanes(), sizes.tiles))
    factor = np.full(1, scale, np.float32)
    return sizes.step(kernel, (*given, outs[1], factor, sizes.geometry(given)))


def backward(
    g: NDArray,
    query: NDArray,
    key: NDArray,
    value: NDArray,
    out: NDArray,
    log_sums: NDArray,
    is_causal: bool,
    scale: float,
    outs: tuple[NDArray, NDArray, NDArray],
) -> Step:
    """A function that computes the gradients by query, key and value."""
    given = tuple([heads(x) for x in (query, key, value, out, g, *outs)])
    sizes = _Heads(given[0], given[1], given[2], is_causal)
    kernel = builtin(backward_text(lanes(), sizes.tiles))
    factor = np.full(1, scale, np.float32)
    return sizes.step(kernel, (*given, log_sums, factor, ONE, sizes.geometry(given)))
