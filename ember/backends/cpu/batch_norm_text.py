"""Batch normalization of float32 and its gradient as LLVM functions: all that is done for a channel
is done while it lies in the cache.

For planes a channel is a row of elements in each image; for rows it is a column of a matrix, and a
vector of columns is worked on at a time. Sums are of float32 over a part, and of double over the
parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ember.backends.cpu.panel_text import at, module, sizes
from ember.kernel.elements import load, load_one, mask_below, store
from ember.kernel.nests import close_loop, open_loop, sum_of_products
from ember.scalar.vectors import Vectors

UNROLLED = 4  # vectors that are added up side by side
PART = 128  # rows that are added up in single precision
Body = Callable[[str, str | None], list[str]]


class _Planes:
    """One channel of images: sums over it, and a pass that writes."""

    def __init__(self, b: Vectors, images: str, channels: str, length: str):
        self.b, self.images, self.length = b, images, length
        self.step = b.new(f"mul i64 {channels}, {length}")
        self.count = b.new(f"sitofp i64 {b.new(f'mul i64 {images}, {length}')} to double")

    def number(self, pointer: str, channel: str) -> str:
        """A channel's number in an array, as a double."""
        b = self.b
        return b.new(f"fpext float {b.new(f'load float, ptr {at(b, pointer, channel)}')} to double")

    def put(self, pointer: str, channel: str, value: str) -> None:
        """Store a channel's number."""
        single = self.b.new(f"fptrunc double {value} to float")
        self.b.do(f"store float {single}, ptr {at(self.b, pointer, channel)}")

    def first(self, pointer: str, channel: str) -> str:
        """The first element of a channel, in all lanes."""
        start = self.b.new(f"mul i64 {channel}, {self.length}")
        return load_one(self.b, "float", at(self.b, pointer, start))

    def plus(self, value: str, base: str) -> str:
        """A double and what is in all lanes of a vector."""
        one = self.b.new(f"extractelement {self.b.real} {base}, i64 0")
        return self.b.new(f"fadd double {value}, {self.b.new(f'fpext float {one} to double')}")

    def wide(self, value: str) -> str:
        """A double in all lanes, in single precision."""
        return self.b.splat(self.b.new(f"fptrunc double {value} to float"))

    def sums(self, channel: str, count: int, body: Body) -> list[str]:
        """Totals over the channel of the `count` values that a body makes of an offset."""
        b = self.b
        first = b.new(f"mul i64 {channel}, {self.length}")
        image = open_loop(b, "0", self.images, 1, (("double", "0.0"),) * count)
        start = sum_of_products(b, (image.index, self.step), (first, 1))
        zero = (b.real, b.number(0.0))
        stride = b.lanes * UNROLLED
        whole = b.new(f"and i64 {self.length}, {-stride}")
        loop = open_loop(b, "0", whole, stride, (zero,) * (count * UNROLLED))
        new = list(loop.carried)
        for part in range(UNROLLED):
            place = sum_of_products(b, (start, 1), (loop.index, 1), (str(part * b.lanes), 1))
            for which, value in enumerate(body(place, None)):
                at_ = part * count + which
                new[at_] = b.add(new[at_], value)
        found = close_loop(b, loop, new)
        joined = found[:count]
        for part in range(1, UNROLLED):
            more = found[part * count : (part + 1) * count]
            joined = [b.add(x, y) for x, y in zip(joined, more, strict=True)]
        rest = open_loop(b, whole, self.length, b.lanes, tuple((b.real, v) for v in joined))
        mask = mask_below(b, rest.index, self.length)
        values = body(sum_of_products(b, (start, 1), (rest.index, 1)), mask)
        none = b.number(0.0)
        new = [
            b.add(old, b.select(mask, value, none))
            for old, value in zip(rest.carried, values, strict=True)
        ]
        totals = []
        for old, total in zip(image.carried, close_loop(b, rest, new), strict=True):
            one = b.new(f"extractelement {b.real} {b.across(b.add, total)}, i64 0")
            totals.append(b.new(f"fadd double {old}, {b.new(f'fpext float {one} to double')}"))
        return close_loop(b, image, totals)

    def write(self, channel: str, pointer: str, body: Body) -> None:
        """Write what a body makes of each offset."""
        b = self.b
        first = b.new(f"mul i64 {channel}, {self.length}")
        image = open_loop(b, "0", self.images)
        start = sum_of_products(b, (image.index, self.step), (first, 1))
        whole = b.new(f"and i64 {self.length}, {-b.lanes}")
        for begin, end, masked in (("0", whole, False), (whole, self.length, True)):
            loop = open_loop(b, begin, end, b.lanes)
            mask = mask_below(b, loop.index, self.length) if masked else None
            place = sum_of_products(b, (start, 1), (loop.index, 1))
            (value,) = body(place, mask)
            store(b, "float", value, at(b, pointer, place), mask)
            close_loop(b, loop)
        close_loop(b, image)

    def mean(self, total: str) -> str:
        """A total over the number of elements."""
        return self.b.new(f"fdiv double {total}, {self.count}")

    def times(self, x: str, y: str) -> str:
        """A product of doubles."""
        return self.b.new(f"fmul double {x}, {y}")

    def inverse_root(self, variance: str, eps: str) -> str:
        """1 / √(variance + eps)."""
        b = self.b
        b.declarations.add("declare double @llvm.sqrt.f64(double)")
        small = b.new(f"fpext float {b.new(f'load float, ptr {eps}')} to double")
        total = b.new(f"fadd double {variance}, {small}")
        root = b.new(f"call double @llvm.sqrt.f64(double {total})")
        return b.new(f"fdiv double 1.0, {root}")


