"""Batch normalization in training, and its gradient: the mean and variance of a channel, and what
is made with them, while the channel lies in the cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ember.backends.cpu import threads
from ember.backends.cpu.batch_norm_text import BACKWARD, FORWARD, GIVEN, planes_text, rows_text
from ember.backends.cpu.native import builtin
from ember.backends.cpu.tile_text import lanes

NDArray = np.ndarray[Any, Any]
Triple = tuple[NDArray, NDArray, NDArray]
OWN_PIXELS = 1024  # an image of so many pixels is worth a call of its own
GRAIN = 1 << 15  # elements that are worth another thread
NOTHING = np.empty(1, np.float32)


def batch_norm(input: NDArray, weight: NDArray | None, bias: NDArray | None, eps: float) -> Triple:
    """(x − mean) / √(var + eps) · weight + bias of float32 (N, C, ...), and the mean and variance
    of each channel."""
    outs = _empty(input)
    forward(input, weight, bias, eps, outs)()
    return outs


def batch_norm_backward(
    g: NDArray, input: NDArray, weight: NDArray | None, mean: NDArray, var: NDArray, eps: float
) -> Triple:
    """The gradient by the input, and the sums over each channel of g and of g·(x − mean)."""
    outs = _empty(input)
    backward(g, input, weight, mean, var, eps, outs)()
    return outs


def batch_norm_given(
    input: NDArray,
    weight: NDArray | None,
    bias: NDArray | None,
    mean: NDArray,
    var: NDArray,
    eps: float,
) -> NDArray:
    """(x − mean) / √(var + eps) · weight + bias for a mean and a variance of each channel."""
    out = _empty(input)[0]
    x, channels = _dense(input, out), input.shape[1]
    scale = np.ones(channels, np.float32) if weight is None else np.ascontiguousarray(weight)
    shift = np.zeros(channels, np.float32) if bias is None else np.ascontiguousarray(bias)
    vectors = scale, shift, np.ascontiguousarray(mean), np.ascontiguousarray(var)
    small, length = np.array([eps], np.float32), prod(out.shape[2:])
    if not out.flags.c_contiguous or length < OWN_PIXELS:
        _step((x, *vectors, out), small, out, GIVEN)()
        return out
    kernel = builtin(planes_text(lanes(), GIVEN))
    geometry = np.array([1, channels, length], np.int64)

    def part(begin: int, end: int) -> None:
        for image in range(len(x)):  # in the order in which they lie in memory
            kernel(x[image], *vectors, out[image], small, geometry, NOTHING, begin, end)

    threads.split(part, channels, max(1, GRAIN // (len(x) * length)))
    return out


def _empty(input: NDArray) -> Triple:
    channels = input.shape[1]
    made = np.empty(input.shape, np.float32)
    if not input.flags.c_contiguous:
        last = (0, *range(2, input.ndim), 1)
        if input.transpose(last).flags.c_contiguous:
            turned = np.empty([input.shape[d] for d in last], np.float32)
            made = turned.transpose(0, -1, *range(1, input.ndim - 1))
    return made, np.empty(channels, np.float32), np.empty(channels, np.float32)


def forward(
    input: NDArray,
    weight: NDArray | None,
    bias: NDArray | None,
    eps: float,
    outs: tuple[NDArray, ...],
) -> Callable[[], None]:
    """A function that computes the forward pass into dense arrays of the input's order."""
    x, channels = _dense(input, outs[0]), input.shape[1]
    scale = np.ones(channels, np.float32) if weight is None else np.ascontiguousarray(weight)
    shift = np.zeros(channels, np.float32) if bias is None else np.ascontiguousarray(bias)
    return _step((x, scale, shift, *outs), np.array([eps], np.float32), outs[0], FORWARD)


def backward(
    g: NDArray,
    input: NDArray,
    weight: NDArray | None,
    mean: NDArray,
    var: NDArray,
    eps: float,
    outs: tuple[NDArray, ...],
) -> Callable[[], None]:
    """A function that computes the gradients into dense arrays."""
    slope, x = (_dense(a, outs[0]) for a in (g, input))
    channels = input.shape[1]
    scale = np.ones(channels, np.float32) if weight is None else np.ascontiguousarray(weight)
    return _step(
        (slope, x, scale, mean, var, *outs), np.array([eps], np.float32), outs[0], BACKWARD
    )


def _dense(x: NDArray, out: NDArray) -> NDArray:
    """x laid out as the result."""
    if x.strides == out.strides:
        return x
    made = np.empty_like(out)
    np.copyto(made, x)
    return made


def _step(
    arrays: tuple[NDArray, ...], eps: NDArray, out: NDArray, which: str
) -> Callable[[], None]:
    """A function that runs the kernel on all channels."""
    number, channels, length = out.shape[0], out.shape[1], prod(out.shape[2:])
    given = (*arrays, eps)
    if length > 1 and out.flags.c_contiguous:
        geometry = np.array([number, channels, length], np.int64)
        kernel, count, each = builtin(planes_text(lanes(), which)), channels, 1
    else:
        geometry = np.array([number * length, channels], np.int64)
        kernel, each = builtin(rows_text(lanes(), which)), lanes()
        count = -(-channels // each)
    grain = max(1, GRAIN // max(number * length * each, 1))
    if count <= grain:
        return partial(kernel, *given, geometry, NOTHING, 0, count)

    def part(begin: int, end: int) -> None:
        kernel(*given, geometry, NOTHING, begin, end)

    return lambda: threads.split(part, count, grain)
