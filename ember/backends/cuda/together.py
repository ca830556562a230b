"""One kernel for a formula over several sets of arrays of any sizes: a table in the GPU's memory
says where they are, and which part of which set each block works on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ember.backends.cuda.prelude import C_TYPES, PRELUDE
from ember.backends.cuda.source import MAP, STORED, THREADS, Input, Program, Source
from ember.kernel.array import Spec
from ember.kernel.call import MapCall

PART = 8192  # elements that a block does at a time
KINDS = {"double": "d", "long long": "q", STORED: "p"}  # of arguments that are numbers


def inputs_of(call: MapCall, asked: frozenset[int]) -> tuple[Input, ...] | None:
    """The variables of a formula, those at the positions `asked` being numbers in the GPU's memory;
    None where one has no C type."""
    found = []
    for position, (spec, name) in enumerate(zip(call.in_specs, call.names, strict=True)):
        if position in asked:
            found.append(Input(name, STORED))
        elif isinstance(spec, Spec):
            if spec.dtype.name not in C_TYPES:
                return None
            found.append(Input(name, spec.dtype.name, name in call.keeps))
        elif isinstance(spec, type) and issubclass(spec, float):  # those of a recording too
            found.append(Input(name, "double"))
        elif spec in (int, bool):
            found.append(Input(name, "long long"))
        else:
            return None
    return tuple(found)


class TableSource(Source):
    """Writes the kernel of a contiguous map whose arrays a table names."""

    def text(self) -> str:
        """The whole translation unit."""
        p, columns = self.p, len(self.arrays) + len(self.p.outs)
        names = "".join(f", {n.kind} s{i}" for i, n in enumerate(self.numbers))
        places = [f"const {C_TYPES[a.kind]}* __restrict__ a{i}" for i, a in self._numbered()]
        places += [f"{C_TYPES[o]}* o{i}" for i, o in enumerate(p.outs)]
        lines = "".join(
            f"    {place} = ({place.rsplit(' ', 1)[0].replace('__restrict__', '')})row[{i}] + at;\n"
            for i, place in enumerate(places)
        )
        body = self._contiguous().replace("gridDim.x * (I)blockDim.x", "(I)blockDim.x")
        body = body.replace("blockIdx.x * (I)blockDim.x + threadIdx.x", "(I)threadIdx.x")
        return f"""{PRELUDE}
typedef {C_TYPES[p.dtype]} T;
typedef u32 I;
extern "C" __global__ __launch_bounds__({THREADS}) void kernel(const u64* table, const u32* parts, \
u32 count{names}) {{
  for (u32 b = blockIdx.x; b < count; b += gridDim.x) {{
    const u64* row = table + parts[2 * b] * {columns + 1}ull;
    const u64 at = parts[2 * b + 1] * {PART}ull, left = row[{columns}] - at;
    const I n = left < {PART} ? (I)left : {PART};
{lines}{body}  }}
}}
"""


def launch_of(
    kernels: Any,
    program: Program,
    rows: list[list[int]],
    sizes: list[int],
    numbers: list[Any],
) -> Callable[[], None]:
    """A function that runs a program over rows of addresses, of arrays of these sizes."""
    table = np.array([[*row, size] for row, size in zip(rows, sizes, strict=True)], np.uint64)
    parts = np.array(
        [(i, p) for i, size in enumerate(sizes) for p in range(-(-size // PART))], np.uint32
    )
    held = [kernels.memory.allocate(a.nbytes) for a in (table, parts)]
    for buffer, host in zip(held, (table, parts), strict=True):
        kernels.driver.upload(kernels.index, buffer.address, np.ascontiguousarray(host))
    text = TableSource(program).text()
    function = kernels.texts.get(text)
    if function is None:
        kinds = ["p", "p", "i", *(KINDS[n.kind] for n in program.inputs if not n.is_array)]
        function = kernels.driver.compile(kernels.index, text).prepare(kinds)
        kernels.texts[text] = function
    grid = min(len(parts), (1 << 31) - 1)
    arguments = [held[0].address, held[1].address, len(parts), *numbers]

    def run() -> None:
        function.launch((grid, 1), THREADS, arguments)

    run.held = held  # type: ignore[attr-defined]  # the tables live as long as it
    return run


def program_of(
    roots: Any, inputs: tuple[Input, ...], outs: tuple[str, ...], compute: str
) -> Program:
    """The contiguous map of a formula."""
    kinds = [i.kind for i in inputs if i.is_array] + list(outs)
    small = any(k in ("float16", "bfloat16", "bool", "int8", "uint8", "int16") for k in kinds)
    return Program(roots, inputs, outs, compute, MAP, wide=8 if small else 4)
