"""Resampling of spatial dims: every mode is, for each dim, a few weighted source pixels of every
result pixel.

Shapes: x (N, C, *S), result (N, C, *O). Pixel centres are at half-integers: the source place of
pixel i is (i + ½)·scale − ½, or i·(S − 1)/(O − 1) with align_corners, where scale is S/O or 1 over
the given factor.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ember.backends.cpu.pooling import plane_blocks

NDArray = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

CUBIC = -0.75  # the slope at 1 of the cubic kernel (Keys, 1981)
SMOOTH_CUBIC = -0.5  # the same with antialias
PRODUCT_COST = 64  # how many multiplications by zero cost as much as gathering a tap


class Taps:
    """For one dim: the source pixels of every result pixel and their weights, both (taps, O).

    No weights means one tap of weight 1.
    """

    def __init__(self, indices: NDArray, weights: NDArray | None, size: int):
        self.indices, self.weights, self.size = indices, weights, size
        self._matrix: NDArray | None = None
        self._turned: Taps | None = None

    def matrix(self) -> NDArray:
        """The weights as an (S, O) matrix."""
        if self._matrix is None:
            assert self.weights is not None
            taps, count = self.indices.shape
            self._matrix = np.zeros((self.size, count), self.weights.dtype)
            columns = np.broadcast_to(np.arange(count), (taps, count))
            np.add.at(self._matrix, (self.indices, columns), self.weights)
        return self._matrix

    def turned(self) -> Taps:
        """The adjoint: for every source pixel, the result pixels that it was used for."""
        if self._turned is None:
            taps, count = self.indices.shape
            weights = np.ones((taps, count), np.float32) if self.weights is None else self.weights
            order = np.argsort(self.indices, None, kind="stable")
            sources, users = self.indices.reshape(-1)[order], order % count
            uses = np.bincount(sources, minlength=self.size)
            before = np.cumsum(uses) - uses
            indices = np.empty((max(int(uses.max()), 1), self.size), np.intp)
            indices[:] = users[np.minimum(before, len(order) - 1)]
            shares = np.zeros(indices.shape, weights.dtype)
            number = np.arange(len(order)) - before[sources]
            indices[number, sources] = users
            shares[number, sources] = weights.reshape(-1)[order]
            self._turned = Taps(indices, shares, count)
        return self._turned


def interpolate(
    x: NDArray,
    output_size: Sizes,
    mode: str,
    align_corners: bool,
    scales: tuple[float | None, ...] | None,
    antialias: bool = False,
) -> NDArray:
    """x at other sizes: "nearest", "nearest-exact", "linear", "bilinear", "trilinear" or "bicubic".

    uint8 is rounded after each dim, as image libraries do.
    """
    plans = _plans(x.shape[2:], output_size, mode, align_corners, scales, antialias, x.dtype)
    return _resample_all(x, output_size, plans)


def interpolate_backward(
    g: NDArray,
    input_shape: Sizes,
    mode: str,
    align_corners: bool,
    scales: tuple[float | None, ...] | None,
    antialias: bool = False,
) -> NDArray:
    """The adjoint: every result pixel's gradient added to its source pixels by their weights."""
    sizes = input_shape[2:]
    plans = _plans(sizes, g.shape[2:], mode, align_corners, scales, antialias, g.dtype)
    turned = [None if plan is None else plan.turned() for plan in plans]
    return _resample_all(g, sizes, turned)


def _resample_all(x: NDArray, output_size: Sizes, plans: list[Taps | None]) -> NDArray:
    """(N, C, *S) to (N, C, *O) by the taps of each dim."""
    if not x.size:
        return np.zeros((*x.shape[:2], *output_size), x.dtype)
    out = np.empty((*x.shape[:2], *output_size), x.dtype)
    if not out.size:
        return out
    planes, results = x.reshape(-1, *x.shape[2:]), out.reshape(-1, *output_size)
    moving = [(dim, plan) for dim, plan in enumerate(plans, 1) if plan is not None]
    for part in plane_blocks(len(planes), max(planes[0].nbytes, results[0].nbytes)):
        result = planes[part]
        for dim, plan in reversed(moving):  # the last one first: its pixels are the dearest
            target = results[part] if dim == moving[0][0] else None
            result = _resample(result, dim, plan, target)
        if not moving:
            results[part] = result
    return out


def _plans(
    sizes: Sizes,
    output_size: Sizes,
    mode: str,
    align_corners: bool,
    scales: tuple[float | None, ...] | None,
    antialias: bool,
    dtype: Any,
) -> list[Taps | None]:
    """The taps of each dim, None where the dim stays as it is."""
    if mode in ("bilinear", "trilinear"):
        mode = "linear"
    if mode == "nearest" and len(sizes) == 2:
        mode = "nearest-plane"  # PyTorch ignores factors that give the same or twice the size
    number = np.float64 if dtype == np.float64 else np.float32
    given = scales or (None,) * len(sizes)
    return [
        _taps(size, count, mode, bool(align_corners), scale, antialias, number)
        for size, count, scale in zip(sizes, output_size, given)
    ]


