"""Planes of images with zeros around them, or without their borders, as float32 kernels read
them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ember.backends.cpu import threads
from ember.backends.cpu.native import builtin
from ember.backends.cpu.panel_text import at, module, sizes
from ember.backends.cpu.products import NOTHING, SPARE
from ember.backends.cpu.tile_text import lanes
from ember.kernel.elements import load, mask_below, store
from ember.kernel.nests import close_loop, open_loop, sum_of_products
from ember.scalar.vectors import Vectors

NDArray = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


@lru_cache(maxsize=4)
def frame_text(lanes: int) -> str:
    """builtin(x, out, geometry, scratch, begin, end): planes begin..end of x, zeros around them or
    borders cut off, as planes of out.

    Geometry: height and width of x, of out, and rows and columns of out before the first of x.
    """
    b = Vectors("float", lanes)
    high, wide, out_high, out_wide, top, left = sizes(b, 6)
    kind = f"<{lanes} x i64>"
    steps = ", ".join(f"i64 {lane}" for lane in range(lanes))
    planes = open_loop(b, "%begin", "%end")
    source = at(b, "%p0", b.new(f"mul i64 {planes.index}, {b.new(f'mul i64 {high}, {wide}')}"))
    whole = b.new(f"mul i64 {out_high}, {out_wide}")
    target = at(b, "%p1", b.new(f"mul i64 {planes.index}, {whole}"))
    rows = open_loop(b, "0", out_high)
    line = b.new(f"sub i64 {rows.index}, {top}")
    there = b.new(f"icmp ult i64 {line}, {high}")
    bound = b.splat(b.new(f"select i1 {there}, i64 {wide}, i64 0"), "i64")
    columns = open_loop(b, "0", out_wide, lanes)
    first = b.new(f"sub i64 {columns.index}, {left}")
    numbers = b.new(f"add {kind} {b.splat(first, 'i64')}, <{steps}>")
    mask = b.new(f"icmp ult {kind} {numbers}, {bound}")
    value = load(b, "float", at(b, source, sum_of_products(b, (line, wide), (first, 1))), mask)
    place = at(b, target, sum_of_products(b, (rows.index, out_wide), (columns.index, 1)))
    store(b, "float", value, place, mask_below(b, columns.index, out_wide))
    close_loop(b, columns)
    close_loop(b, rows)
    close_loop(b, planes)
    return module(b, 2)


def framed(x: NDArray, before: Sizes, sizes: Sizes) -> NDArray:
    """x in planes of some sizes, zero around it, flat, with elements to spare behind them."""
    count = x.shape[0] * x.shape[1] * sizes[0] * sizes[1]
    flat = np.empty(count + SPARE, x.dtype)
    frame(np.ascontiguousarray(x), flat, before, sizes)
    flat[count:] = 0
    return flat


def frame(x: NDArray, out: NDArray, before: Sizes, sizes: Sizes) -> None:
    """Planes of x in planes of other sizes, zero where x has nothing."""
    kernel = builtin(frame_text(lanes()))
    geometry = np.array([*x.shape[2:], *sizes, *before], np.int64)

    def part(begin: int, end: int) -> None:
        kernel(x, out, geometry, NOTHING, begin, end)

    threads.split(part, x.shape[0] * x.shape[1], max(1, (1 << 15) // (sizes[0] * sizes[1])))
