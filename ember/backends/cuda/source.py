"""CUDA C of calls: formulas over broadcast operands, row programs, reductions.

Three forms share one generator. map: a thread an element (several of them where everything is
contiguous). along: a warp or a block a row, whose last dim is contiguous in memory. across: a
thread a row, where neighbouring rows lie side by side. A reduction is a row program that stores one
value a row; long ones are cut into chunks whose partial results are reduced again.
"""

from __future__ import annotations

import math
import struct
from typing import Any, NamedTuple

from ember.backends.cuda.prelude import (
    C_TYPES,
    PLAIN,
    PRELUDE,
    REALS_ONLY,
    TEXTS,
    WHOLE_ONLY,
)
from ember.scalar.expr import Expr, topological
from ember.scalar.primitives import TABLE

MAP, ALONG, ACROSS = "map", "along", "across"
THREADS, ROW_THREADS = 256, 128  # of a block of a map, at least of one of rows
STORED = "const double*"  # the kind of a number that is read from the GPU's memory
COMPUTE = frozenset(
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float32 float64".split()
)
STARTS = {"add": "0", "mul": "1", "logical_and": "true", "logical_or": "false"}
COMBINES = {
    "add": "Add",
    "mul": "Mul",
    "maximum": "Max",
    "minimum": "Min",
    "logical_and": "And",
    "logical_or": "Or",
    "row_sum": "Add",
    "row_max": "Max",
    "row_min": "Min",
    "row_prod": "Mul",
    "row_all": "And",
    "row_any": "Or",
}
ROWS = {"add": "row_sum", "maximum": "row_max", "minimum": "row_min", "mul": "row_prod"}
ROWS |= {"logical_and": "row_all", "logical_or": "row_any"}
BOOLEAN = frozenset(
    "lt le gt ge eq ne logical_and logical_or logical_xor logical_not isnan isinf isfinite signbit "
    "row_all row_any".split()
)


class Input(NamedTuple):
    """A variable: an array of a dtype, or a number ("double", "long long" or STORED)."""

    name: str
    kind: str  # a dtype's name, or that of a number
    kept: bool = False  # used as it is, not cast to the computed type

    @property
    def is_array(self) -> bool:
        """Whether it is an array."""
        return self.kind in C_TYPES


class Program(NamedTuple):
    """What is compiled. `outer` and `row` are numbers of dims; a contiguous map has neither.
    `dtype` is the computed one, `outs` the stored ones; `threads` work on a row (along)."""

    roots: tuple[Expr, ...]
    inputs: tuple[Input, ...]
    outs: tuple[str, ...]
    dtype: str
    form: str
    outer: int = 0
    row: int = 0
    threads: int = 32
    wide: int = 1  # elements a thread, of a contiguous map
    total: bool = False  # stores one value a row
    large: bool = False  # indices need 64 bits
    packs: tuple[bool, ...] = ()  # which arrays are read and written `wide` elements at a time
    keep: int = 0  # packs of a row that a thread keeps in registers


def supported(roots: tuple[Expr, ...], inputs: tuple[Input, ...], dtype: str) -> bool:
    """Whether a formula can be written in CUDA C."""
    real = dtype in ("float32", "float64")
    if dtype not in COMPUTE:
        return False
    for i in inputs:
        if i.kept and i.kind not in ("bool", dtype):
            return False
    for node in topological(roots):
        op = node.op
        if op in ("var", "row_size") or (op in COMBINES and op.startswith("row_")):
            continue
        if op == "const":
            whole = isinstance(node.value, (bool, int)) or float(node.value).is_integer()
            if isinstance(node.value, complex) or not (real or whole):
                return False
        elif not _written(op, real):
            return False
    return True


def _written(op: str, real: bool) -> bool:
    """Whether a primitive has C++ text, for reals or for whole numbers."""
    if op not in PLAIN and op not in TEXTS:
        return False
    return op not in (WHOLE_ONLY if real else REALS_ONLY)