class _Rows:
    """A vector of columns of a matrix: the same as for planes, in all lanes."""

    def __init__(self, b: Vectors, rows: str, channels: str):
        self.b, self.rows, self.channels = b, rows, channels
        self.kind = f"<{b.lanes} x double>"
        single = b.new(f"sitofp i64 {rows} to double")
        self.count = self._all(single)
        self.mask = ""

    def _all(self, double: str) -> str:
        b, lanes = self.b, self.b.lanes
        one = b.new(f"insertelement {self.kind} poison, double {double}, i64 0")
        return b.new(
            f"shufflevector {self.kind} {one}, {self.kind} poison, <{lanes} x i32> zeroinitializer"
        )

    def number(self, pointer: str, channel: str) -> str:
        b = self.b
        value = load(b, "float", at(b, pointer, channel), self.mask)
        return b.new(f"fpext {b.real} {value} to {self.kind}")

    def first(self, pointer: str, channel: str) -> str:
        return load(self.b, "float", at(self.b, pointer, channel), self.mask)

    def plus(self, value: str, base: str) -> str:
        wide = self.b.new(f"fpext {self.b.real} {base} to {self.kind}")
        return self.b.new(f"fadd {self.kind} {value}, {wide}")

    def put(self, pointer: str, channel: str, value: str) -> None:
        store(self.b, "float", self.wide(value), at(self.b, pointer, channel), self.mask)

    def wide(self, value: str) -> str:
        return self.b.new(f"fptrunc {self.kind} {value} to {self.b.real}")

    def sums(self, channel: str, count: int, body: Body) -> list[str]:
        b = self.b
        part = open_loop(b, "0", self.rows, PART, ((self.kind, "zeroinitializer"),) * count)
        end = b.new(f"add i64 {part.index}, {PART}")
        inside = b.new(f"icmp slt i64 {end}, {self.rows}")
        last = b.new(f"select i1 {inside}, i64 {end}, i64 {self.rows}")
        row = open_loop(b, part.index, last, 1, ((b.real, b.number(0.0)),) * count)
        place = sum_of_products(b, (row.index, self.channels), (channel, 1))
        values = body(place, self.mask)
        new = [b.add(old, value) for old, value in zip(row.carried, values, strict=True)]
        totals = []
        for old, total in zip(part.carried, close_loop(b, row, new), strict=True):
            more = b.new(f"fpext {b.real} {total} to {self.kind}")
            totals.append(b.new(f"fadd {self.kind} {old}, {more}"))
        return close_loop(b, part, totals)

    def write(self, channel: str, pointer: str, body: Body) -> None:
        b = self.b
        row = open_loop(b, "0", self.rows)
        place = sum_of_products(b, (row.index, self.channels), (channel, 1))
        (value,) = body(place, self.mask)
        store(b, "float", value, at(b, pointer, place), self.mask)
        close_loop(b, row)

    def mean(self, total: str) -> str:
        return self.b.new(f"fdiv {self.kind} {total}, {self.count}")

    def times(self, x: str, y: str) -> str:
        return self.b.new(f"fmul {self.kind} {x}, {y}")

    def inverse_root(self, variance: str, eps: str) -> str:
        b, name = self.b, f"llvm.sqrt.v{self.b.lanes}f64"
        b.declarations.add(f"declare {self.kind} @{name}({self.kind})")
        small = self._all(b.new(f"fpext float {b.new(f'load float, ptr {eps}')} to double"))
        total = b.new(f"fadd {self.kind} {variance}, {small}")
        root = b.new(f"call {self.kind} @{name}({self.kind} {total})")
        one = self._all("1.0")
        return b.new(f"fdiv {self.kind} {one}, {root}")


