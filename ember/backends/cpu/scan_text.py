"""Running sums and products of float32 rows as an LLVM function: double precision, a vector at a
time.

A vector of doubles is scanned by shifts of 1, 2, 4 ... lanes; the last lane is carried on.
"""

from __future__ import annotations

from ember.kernel.elements import mask_below
from ember.kernel.python_call import python_call
from ember.scalar.vectors import Vectors


def _shifted(b: Vectors, value: str, by: int, start: str) -> str:
    """The lanes moved up by a number of places, with `start` in the free ones."""
    places = ", ".join(f"i32 {lane}" for lane in _places(b.lanes, by))
    return b.new(f"shufflevector {b.real} {value}, {b.real} {start}, <{b.lanes} x i32> <{places}>")


def _places(lanes: int, by: int) -> list[int]:
    return [lanes if lane < by else lane - by for lane in range(lanes)]


def _vector(b: Vectors, op: str, start: str, index: str, carried: str, masked: bool) -> str:
    """Scan the vector at an index; what is carried on."""
    narrow = f"<{b.lanes} x float>"
    address = b.new(f"getelementptr float, ptr %from, i64 {index}")
    target = b.new(f"getelementptr float, ptr %to, i64 {index}")
    suffix = f"v{b.lanes}f32.p0"
    if masked:
        mask = mask_below(b, index, "%n")
        b.declarations.add(
            f"declare {narrow} @llvm.masked.load.{suffix}(ptr, i32, {b.truth}, {narrow})"
        )
        b.declarations.add(
            f"declare void @llvm.masked.store.{suffix}({narrow}, ptr, i32, {b.truth})"
        )
        found = b.new(
            f"call {narrow} @llvm.masked.load.{suffix}(ptr {address}, i32 4, {b.truth} {mask}, "
            f"{narrow} zeroinitializer)"
        )
    else:
        found = b.new(f"load {narrow}, ptr {address}, align 4")
    value = b.new(f"fpext {narrow} {found} to {b.real}")
    by = 1
    while by < b.lanes:
        value = b.new(f"{op} {b.real} {_shifted(b, value, by, start)}, {value}")
        by *= 2
    value = b.new(f"{op} {b.real} {carried}, {value}")
    rounded = b.new(f"fptrunc {b.real} {value} to {narrow}")
    if masked:
        b.do(
            f"call void @llvm.masked.store.{suffix}({narrow} {rounded}, ptr {target}, i32 4, "
            f"{b.truth} {mask})"
        )
    else:
        b.do(f"store {narrow} {rounded}, ptr {target}, align 4")
    last = ", ".join([f"i32 {b.lanes - 1}"] * b.lanes)
    return b.new(f"shufflevector {b.real} {value}, {b.real} poison, <{b.lanes} x i32> <{last}>")


def scan_text(op: str, lanes: int) -> str:
    """The module: `builtin(from, to, geometry, scratch, begin, end)` scans rows begin..end with
    "fadd" or "fmul"; geometry holds the length of a row. Rows are dense and follow each other."""
    b = Vectors("double", lanes)
    start = b.number(0.0 if op == "fadd" else 1.0)
    b.lines.append(
        f"""entry:
  %n = load i64, ptr %geometry
  %whole = and i64 %n, {-lanes}
  %rest = icmp slt i64 %whole, %n
  br label %rows
rows:
  %row = phi i64 [ %begin, %entry ], [ %nextrow, %rowend ]
  %more = icmp slt i64 %row, %end
  br i1 %more, label %rowstart, label %done
rowstart:
  %offset = mul i64 %row, %n
  %from = getelementptr float, ptr %p0, i64 %offset
  %to = getelementptr float, ptr %p1, i64 %offset
  br label %loop
loop:
  %i = phi i64 [ 0, %rowstart ], [ %nexti, %body ]
  %carry = phi {b.real} [ {start}, %rowstart ], [ %carried, %body ]
  %inside = icmp slt i64 %i, %whole
  br i1 %inside, label %body, label %tail
body:"""
    )
    carried = _vector(b, op, start, "%i", "%carry", False)
    text = "\n".join(b.lines).replace("%carried", carried)  # known only now
    b.lines = [text]
    b.lines.append(
        f"""  %nexti = add i64 %i, {lanes}
  br label %loop
tail:
  br i1 %rest, label %masked, label %rowend
masked:"""
    )
    _vector(b, op, start, "%i", "%carry", True)
    b.lines.append(
        """  br label %rowend
rowend:
  %nextrow = add i64 %row, 1
  br label %rows
done:
  ret void
}"""
    )
    declared = "\n".join(sorted(b.declarations))
    body = "\n".join(b.lines)
    return (
        f"{declared}\ndefine internal void @loop(ptr %p0, ptr %p1, ptr %geometry, ptr %scratch, "
        f"i64 %begin, i64 %end) {{\n{body}\n{python_call(2, 0, 'double')}"
    )