class Source:
    """Writes one kernel."""

    def __init__(self, program: Program):
        self.p = program
        self.index = "u64" if program.large else "u32"
        self.order = topological(program.roots)
        self.arrays = [i for i in program.inputs if i.is_array]
        self.numbers = [i for i in program.inputs if not i.is_array]
        self.named = {i.name: i for i in program.inputs}
        self.stages: dict[Expr, int] = {}
        for node in self.order:
            below = max((self.stages[a] for a in node.args), default=0)
            self.stages[node] = below + (node.op in COMBINES and node.op.startswith("row_"))
        self.last = max(self.stages[r] for r in program.roots)
        self.names = {node: f"v{i}" for i, node in enumerate(self.order)}

    def text(self) -> str:
        """The whole translation unit."""
        p = self.p
        parameters = [f"const {C_TYPES[a.kind]}* __restrict__ a{i}" for i, a in self._numbered()]
        parameters += [f"{C_TYPES[o]}* o{i}" for i, o in enumerate(p.outs)]
        parameters += [f"{n.kind} s{i}" for i, n in enumerate(self.numbers)]
        parameters += [f"{self.index} {name}" for name in self.geometry()]
        body = {MAP: self._map, ALONG: self._rows, ACROSS: self._rows}[p.form]()
        compute = C_TYPES[p.dtype]
        return (
            f"{PRELUDE}\ntypedef {compute} T;\ntypedef {self.index} I;\n"
            f'extern "C" __global__ __launch_bounds__({self.block()}) '
            f"void kernel({', '.join(parameters)}) {{\n{body}}}\n"
        )

    def block(self) -> int:
        """The threads of a block; told to the compiler, whose kernels may use fewer registers the
        more there are."""
        if self.p.form == MAP:
            return THREADS
        return max(self.p.threads, ROW_THREADS) if self.p.form == ALONG else ROW_THREADS

    def _numbered(self) -> list[tuple[int, Input]]:
        return list(enumerate(self.arrays))

    def geometry(self) -> list[str]:
        """The integer parameters, in order: counts, sizes of dims, strides of arrays and outs."""
        p = self.p
        if p.form == MAP and not p.outer:
            return ["n"]
        total = len(self.arrays) + len(p.outs)
        found = ["n"] if p.form == MAP else ["rows", "n", "chunk"]
        found += [f"size{d}" for d in range(p.outer)]
        found += [f"length{d}" for d in range(p.row)]
        for i in range(total):
            found += [f"stride{i}_{d}" for d in range(p.outer)]
            found += [f"step{i}_{d}" for d in range(p.row)]
        return found

    # values

    def _is_boolean(self, node: Expr) -> bool:
        if node.op == "var":
            return self.named[node.value].kind == "bool" and (
                self.named[node.value].kept or self.p.dtype == "bool"
            )
        if node.op == "const":
            return isinstance(node.value, bool)
        if node.op == "where":
            return all(self._is_boolean(a) for a in node.args[1:])
        if node.op == "stop":
            return self._is_boolean(node.args[0])
        return node.op in BOOLEAN

    def _constant(self, value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if self.p.dtype not in ("float32", "float64"):
            return f"(T){int(value)}LL"
        number = float(value)
        if math.isfinite(number):
            return f"(T){number!r}"
        bits = struct.unpack("<q", struct.pack("<d", number))[0]
        return f"(T)__longlong_as_double({bits}LL)"

    def _value(self, node: Expr, offsets: dict[int, str], element: str) -> str:
        """The text of a node's value; `offsets` says where each array's element is."""
        if node.op == "var":
            given = self.named[node.value]
            if not given.is_array:
                star = "*" if given.kind == STORED else ""
                return f"(T){star}s{self.numbers.index(given)}"
            position = self.arrays.index(given)
            kind = C_TYPES[given.kind] if given.kept else "T"
            return f"Cast<{kind}>::of({self._loaded(position, offsets, element)})"
        if node.op == "const":
            return self._constant(node.value)
        if node.op == "row_size":
            return "(T)n"
        arguments = [self.names[a] for a in node.args]
        if node.op == "bitwise_not" and self.p.dtype == "bool":
            return f"!{arguments[0]}"
        template = TEXTS.get(node.op) or TABLE[node.op].c
        return template.format(*arguments)

    def _loaded(self, position: int, offsets: dict[int, str], element: str) -> str:
        """An array's element: of the pack that was read, or from memory."""
        return f"in{position}.at[lane]" if element else f"a{position}[{offsets[position]}]"

    def _statements(
        self, nodes: list[Expr], known: set[Expr], offsets: dict[int, str], pad: str, element: str
    ) -> str:
        lines = []
        for node in nodes:
            if node in known or (node.op.startswith("row_") and node.op != "row_size"):
                continue
            known.add(node)
            kind = "bool" if self._is_boolean(node) else "T"
            if node.op == "var" and self.named[node.value].kept:
                kind = C_TYPES[self.named[node.value].kind]
            lines.append(
                f"{pad}const {kind} {self.names[node]} = {self._value(node, offsets, element)};\n"
            )
        return "".join(lines)

    # maps

    def _map(self) -> str:
        p = self.p
        if not p.outer:
            return self._contiguous()
        total = len(self.arrays) + len(p.outs)
        offsets = {i: f"at{i}" for i in range(total)}
        walk = self._offsets("i", "size", "stride", p.outer, range(total), "    ", "at", "rest")
        body = self._statements(self.order, set(), offsets, "    ", "")
        for i, (out, root) in enumerate(zip(p.outs, p.roots, strict=True)):
            place = f"o{i}[at{len(self.arrays) + i}]"
            body += f"    {place} = Cast<{C_TYPES[out]}>::of({self.names[root]});\n"
        return f"""  for (I i = blockIdx.x * (I)blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * (I)blockDim.x) {{
{walk}{body}  }}
"""

    def _offsets(
        self,
        index: str,
        size: str,
        stride: str,
        dims: int,
        arrays: Any,
        pad: str,
        name: str,
        rest: str,
    ) -> str:
        """Lines that turn an index into an offset of every array, last dim first."""
        arrays = list(arrays)
        lines = [f"{pad}I {rest} = {index};\n"]
        lines += [f"{pad}I {name}{i} = 0;\n" for i in arrays]
        for d in reversed(range(dims)):
            if d:
                lines.append(
                    f"{pad}{{ const I q = {rest} / {size}{d}, r = {rest} - q * {size}{d}; "
                    f"{rest} = q;\n"
                )
            else:
                lines.append(f"{pad}{{ const I r = {rest};\n")
            lines += [f"{pad}  {name}{i} += r * {stride}{i}_{d};\n" for i in arrays]
            lines.append(f"{pad}}}\n")
        return "".join(lines)

    def _contiguous(self) -> str:
        """Packs of `wide` elements, then the rest one by one; arrays of one element are read with
        stride 0 by being kept numbers of the caller."""
        p, w = self.p, self.p.wide
        loads = "".join(
            f"    const Pack<{C_TYPES[a.kind]}, {w}> in{i} = "
            f"*(const Pack<{C_TYPES[a.kind]}, {w}>*)(a{i} + i);\n"
            for i, a in self._numbered()
        )
        made = "".join(f"    Pack<{C_TYPES[o]}, {w}> out{i};\n" for i, o in enumerate(p.outs))
        pack = self._statements(self.order, set(), {}, "      ", "pack")
        for i, (out, root) in enumerate(zip(p.outs, p.roots, strict=True)):
            pack += f"      out{i}.at[lane] = Cast<{C_TYPES[out]}>::of({self.names[root]});\n"
        stores = "".join(
            f"    *(Pack<{C_TYPES[o]}, {w}>*)(o{i} + i) = out{i};\n" for i, o in enumerate(p.outs)
        )
        offsets = dict.fromkeys(range(len(self.arrays)), "i")
        single = self._statements(self.order, set(), offsets, "    ", "")
        for i, (out, root) in enumerate(zip(p.outs, p.roots, strict=True)):
            single += f"    o{i}[i] = Cast<{C_TYPES[out]}>::of({self.names[root]});\n"
        return f"""  const I stride = gridDim.x * (I)blockDim.x, whole = n / {w} * {w};
  const I first = blockIdx.x * (I)blockDim.x + threadIdx.x;
  for (I i = first * {w}; i < whole; i += stride * {w}) {{
{loads}{made}    #pragma unroll
    for (int lane = 0; lane < {w}; ++lane) {{
{pack}    }}
{stores}  }}
  for (I i = whole + first; i < n; i += stride) {{
{single}  }}
"""

    # rows

    def _needed(self, stage: int) -> list[Expr]:
        ends = [n.args[0] for n in self.order if self._is_total(n) and self.stages[n] == stage + 1]
        if stage == self.last:
            ends += list(self.p.roots)
        found: list[Expr] = []

        def visit(node: Expr) -> None:
            if node in found:
                return
            if not self._is_total(node):
                for a in node.args:
                    visit(a)
            found.append(node)

        for end in ends:
            visit(end)
        return found

    def _is_total(self, node: Expr) -> bool:
        return node.op.startswith("row_") and node.op != "row_size"

    def _rows(self) -> str:
        p = self.p
        total = len(self.arrays) + len(p.outs)
        reads = range(len(self.arrays)) if p.total else range(total)
        along = p.form == ALONG
        starts = self._offsets("row", "size", "stride", p.outer, reads, "    ", "start", "rest")
        kinds = sorted({self._kind(n) for n in self.order if self._is_total(n)})
        lines = [f"  __shared__ {k} shared_{k}[32];\n" for k in kinds] if along else []
        if along:
            lines.append(
                f"  const I each = blockDim.x / {p.threads};\n"
                f"  const u32 mine = threadIdx.x % {p.threads};\n"
                f"  for (I row = blockIdx.x * each + threadIdx.x / {p.threads}; row < rows;\n"
                "       row += gridDim.x * each) {\n"
            )
        else:
            lines.append(
                "  for (I row = blockIdx.x * (I)blockDim.x + threadIdx.x; row < rows;\n"
                "       row += gridDim.x * (I)blockDim.x) {\n"
            )
        lines.append(starts)
        if p.total:
            lines.append(
                "    const I first = blockIdx.y * chunk;\n"
                "    const I end = first + chunk < n ? first + chunk : n;\n"
            )
        else:
            lines.append("    const I first = 0, end = n;\n")
        stages = range(self.last) if p.total else range(self.last + 1)
        for stage in stages:
            lines.append(self._stage(stage, reads, along))
        if p.total:
            lines.append(self._store_total(along))
        lines.append("  }\n")
        return "".join(lines)

    def _kind(self, node: Expr) -> str:
        return "bool" if node.op in ("row_all", "row_any") else "T"

    def _stage(self, stage: int, reads: Any, along: bool) -> str:
        p = self.p
        totals = [n for n in self.order if self._is_total(n) and self.stages[n] == stage + 1]
        lines = []
        for node in totals:
            lines.append(f"    {self._kind(node)} {self.names[node]}_ = {self._start(node)};\n")
        step = f"e += {p.threads}" if along else "++e"
        begin = "first + mine" if along else "first"
        lines.append(f"    #pragma unroll 8\n    for (I e = {begin}; e < end; {step}) {{\n")
        walk = self._offsets("e", "length", "step", p.row, reads, "      ", "at", "left")
        lines.append(walk)
        lines += [f"      at{i} += start{i};\n" for i in reads]
        offsets = {i: f"at{i}" for i in reads}
        needed = self._needed(stage)
        known = {n for n in needed if self._is_total(n)}
        lines.append(self._statements(needed, known, offsets, "      ", ""))
        for node in totals:
            name, value = self.names[node], self.names[node.args[0]]
            lines.append(f"      {name}_ = {COMBINES[node.op]}::of({name}_, {value});\n")
        if stage == self.last:
            for i, (out, root) in enumerate(zip(p.outs, p.roots, strict=True)):
                place = f"o{i}[at{len(self.arrays) + i}]"
                lines.append(f"      {place} = Cast<{C_TYPES[out]}>::of({self.names[root]});\n")
        lines.append("    }\n")
        for node in totals:
            name, kind = self.names[node], self._kind(node)
            if along:
                how = f"combined<{COMBINES[node.op]}, {p.threads}>"
                lines.append(
                    f"    const {kind} {name} = {how}({name}_, ({kind}){self._start(node)}, "
                    f"shared_{kind});\n"
                )
            else:
                lines.append(f"    const {kind} {name} = {name}_;\n")
        return "".join(lines)

    def _start(self, node: Expr) -> str:
        how = COMBINES[node.op]
        if how in ("Add", "Mul"):
            return "(T)0" if how == "Add" else "(T)1"
        if how in ("And", "Or"):
            return "true" if how == "And" else "false"
        return self.extreme(how)

    def extreme(self, how: str) -> str:
        """What a maximum or minimum starts from."""
        dtype, greatest = self.p.dtype, how == "Max"
        if dtype in ("float32", "float64"):
            return "(T)-INF" if greatest else "(T)INF"
        if dtype == "bool":
            return "false" if greatest else "true"
        bits = int(dtype.lstrip("uint"))
        if dtype.startswith("u"):
            return "(T)0" if greatest else f"(T){(1 << bits) - 1}ULL"
        low = f"(T)(-{(1 << (bits - 1)) - 1}LL - 1)"
        return low if greatest else f"(T){(1 << (bits - 1)) - 1}LL"

    def _store_total(self, along: bool) -> str:
        p = self.p
        values = self._statements(
            self._needed(self.last),
            {n for n in self.order if self._is_total(n)},
            {},
            "    ",
            "",
        )
        lines = [values]
        guard = "if (mine == 0) " if along else ""
        for i, (out, root) in enumerate(zip(p.outs, p.roots, strict=True)):
            lines.append(
                f"    {guard}o{i}[blockIdx.y * (u64)rows + row] = "
                f"Cast<{C_TYPES[out]}>::of({self.names[root]});\n"
            )
        return "".join(lines)
