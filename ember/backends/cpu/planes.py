"""Depthwise convolutions of float32 planes as LLVM functions: a vector lies along a row of the
result, several rows are computed together, and the filter's taps stay in registers.

What is read is padded, with some elements to spare behind it: vectors may read past a row's end.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ember.backends.cpu import threads
from ember.backends.cpu.framing import framed
from ember.backends.cpu.native import builtin, vector_bytes
from ember.kernel.elements import load_one, mask_below, store
from ember.kernel.nests import close_loop, open_loop, sum_of_products
from ember.kernel.python_call import python_call
from ember.scalar.vectors import Vectors

NDArray = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

TOGETHER = 4  # rows of the result
MOST_SUMS = 16  # weights whose gradients are summed up together
LONGEST_STEP = 2  # columns between neighbouring results
MOST_TAPS = 49
LARGE = 1 << 13  # elements from which compiling pays
GRAIN = 1 << 15  # multiplications worth another thread


class Filter(NamedTuple):
    """The taps of a filter in two dims, and how they move."""

    kernel: Sizes
    stride: Sizes
    dilation: Sizes


class _Text:
    """Writes the loops of one function; `size` reads the geometry."""

    def __init__(self, taps: Filter, lanes: int):
        self.taps, self.b = taps, Vectors("float", lanes)
        names = ("plane", "width", "rows", "columns", "made", "channels", "times", "images")
        places = [self.b.new(f"getelementptr i64, ptr %geometry, i64 {i}") for i in range(8)]
        self.size = {
            n: self.b.new(f"load i64, ptr {place}") for n, place in zip(names, places, strict=True)
        }

    def pointer(self, base: str, offset: str | int) -> str:
        return self.b.new(f"getelementptr float, ptr {base}, i64 {offset}")

    def source(self, image: str, made: str) -> str:
        """The padded plane that a channel of the result reads."""
        channel = self.b.new(f"sdiv i64 {made}, {self.size['times']}")
        plane = self.b.new(
            f"add i64 {channel}, {sum_of_products(self.b, (image, self.size['channels']))}"
        )
        return self.pointer("%p0", sum_of_products(self.b, (plane, self.size["plane"])))

    def read(self, base: str) -> str:
        """A vector of every stride-th element."""
        b, step = self.b, self.taps.stride[1]
        wide = f"<{b.lanes * step} x float>"
        value = b.new(f"load {wide}, ptr {base}, align 4")
        if step == 1:
            return value
        places = ", ".join(f"i32 {lane * step}" for lane in range(b.lanes))
        mask = f"<{b.lanes} x i32> <{places}>"
        return b.new(f"shufflevector {wide} {value}, {wide} poison, {mask}")

    def row_of_source(self, plane: str, row: str, column: str, tap_row: int) -> str:
        """Where the first tap of a filter's row reads for a place of the result."""
        b = self.b
        moved = b.new(f"add i64 {sum_of_products(b, (row, self.taps.stride[0]))}, {tap_row}")
        pairs = ((moved, self.size["width"]), (column, self.taps.stride[1]))
        return self.pointer(plane, sum_of_products(b, *pairs))

    def module(self) -> str:
        declared = "\n".join(sorted(self.b.declarations))
        body = "\n".join(self.b.lines)
        return (
            f"{declared}\ndefine internal void @loop(ptr %p0, ptr %p1, ptr %p2, ptr %geometry, "
            f"ptr %scratch, i64 %begin, i64 %end) {{\nentry:\n{body}\n  ret void\n}}\n"
            f"{python_call(3, 0, 'float')}"
        )


@lru_cache(maxsize=64)
def _forward_text(taps: Filter, lanes: int) -> str:
    """builtin(padded x, w, out, geometry, scratch, begin, end) for planes begin..end of the
    result."""
    t = _Text(taps, lanes)
    b, size = t.b, t.size
    count = taps.kernel[0] * taps.kernel[1]
    planes = open_loop(b, "%begin", "%end")
    made = b.new(f"srem i64 {planes.index}, {size['made']}")
    image = b.new(f"sdiv i64 {planes.index}, {size['made']}")
    plane = t.source(image, made)
    first = sum_of_products(b, (made, count))
    filters = t.pointer("%p1", first)
    weights = [load_one(b, "float", t.pointer(filters, i)) for i in range(count)]
    pixels = b.new(f"mul i64 {size['rows']}, {size['columns']}")
    out = t.pointer("%p2", sum_of_products(b, (planes.index, pixels)))
    whole = b.new(f"and i64 {size['rows']}, {-TOGETHER}")
    for begin, end, together in (("0", whole, TOGETHER), (whole, size["rows"], 1)):
        rows = open_loop(b, begin, end, together)
        columns = open_loop(b, "0", size["columns"], lanes)
        mask = mask_below(b, columns.index, size["columns"])
        sums = _sums(t, plane, rows.index, columns.index, weights, together)
        for i, total in enumerate(sums):
            row = b.new(f"add i64 {rows.index}, {i}")
            offset = sum_of_products(b, (row, size["columns"]), (columns.index, 1))
            store(b, "float", total, t.pointer(out, offset), mask)
        close_loop(b, columns)
        close_loop(b, rows)
    close_loop(b, planes)
    return t.module()


