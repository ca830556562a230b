"""Numbers that kernels read from the GPU's memory, so that a CUDA graph, which keeps the arguments
of its kernels, computes with new ones at each launch: learning rates, step counts.

The host says what changed by one launch of a kernel that has a row of numbers as its arguments,
which waits for nothing.
"""

from __future__ import annotations

from typing import Any

from ember.backends.cuda.prelude import PRELUDE
from ember.kernel.number import Slot

ROW = 16  # numbers that one launch writes
ROOM = 64 * ROW  # of a table
_PARAMETERS = ", ".join(f"double v{i}" for i in range(ROW))
_STORES = "".join(f"    row[{i}] = v{i};\n" for i in range(ROW))
WRITE = f"""{PRELUDE}
extern "C" __global__ void kernel(double* row, {_PARAMETERS}) {{
  if (blockIdx.x == 0 && threadIdx.x == 0) {{
{_STORES}  }}
}}
"""


class Number:
    """The place of a slot's number in a table; what is stored into it goes there before the next
    work that reads it."""

    def __init__(self, table: Table, position: int):
        self.table, self.position = table, position
        self.address: int = table.buffer.address + 8 * position

    def __setitem__(self, position: int, value: float) -> None:
        self.table.put(self.position, value)

    def __del__(self) -> None:
        self.table.free.append(self.position)


class Table:
    """Some numbers in the GPU's memory, and what they are to be."""

    def __init__(self, memory: Any):
        self.buffer = memory.allocate(8 * ROOM)
        self.values = [0.0] * ROOM
        self.free = list(range(ROOM))
        self.changed: set[int] = set()  # rows

    def put(self, position: int, value: float) -> None:
        """Change a number."""
        self.values[position] = value
        self.changed.add(position // ROW)


class Numbers:
    """The tables of a GPU."""

    def __init__(self, kernels: Any):
        self.kernels = kernels
        self.tables: list[Table] = []

    def address(self, slot: Slot) -> int:
        """Where kernels find a slot's number."""
        for target, _ in slot.targets:
            if isinstance(target, Number):
                return target.address
        table = next((t for t in self.tables if t.free), None)
        if table is None:
            table = Table(self.kernels.memory)
            self.tables.append(table)
        number = Number(table, table.free.pop())
        slot.targets.append((number, 0))  # type: ignore[arg-type]  # it is stored into, like a list
        number[0] = slot.value
        return number.address

    def write(self) -> None:
        """Let the GPU know what changed."""
        for table in self.tables:
            if table.changed:
                rows, table.changed = table.changed, set()
                for row in rows:
                    values = table.values[row * ROW : (row + 1) * ROW]
                    self._launch([table.buffer.address + 8 * ROW * row, *values])

    def _launch(self, arguments: list[Any]) -> None:
        kernels = self.kernels
        function = kernels.texts.get(WRITE)
        if function is None:
            function = kernels.driver.compile(kernels.index, WRITE).prepare(["p", *["d"] * ROW])
            kernels.texts[WRITE] = function
        function.launch((1, 1), 32, arguments)