Layout = _Planes | _Rows


def _forward(b: Vectors, layout: Layout, channel: str) -> None:
    """x %p0, weight %p1, bias %p2; out %p3, mean %p4, var %p5; eps %p6."""

    def x(place: str, mask: str | None) -> str:
        return load(b, "float", at(b, "%p0", place), mask)

    # Counted from the first element: sums of large numbers that differ little keep their digits.
    base = layout.first("%p0", channel)
    (total,) = layout.sums(channel, 1, lambda place, mask: [b.sub(x(place, mask), base)])
    mean = layout.plus(layout.mean(total), base)
    center = layout.wide(mean)

    def squared(place: str, mask: str | None) -> list[str]:
        above = b.sub(x(place, mask), center)
        return [b.mul(above, above)]

    (total,) = layout.sums(channel, 1, squared)
    variance = layout.mean(total)
    layout.put("%p4", channel, mean)
    layout.put("%p5", channel, variance)
    root = layout.inverse_root(variance, "%p6")
    scale = layout.wide(layout.times(root, layout.number("%p1", channel)))
    shift = layout.wide(layout.number("%p2", channel))
    layout.write(
        channel,
        "%p3",
        lambda place, mask: [b.fma(b.sub(x(place, mask), center), scale, shift)],
    )


def _backward(b: Vectors, layout: Layout, channel: str) -> None:
    """g %p0, x %p1, weight %p2, mean %p3, var %p4; out %p5, sum of g %p6, of g·(x − mean) %p7; eps
    %p8."""
    center = layout.wide(layout.number("%p3", channel))

    def given(place: str, mask: str | None) -> tuple[str, str]:
        g, x = (load(b, "float", at(b, pointer, place), mask) for pointer in ("%p0", "%p1"))
        return g, b.sub(x, center)

    def both(place: str, mask: str | None) -> list[str]:
        g, above = given(place, mask)
        return [g, b.mul(g, above)]

    total, along = layout.sums(channel, 2, both)
    layout.put("%p6", channel, total)
    layout.put("%p7", channel, along)
    root = layout.inverse_root(layout.number("%p4", channel), "%p8")
    scale = layout.wide(layout.times(root, layout.number("%p2", channel)))
    mean = layout.wide(layout.mean(total))
    slope = layout.wide(layout.times(layout.mean(along), layout.times(root, root)))

    def result(place: str, mask: str | None) -> list[str]:
        g, above = given(place, mask)
        return [b.mul(b.sub(b.sub(g, mean), b.mul(above, slope)), scale)]

    layout.write(channel, "%p5", result)


def _given(b: Vectors, layout: Layout, channel: str) -> None:
    """x %p0, weight %p1, bias %p2, mean %p3, var %p4; out %p5; eps %p6."""
    center = layout.wide(layout.number("%p3", channel))
    root = layout.inverse_root(layout.number("%p4", channel), "%p6")
    scale = layout.wide(layout.times(root, layout.number("%p1", channel)))
    shift = layout.wide(layout.number("%p2", channel))

    def result(place: str, mask: str | None) -> list[str]:
        return [b.fma(b.sub(load(b, "float", at(b, "%p0", place), mask), center), scale, shift)]

    layout.write(channel, "%p5", result)


FORWARD, BACKWARD, GIVEN = "forward", "backward", "given"
BODIES = {FORWARD: (_forward, 7), BACKWARD: (_backward, 9), GIVEN: (_given, 7)}


@lru_cache(maxsize=8)
def planes_text(lanes: int, which: str) -> str:
    """A builtin for channels begin..end; geometry: images, channels, and elements of a channel in
    an image."""
    b = Vectors("float", lanes)
    layout = _Planes(b, *sizes(b, 3))
    channel = open_loop(b, "%begin", "%end")
    body, count = BODIES[which]
    body(b, layout, channel.index)
    close_loop(b, channel)
    return module(b, count)


@lru_cache(maxsize=8)
def rows_text(lanes: int, which: str) -> str:
    """A builtin for vectors begin..end of channels; geometry: rows and channels."""
    b = Vectors("float", lanes)
    rows, channels = sizes(b, 2)
    layout = _Rows(b, rows, channels)
    block = open_loop(b, "%begin", "%end")
    first = b.new(f"mul i64 {block.index}, {lanes}")
    layout.mask = mask_below(b, first, channels)
    body, count = BODIES[which]
    body(b, layout, first)
    close_loop(b, block)
    return module(b, count)