def _sums(
    t: _Text, plane: str, row: str, column: str, weights: list[str], together: int
) -> list[str]:
    """The results of several rows at a vector of columns; what two of them read is read once."""
    b, taps = t.b, t.taps
    found: dict[tuple[int, int], str] = {}
    starts: dict[int, str] = {}

    def value(line: int, tap: int) -> str:
        if line not in starts:
            starts[line] = t.row_of_source(plane, row, column, line)
        if (line, tap) not in found:
            found[line, tap] = t.read(t.pointer(starts[line], tap * taps.dilation[1]))
        return found[line, tap]

    sums = []
    for i in range(together):
        total = ""
        for r in range(taps.kernel[0]):
            for s in range(taps.kernel[1]):
                x = value(i * taps.stride[0] + r * taps.dilation[0], s)
                weight = weights[r * taps.kernel[1] + s]
                total = b.fma(x, weight, total) if total else b.mul(x, weight)
        sums.append(total)
    return sums


@lru_cache(maxsize=64)
def _weight_text(taps: Filter, lanes: int) -> str:
    """builtin(padded x, g, out, geometry, scratch, begin, end) for channels begin..end of g."""
    t = _Text(taps, lanes)
    b, size = t.b, t.size
    places = [(r, s) for r in range(taps.kernel[0]) for s in range(taps.kernel[1])]
    zero = (b.real, b.number(0.0))
    pixels = b.new(f"mul i64 {size['rows']}, {size['columns']}")
    channels = open_loop(b, "%begin", "%end")
    for first in range(0, len(places), MOST_SUMS):
        group = places[first : first + MOST_SUMS]
        images = open_loop(b, "0", size["images"], 1, (zero,) * len(group))
        plane = t.source(images.index, channels.index)
        own = sum_of_products(b, (images.index, size["made"]), (channels.index, 1))
        gradient = t.pointer("%p1", sum_of_products(b, (own, pixels)))
        rows = open_loop(b, "0", size["rows"], 1, _kept(b, images.carried))
        columns = open_loop(b, "0", size["columns"], lanes, _kept(b, rows.carried))
        new = _added(t, plane, gradient, rows.index, columns.index, columns.carried, group)
        inner = close_loop(b, columns, new)
        middle = close_loop(b, rows, inner)
        for i, total in enumerate(close_loop(b, images, middle)):
            joined = b.across(b.add, total)
            one = b.new(f"extractelement {b.real} {joined}, i64 0")
            at = b.new(f"add i64 {sum_of_products(b, (channels.index, len(places)))}, {first + i}")
            b.do(f"store float {one}, ptr {t.pointer('%p2', at)}")
    close_loop(b, channels)
    return t.module()


def _kept(b: Vectors, values: list[str]) -> tuple[tuple[str, str], ...]:
    return tuple((b.real, v) for v in values)


def _added(
    t: _Text,
    plane: str,
    gradient: str,
    row: str,
    column: str,
    sums: list[str],
    group: list[tuple[int, int]],
) -> list[str]:
    """The sums of some taps with the products at a vector of columns added."""
    b, taps, zero = t.b, t.taps, t.b.number(0.0)
    mask = mask_below(b, column, t.size["columns"])
    at = t.pointer(gradient, sum_of_products(b, (row, t.size["columns"]), (column, 1)))
    g = b.select(mask, b.new(f"load {b.real}, ptr {at}, align 4"), zero)
    starts: dict[int, str] = {}
    found = []
    for (r, s), total in zip(group, sums, strict=True):
        line = r * taps.dilation[0]
        if line not in starts:
            starts[line] = t.row_of_source(plane, row, column, line)
        x = t.read(t.pointer(starts[line], s * taps.dilation[1]))
        found.append(b.fma(b.select(mask, x, zero), g, total))
    return found


def fits(x: NDArray, kernel: Sizes, stride: Sizes) -> bool:
    """Whether planes are convolved here: float32 of one or two dims, where it is worth compiling
    for them."""
    return (
        x.dtype == np.float32
        and x.size >= LARGE
        and len(kernel) <= 2
        and stride[-1] <= LONGEST_STEP
        and prod(kernel) <= MOST_TAPS
    )