@lru_cache(512)
def _taps(
    size: int,
    count: int,
    mode: str,
    align_corners: bool,
    scale: float | None,
    antialias: bool,
    number: Any,
) -> Taps | None:
    ratio = (
        number(1.0 / scale)
        if scale is not None and scale > 0
        else number(size) / number(max(count, 1))
    )
    places = np.arange(count).astype(number)
    if mode.startswith("nearest"):
        return _nearest(size, count, mode, np.float32(1.0 / scale) if scale else None)
    if align_corners:
        ratio = number(size - 1) / number(count - 1) if count > 1 else number(0)
    if size == count and (antialias or mode == "linear"):
        return None
    if antialias:
        return _smooth(size, places, ratio, align_corners, mode)
    source = ratio * places if align_corners else ratio * (places + number(0.5)) - number(0.5)
    if size == count and (source == places).all():
        return None
    if mode == "linear":
        source = np.maximum(source, 0)
        low = np.minimum(source.astype(np.intp), size - 1)
        share = np.clip(source - low.astype(number), 0, 1).astype(number)
        high = np.minimum(low + 1, size - 1)
        return Taps(np.stack([low, high]), np.stack([1 - share, share]), size)
    low = np.floor(source).astype(np.intp)
    share = np.clip(source - low.astype(number), 0, 1).astype(number)
    distances = np.stack([share + 1, share, 1 - share, 2 - share])
    indices = np.clip(low + np.arange(-1, 3)[:, None], 0, size - 1)
    return Taps(indices, _cubic(distances, CUBIC).astype(number), size)


def _nearest(size: int, count: int, mode: str, ratio: Any) -> Taps | None:
    """One source pixel each, at ⌊i·scale⌋, or ⌊(i + ½)·scale⌋ if exact, always in float32."""
    places = np.arange(count).astype(np.float32)
    if ratio is None or (mode == "nearest-plane" and count in (size, 2 * size)):
        ratio = np.float32(size) / np.float32(max(count, 1))
    source = (places + np.float32(0.5)) * ratio if mode == "nearest-exact" else places * ratio
    indices = np.minimum(np.floor(source).astype(np.intp), size - 1)
    if size == count and (indices == places).all():
        return None
    return Taps(indices[None], None, size)


def _cubic(distance: NDArray, slope: float) -> NDArray:
    """Keys' cubic kernel at distances ≥ 0."""
    near = ((slope + 2) * distance - (slope + 3)) * distance * distance + 1
    far = ((distance - 5) * distance + 8) * distance * slope - 4 * slope
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _smooth(size: int, places: NDArray, ratio: Any, align_corners: bool, mode: str) -> Taps:
    """Antialiased: the kernel is as much wider as the image gets smaller; weights sum to 1."""
    reach = 1.0 if mode == "linear" else 2.0
    ratio = float(ratio)
    support, squeeze = (reach * ratio, 1 / ratio) if ratio >= 1 else (reach, 1.0)
    centres = ratio * (places.astype(np.float64) + 0.5)
    first = np.maximum((centres - support + 0.5).astype(np.intp), 0)
    last = np.minimum((centres + support + 0.5).astype(np.intp), size)
    tap = np.arange(max(int((last - first).max()), 1))[:, None]
    distance = np.abs((tap + first - centres + 0.5) * squeeze)
    weights = np.maximum(1 - distance, 0) if mode == "linear" else _cubic(distance, SMOOTH_CUBIC)
    weights = np.where(tap < last - first, weights, 0)
    total = weights.sum(0)
    weights = (weights / np.where(total == 0, 1, total)).astype(places.dtype)
    return Taps(np.minimum(tap + first, size - 1), weights, size)


def _resample(x: NDArray, dim: int, plan: Taps, out: NDArray | None) -> NDArray:
    """x with the pixels of one dim replaced by weighted ones, into `out` if there is one."""
    if plan.weights is None:
        return np.take(x, plan.indices[0], dim, out, mode="clip")
    if x.dtype == np.uint8:
        exact = _resample(x.astype(np.float32), dim, plan, None)
        rounded = np.clip(np.floor(exact + np.float32(0.5)), 0, 255)
        return _stored(rounded.astype(np.uint8), out)
    taps = len(plan.indices)
    if dim == x.ndim - 1 and x.shape[dim] <= PRODUCT_COST * taps:
        product = np.matmul(x, plan.matrix().astype(x.dtype, copy=False), out=out)
        if np.isfinite(np.add.reduce(product, None)):  # zero times infinity spoils other pixels
            return product
    weights = plan.weights.reshape(taps, -1, *[1] * (x.ndim - 1 - dim))
    total = np.take(x, plan.indices[0], dim, out, mode="clip")
    np.multiply(total, weights[0], out=total)
    term = np.empty_like(total)
    for tap in range(1, taps):
        np.take(x, plan.indices[tap], dim, out=term, mode="clip")
        np.multiply(term, weights[tap], out=term)
        np.add(total, term, out=total)
    unused = np.flatnonzero(~plan.weights.any(0))
    if unused.size:
        total[(slice(None),) * dim + (unused,)] = 0
    return total


def _stored(value: NDArray, out: NDArray | None) -> NDArray:
    if out is not None:
        out[...] = value
    return value
