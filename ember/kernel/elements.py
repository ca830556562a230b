"""How vectors come from memory and go back: the element types, masks, and the roundings of half
precision."""

from __future__ import annotations

from ember.scalar.vectors import Vectors

SIZES = {"float": 4, "double": 8, "half": 2, "bfloat": 2, "bool": 1}
STORED = {"bfloat": "i16", "bool": "i8"}  # LLVM's type in memory, where it has another name
SUFFIXES = {"float": "f32", "double": "f64", "half": "f16"}


def place(b: Vectors, element: str, base: str, offset: str) -> str:
    """The address of an element."""
    kind = STORED.get(element, element)
    return b.new(f"getelementptr {kind}, ptr {base}, i64 {offset}")


def mask_below(b: Vectors, index: str, limit: str) -> str:
    """Which lanes of the vector that starts at `index` are below a limit."""
    lanes = b.lanes
    left = b.new(f"sub i64 {limit}, {index}")
    narrow = b.new(f"trunc i64 {left} to i32")
    bounded = b.new(f"icmp sgt i64 {left}, {lanes}")
    few = b.new(f"select i1 {bounded}, i32 {lanes}, i32 {narrow}")
    wide = b.splat(few, "i32")
    steps = ", ".join(f"i32 {lane}" for lane in range(lanes))
    return b.new(f"icmp slt <{lanes} x i32> <{steps}>, {wide}")


def load(b: Vectors, element: str, address: str, mask: str | None) -> str:
    """A vector in the computed type (truth values for bool); 0 where the mask is off."""
    kind, align = STORED.get(element, element), SIZES[element]
    vector = f"<{b.lanes} x {kind}>"
    if mask is None:
        return _widened(b, element, b.new(f"load {vector}, ptr {address}, align {align}"))
    name = f"llvm.masked.load.v{b.lanes}{SUFFIXES.get(kind, kind)}.p0"
    b.declarations.add(f"declare {vector} @{name}(ptr, i32, {b.truth}, {vector})")
    value = b.new(
        f"call {vector} @{name}(ptr {address}, i32 {align}, {b.truth} {mask}, "
        f"{vector} zeroinitializer)"
    )
    return _widened(b, element, value)


def load_one(b: Vectors, element: str, address: str) -> str:
    """One element in all lanes."""
    kind = STORED.get(element, element)
    scalar = b.new(f"load {kind}, ptr {address}, align {SIZES[element]}")
    return _widened(b, element, b.splat(scalar, kind))


def store(b: Vectors, element: str, value: str, address: str, mask: str | None) -> None:
    """Write a vector, rounded to the element type, where the mask is on."""
    kind, align = STORED.get(element, element), SIZES[element]
    vector = f"<{b.lanes} x {kind}>"
    if element == "bool":
        value = b.new(f"zext {b.truth} {value} to {vector}")
    elif element == "half":
        value = b.new(f"fptrunc {b.real} {value} to {vector}")
    elif element == "bfloat":
        value = _to_bfloat(b, value)
    if mask is None:
        b.do(f"store {vector} {value}, ptr {address}, align {align}")
        return
    name = f"llvm.masked.store.v{b.lanes}{SUFFIXES.get(kind, kind)}.p0"
    b.declarations.add(f"declare void @{name}({vector}, ptr, i32, {b.truth})")
    b.do(f"call void @{name}({vector} {value}, ptr {address}, i32 {align}, {b.truth} {mask})")


def _widened(b: Vectors, element: str, value: str) -> str:
    """A loaded vector in the computed type."""
    if element == "bool":
        return b.new(f"icmp ne <{b.lanes} x i8> {value}, zeroinitializer")
    if element == "half":
        return b.new(f"fpext <{b.lanes} x half> {value} to {b.real}")
    if element == "bfloat":
        bits = b.new(f"zext <{b.lanes} x i16> {value} to {b.whole}")
        return b.from_bits(b.on_bits("shl", bits, b.integer(16)))
    return value


def _to_bfloat(b: Vectors, value: str) -> str:
    """Round to nearest, ties to even; NaN stays one."""
    bits = b.as_bits(value)
    odd = b.on_bits("and", b.on_bits("lshr", bits, b.integer(16)), b.integer(1))
    rounded = b.on_bits("add", b.on_bits("add", bits, b.integer(0x7FFF)), odd)
    quiet = b.on_bits("or", bits, b.integer(0x400000))
    chosen = b.select(b.unordered(value, value), quiet, rounded, b.whole)
    top = b.on_bits("lshr", chosen, b.integer(16))
    return b.new(f"trunc {b.whole} {top} to <{b.lanes} x i16>")
