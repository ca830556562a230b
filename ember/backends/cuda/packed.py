"""Kernels that read and write 16 bytes at a time.

Two forms: maps of broadcast arrays whose last dim is contiguous or repeated in each of them, and
rows. A row that fits in the registers of its warp or block is read once, however often its formula
walks it.
"""

from __future__ import annotations

from functools import lru_cache

from ember.backends.cuda.prelude import C_TYPES
from ember.backends.cuda.source import COMBINES, MAP, Program, Source
from ember.kernel.dims import Dim

KEPT = 32  # registers of a thread that may hold its part of a row
THREADS_OF_A_ROW = (32, 128, 256, 512, 1024)
SIZES = {"bool": 1, "int8": 1, "uint8": 1, "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2}
SIZES |= {"float64": 8, "int64": 8, "uint64": 8}  # bytes, where they are not four


def source_text(program: Program) -> str:
    """The translation unit of a program."""
    return (PackedSource if program.packs else Source)(program).text()


def widest(kinds: list[str], packs: tuple[bool, ...], dims: list[Dim]) -> int:
    """How many elements a thread can take at once along the last dim: 8, 4, 2 or 1. All other
    strides of what is packed are multiples of it."""
    smallest = min(SIZES.get(k, 4) for k in kinds)
    wide = 8 if smallest < 4 else 4
    while wide > 1:
        others = [s for d in dims[:-1] for s, packed in zip(d.strides, packs) if packed]
        if not dims[-1].size % wide and not any(s % wide for s in others):
            break
        wide //= 2
    return wide


@lru_cache(4096)
def _bytes_kept(program: Program) -> int:
    """The bytes that one element takes in each of the arrays that are read more than once."""
    source = PackedSource(program)
    return sum(SIZES.get(a.kind, 4) for i, a in enumerate(source.arrays) if i in source.kept)


def plan_rows(program: Program, length: int) -> tuple[int, int]:
    """(threads of a row, packs of each that are kept; 0 where a row is too long for that)."""
    bytes_kept = _bytes_kept(program)
    for threads in THREADS_OF_A_ROW:
        packs = -(-length // (threads * program.wide))
        if packs * program.wide * bytes_kept <= 4 * KEPT and packs <= KEPT:
            return threads, packs
    return 1024, 0


class PackedSource(Source):
    """Writes one kernel; `packs` of the program says which arrays and outs are packed."""

    def __init__(self, program: Program):
        super().__init__(program)
        self.uses: dict[int, set[int]] = {}  # the stages that read each packed array
        if program.form != MAP:
            for stage in range(self.last + 1 - program.total):
                for position in self._read(stage):
                    self.uses.setdefault(position, set()).add(stage)
        self.kept = {i for i, stages in self.uses.items() if len(stages) > 1}

    def _read(self, stage: int) -> list[int]:
        found = [self.arrays.index(self.named[n.value]) for n in self._needed(stage)
                 if n.op == "var" and self.named[n.value].is_array]  # fmt: skip
        return [i for i in found if self.p.packs[i]]

    def _loaded(self, position: int, offsets: dict[int, str], element: str) -> str:
        if not self.p.packs[position]:
            return f"a{position}[{offsets[position]}]"
        kept = self.p.keep and position in self.kept
        return f"in{position}{'[k]' if kept else ''}.at[lane]"

    def _pack(self, position: int) -> str:
        return f"Pack<{C_TYPES[self.arrays[position].kind]}, {self.p.wide}>"

    def _packed_outs(self, pad: str) -> tuple[str, str, str]:
        """Lines that declare packs of results, fill a lane of them, and store them."""
        p, declared, filled, stored = self.p, "", "", ""
        for i, (out, root) in enumerate(zip(p.outs, p.roots, strict=True)):
            position, kind = len(self.arrays) + i, C_TYPES[out]
            value = f"Cast<{kind}>::of({self.names[root]})"
            if p.packs[position]:
                declared += f"{pad}Pack<{kind}, {p.wide}> out{i};\n"
                filled += f"{pad}  out{i}.at[lane] = {value};\n"
                stored += f"{pad}*(Pack<{kind}, {p.wide}>*)(o{i} + at{position}) = out{i};\n"
            else:
                step = f"step{position}_{p.row - 1}"
                filled += f"{pad}  o{i}[at{position} + lane * {step}] = {value};\n"
        return declared, filled, stored

    def _map(self) -> str:
        p = self.p
        total = len(self.arrays) + len(p.outs)
        walk = self._offsets("i", "size", "stride", p.outer, range(total), "    ", "at", "rest")
        loads = "".join(
            f"    const {self._pack(i)} in{i} = *(const {self._pack(i)}*)(a{i} + at{i});\n"
            for i in range(len(self.arrays))
            if p.packs[i]
        )
        offsets = {i: f"at{i}" for i in range(total)}
        declared, filled, stored = self._packed_outs("    ")
        body = self._statements(self.order, set(), offsets, "      ", "pack")
        return f"""  for (I i = blockIdx.x * (I)blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * (I)blockDim.x) {{
{walk}{loads}{declared}    #pragma unroll
    for (int lane = 0; lane < {p.wide}; ++lane) {{
{body}{filled}    }}
{stored}  }}
"""

    # rows

    def _rows(self) -> str:
        p = self.p
        reads = range(len(self.arrays) + (0 if p.total else len(p.outs)))
        kinds = sorted({self._kind(n) for n in self.order if self._is_total(n)})
        shared = "".join(f"  __shared__ {k} shared_{k}[32];\n" for k in kinds)
        starts = self._offsets("row", "size", "stride", p.outer, reads, "    ", "start", "rest")
        first, end = "0", "n"
        if p.total:
            first, end = "blockIdx.y * chunk", "first + chunk < n ? first + chunk : n"
        stages = range(self.last + (0 if p.total else 1))
        body = "".join(self._stage(stage, reads, True) for stage in stages)
        if p.total:
            body += self._store_total(True)
        return f"""  enum {{ THREADS = {p.threads}, KEEP = {max(p.keep, 1)} }};
{shared}  const I each = blockDim.x / THREADS;
  const u32 mine = threadIdx.x % THREADS;
  for (I row = blockIdx.x * each + threadIdx.x / THREADS; row < rows; row += gridDim.x * each) {{
{starts}    const I first = {first}, end = {end};
{self._keep(reads)}{body}  }}
"""

    def _keep(self, reads: range) -> str:
        """Lines that read what is kept of a row."""
        kept = sorted(self.kept) if self.p.keep else []
        if not kept:
            return ""
        lines = "".join(f"    {self._pack(i)} in{i}[KEEP];\n" for i in kept)
        loads = "".join(
            f"        in{i}[k] = *(const {self._pack(i)}*)(a{i} + at{i});\n" for i in kept
        )
        return f"{lines}{self._loop()}{self._walk(kept)}{loads}      }}\n    }}\n"

    def _loop(self) -> str:
        """The head of a loop over the packs of a row; two braces open."""
        wide = self.p.wide
        if self.p.keep:
            return f"""    #pragma unroll
    for (int k = 0; k < KEEP; ++k) {{
      const I e = first + (k * THREADS + mine) * {wide};
      if (e < end) {{
"""
        return f"""    #pragma unroll 4
    for (I e = first + mine * {wide}; e < end; e += THREADS * {wide}) {{
      {{
"""

    def _walk(self, arrays: list[int]) -> str:
        walk = self._offsets("e", "length", "step", self.p.row, arrays, "        ", "at", "left")
        return walk + "".join(f"        at{i} += start{i};\n" for i in arrays)

    def _stage(self, stage: int, reads: range, along: bool) -> str:
        p, last = self.p, self.p.row - 1
        totals = [n for n in self.order if self._is_total(n) and self.stages[n] == stage + 1]
        head = "".join(
            f"    {self._kind(n)} {self.names[n]}_ = {self._start(n)};\n" for n in totals
        )
        loads = "".join(
            f"        const {self._pack(i)} in{i} = *(const {self._pack(i)}*)(a{i} + at{i});\n"
            for i in sorted(set(self._read(stage)))
            if not (p.keep and i in self.kept)
        )
        offsets = {i: f"at{i} + lane * step{i}_{last}" for i in reads}
        needed = self._needed(stage)
        known = {n for n in needed if self._is_total(n)}
        inside = self._statements(needed, known, offsets, "          ", "pack")
        for node in totals:
            name, value = self.names[node], self.names[node.args[0]]
            inside += f"          {name}_ = {COMBINES[node.op]}::of({name}_, {value});\n"
        declared = stored = ""
        if stage == self.last:
            declared, filled, stored = self._packed_outs("        ")
            inside += filled
        after = ""
        for node in totals:
            name, kind = self.names[node], self._kind(node)
            after += (
                f"    const {kind} {name} = combined<{COMBINES[node.op]}, THREADS>({name}_, "
                f"({kind}){self._start(node)}, shared_{kind});\n"
            )
        before = f"{head}{self._loop()}{self._walk(list(reads))}{loads}{declared}"
        return f"""{before}        #pragma unroll
        for (int lane = 0; lane < {p.wide}; ++lane) {{
{inside}        }}
{stored}      }}
    }}
{after}"""