def _in_two_dims(sizes: Sizes, filling: int) -> Sizes:
    return sizes if len(sizes) == 2 else (filling, *sizes)


def _plane(x: NDArray) -> NDArray:
    return x if x.ndim == 4 else x[:, :, None]


def depthwise(
    x: NDArray, w: NDArray, stride: Sizes, padding: Sizes, dilation: Sizes, sizes: Sizes
) -> NDArray:
    """As depthwise.py's."""
    taps = _filter(w.shape[2:], stride, dilation)
    out = np.empty((len(x), len(w), *sizes), x.dtype)
    _convolve(_plane(x), _plane(w), taps, _in_two_dims(padding, 0), _plane(out))
    return out


def depthwise_input(
    g: NDArray, w: NDArray, input_shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> NDArray:
    """As depthwise.py's: g, with zeros between its elements, convolved with the filters turned
    round."""
    extents = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilation, strict=True)]
    if max(stride) > 1:
        sizes = [
            size + 2 * pad - extent + 1
            for size, pad, extent in zip(input_shape[2:], padding, extents, strict=True)
        ]
        spread = np.zeros((*g.shape[:2], *sizes), g.dtype)
        places = tuple(slice(0, (n - 1) * s + 1, s) for n, s in zip(g.shape[2:], stride))
        spread[:, :, *places] = g
        g = spread
    turned = np.flip(w, tuple(range(2, w.ndim)))
    margins = tuple(extent - 1 - pad for extent, pad in zip(extents, padding, strict=True))
    if min(margins) < 0:  # what reads nothing but padding
        inside = tuple(slice(max(0, -m), n - max(0, -m)) for m, n in zip(margins, g.shape[2:]))
        g, margins = g[:, :, *inside], tuple(max(0, m) for m in margins)
    out = depthwise(g, turned, (1,) * len(stride), margins, dilation, tuple(input_shape[2:]))
    times = len(w) // input_shape[1]
    if times == 1:
        return out
    return out.reshape(len(g), input_shape[1], times, *input_shape[2:]).sum(2)


def depthwise_weight(
    g: NDArray, x: NDArray, shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> NDArray:
    """As depthwise.py's."""
    taps = _filter(shape[2:], stride, dilation)
    out = np.empty(shape, x.dtype)
    _sum_up(_plane(g), _plane(x), taps, _in_two_dims(padding, 0), _plane(out))
    return out


def _filter(kernel: Sizes, stride: Sizes, dilation: Sizes) -> Filter:
    return Filter(*(_in_two_dims(tuple(sizes), 1) for sizes in (kernel, stride, dilation)))


def _spared(x: NDArray, padding: Sizes) -> NDArray:
    """x with zeros around its planes and elements to spare behind them."""
    sizes = tuple(size + 2 * pad for size, pad in zip(x.shape[2:], padding, strict=True))
    shape = (*x.shape[:2], *sizes)
    return framed(x, padding, sizes)[: prod(shape)].reshape(shape)


def _geometry(x: NDArray, made: int, sizes: Sizes) -> NDArray:
    plane = x.shape[2] * x.shape[3]
    times = made // x.shape[1]
    table = [plane, x.shape[3], *sizes, made, x.shape[1], times, x.shape[0]]
    return np.array(table, np.int64)


def _convolve(x: NDArray, w: NDArray, taps: Filter, padding: Sizes, out: NDArray) -> None:
    """Planes (N, C, H, W) convolved with filters (K, 1, R, S), K a multiple of C."""
    source, filters = _spared(x, padding), np.ascontiguousarray(w)
    kernel = builtin(_forward_text(taps, vector_bytes() // 4))
    geometry, scratch = _geometry(source, len(w), out.shape[2:]), np.empty(1)

    def part(begin: int, end: int) -> None:
        kernel(source, filters, out, geometry, scratch, begin, end)

    work = prod(out.shape[2:]) * prod(taps.kernel)
    threads.split(part, len(x) * len(w), max(1, GRAIN // work))


def _sum_up(g: NDArray, x: NDArray, taps: Filter, padding: Sizes, out: NDArray) -> None:
    """The gradient of such filters."""
    source = _spared(x, padding)
    gradient = _spared(g, (0, 0))  # vectors read past its end too
    kernel = builtin(_weight_text(taps, vector_bytes() // 4))
    geometry, scratch = _geometry(source, len(out), g.shape[2:]), np.empty(1)

    def part(begin: int, end: int) -> None:
        kernel(source, gradient, out, geometry, scratch, begin, end)

    threads.split(part, len(out), max(1, GRAIN // (g.size // len(out) * prod(taps.kernel))))
