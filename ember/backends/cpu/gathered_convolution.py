"""Convolutions of float32 images as matrix products whose right operand is never laid out: its
panels are gathered from the images as they are needed.

Element [(c, r, s), (n, i, j)] of the unfolded images is read at a place that is the sum of one that
depends on the row and one that depends on the column, whatever stride, padding and dilation are.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np

from ember.backends.cpu.framing import framed
from ember.backends.cpu.products import Gathered
from ember.backends.cpu.split_products import multiply

NDArray = np.ndarray[Any, Any]
Sizes = tuple[int, ...]
Settings = tuple[Sizes, Sizes, Sizes]  # stride, padding, dilation

LEAST_WORK = 1 << 20  # multiplications
LEAST_CHANNELS = 16  # of the result, for the work to be worth gathering
OWN_PIXELS = 192  # an image of so many pixels is a product of its own
MOST_PLACES = 1 << 31


def fits(x: NDArray, made: int, kernel: Sizes, sizes: Sizes) -> bool:
    """Whether a convolution of two dims with `made` channels of the result is computed here."""
    work = len(x) * prod(sizes) * made * x.shape[1] * prod(kernel)
    return (
        len(kernel) == 2
        and x.dtype == np.float32
        and made >= LEAST_CHANNELS
        and work >= LEAST_WORK
        and 2 * x.size < MOST_PLACES
    )


def _grid(*parts: tuple[int, int]) -> NDArray:
    """Σ index·step over all indices of some (count, step), the last fastest."""
    found = np.zeros(1, np.int64)
    for count, step in parts:
        found = (found[:, None] + np.arange(count) * step).reshape(-1)
    return found


def _unfolded(
    x: NDArray, kernel: Sizes, sizes: Sizes, settings: Settings
) -> tuple[NDArray, int, NDArray, NDArray]:
    """The padded images, elements of one, and where filter taps and pixels of the result read."""
    stride, padding, dilation = settings
    high, wide = (n + 2 * pad for n, pad in zip(x.shape[2:], padding, strict=True))
    source = framed(x, padding, (high, wide)) if any(padding) else np.ascontiguousarray(x)
    taps = _grid(
        (x.shape[1], high * wide), (kernel[0], dilation[0] * wide), (kernel[1], dilation[1])
    )
    pixels = _grid((sizes[0], stride[0] * wide), (sizes[1], stride[1]))
    return source.reshape(-1), x.shape[1] * high * wide, taps, pixels


def _is_plain(taps: NDArray, pixels: NDArray, step: int) -> bool:
    """Whether images are their own unfolded form: filters of one pixel that read every pixel."""
    return len(taps) * len(pixels) == step and int(pixels[-1]) == len(pixels) - 1


def convolution(x: NDArray, w: NDArray, sizes: Sizes, settings: Settings) -> NDArray:
    """The images (N, C, H, W) convolved with filters (K, C, R, S)."""
    images, made = len(x), len(w)
    source, step, taps, pixels = _unfolded(x, tuple(w.shape[2:]), sizes, settings)
    filters = np.ascontiguousarray(w).reshape(made, -1)
    out = np.empty((images, made, *sizes), x.dtype)
    if len(pixels) >= OWN_PIXELS:
        for image in range(images):
            own = source[image * step : (image + 1) * step]
            plain = _is_plain(taps, pixels, step)
            unfolded = own.reshape(len(taps), -1) if plain else Gathered(own, taps, pixels)
            multiply(filters, unfolded, out[image].reshape(made, -1))
        return out
    every = (np.arange(images)[:, None] * step + pixels).reshape(-1)
    found = np.empty((made, images, *sizes), x.dtype)
    multiply(filters, Gathered(source, taps, every), found.reshape(made, -1))
    out[...] = found.swapaxes(0, 1)
    return out


def weight_gradient(g: NDArray, x: NDArray, shape: Sizes, settings: Settings) -> NDArray:
    """The gradient of filters of a shape."""
    images, made, *sizes = g.shape
    source, step, taps, pixels = _unfolded(x, tuple(shape[2:]), tuple(sizes), settings)
    gradient = np.ascontiguousarray(g).reshape(images, made, -1)
    out = np.empty(shape, x.dtype)
    sums = out.reshape(made, -1)
    if len(pixels) >= OWN_PIXELS:
        for image in range(images):
            own = source[image * step : (image + 1) * step]
            plain = _is_plain(taps, pixels, step)
            unfolded = own.reshape(len(taps), -1).T if plain else Gathered(own, pixels, taps)
            multiply(gradient[image], unfolded, sums, adds=image > 0)
        return out
    every = (np.arange(images)[:, None] * step + pixels).reshape(-1)
    count = len(pixels)
    places = (np.arange(images)[:, None] * (made * count) + np.arange(count)).reshape(-1)
    by_channel = Gathered(gradient.reshape(-1), np.arange(made) * count, places)
    multiply(by_channel, Gathered(source, every, taps), sums)
    return out


def input_gradient(g: NDArray, w: NDArray, input_shape: Sizes, settings: Settings) -> NDArray:
    """The gradient of images of a shape: each phase of them (every stride-th row and column) is a
    convolution of g with the taps that reach it."""
    stride, padding, dilation = settings
    (images, made), channels = g.shape[:2], input_shape[1]
    if (
        prod(w.shape[2:]) == 1
        and prod(g.shape[2:]) >= OWN_PIXELS
        and g.shape[2:] == input_shape[2:]
    ):
        by_channel, out = w.reshape(made, channels).T, np.empty(input_shape, g.dtype)
        for image, own in zip(np.ascontiguousarray(g), out, strict=True):
            multiply(by_channel, image.reshape(made, -1), own.reshape(channels, -1))
        return out
    kernel, sizes = w.shape[2:], input_shape[2:]
    # Padded place i = stride·u + phase is read by tap r of result u − (r·dilation − phase)/stride.
    phase = [-(-(n + 2 * p) // s) for n, p, s in zip(sizes, padding, stride, strict=True)]
    above = [(k - 1) * d // s for k, d, s in zip(kernel, dilation, stride, strict=True)]
    high, wide = (reach + max(n, m) for reach, n, m in zip(above, phase, g.shape[2:], strict=True))
    source = framed(g, tuple(above), (high, wide))
    filters = np.ascontiguousarray(w).reshape(-1)
    area = prod(kernel)
    out = np.zeros(input_shape, g.dtype)
    for place in product(range(stride[0]), range(stride[1])):
        taps = [
            [r for r in range(k) if r * d % s == a]
            for k, d, s, a in zip(kernel, dilation, stride, place, strict=True)
        ]
        first = [-(-max(p - a, 0) // s) for p, a, s in zip(padding, place, stride, strict=True)]
        begin = [f * s + a - p for f, s, a, p in zip(first, stride, place, padding, strict=True)]
        target = out[:, :, begin[0] :: stride[0], begin[1] :: stride[1]]
        if not (taps[0] and taps[1] and target.size):
            continue
        moves = [
            [reach - (r * d - a) // s + f for r in rows]
            for reach, rows, d, s, a, f in zip(above, taps, dilation, stride, place, first)
        ]
        starts = np.array([i * wide + j for i, j in product(*moves)], np.int64)
        chosen = np.array([r * kernel[1] + s for r, s in product(*taps)], np.int64)
        reads = (np.arange(made)[:, None] * (high * wide) + starts).reshape(-1)
        weights = (np.arange(made)[:, None] * (channels * area) + chosen).reshape(-1)
        left = Gathered(filters, np.arange(channels) * area, weights)
        pixels = _grid((images, made * high * wide), (target.shape[2], wide), (target.shape[3], 1))
        found = np.empty((channels, images, *target.shape[2:]), g.dtype)
        multiply(left, Gathered(source, reads, pixels), found.reshape(channels, -1))
        target[...] = found.swapaxes(0, 1)
    return out
