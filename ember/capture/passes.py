"""What a recording can do without: work whose results nobody reads, and work that gives the same
each time."""

from __future__ import annotations

from collections import Counter

from ember.capture.recorder import Instruction, places_in
from ember.core.cells import Cell
from ember.kernel.call import LibraryCall, MapCall, ReduceCall

PURE = frozenset(("index_select", "linear", "matmul", "tril", "triu"))
STEADY = frozenset(("tril", "triu"))


def is_pure(instruction: Instruction) -> bool:
    """Whether an instruction does nothing but fill its outs."""
    call = instruction.call
    if instruction.kind in ("fill", "copy"):
        return True
    if instruction.kind != "call":
        return False
    if isinstance(call, LibraryCall):
        return call.kernel in PURE
    return isinstance(call, (MapCall, ReduceCall))


def without_the_unread(instructions: list[Instruction], fixed: set[int]) -> list[Instruction]:
    """The instructions whose results are read, or outlive the recording."""
    wanted, found = set(fixed), []
    for instruction in reversed(instructions):
        outs = {o.storage for o in instruction.outs}
        if outs & wanted or not is_pure(instruction):
            found.append(instruction)
            wanted |= {p.storage for p in places_in(instruction.operands)}
    return found[::-1]


def steady(
    instructions: list[Instruction], fixed: set[int], constants: set[int]
) -> tuple[list[Instruction], list[Instruction]]:
    """What gives the same at each replay, to be done once, and the rest."""
    writers = Counter(o.storage for i in instructions for o in i.outs)
    known, once, rest = set(constants), [], []
    for instruction in instructions:
        reads = {p.storage for p in places_in(instruction.operands)}
        outs = {o.storage for o in instruction.outs}
        alone = all(writers[n] == 1 and n not in fixed for n in outs)
        if alone and reads <= known and _is_steady(instruction):
            known |= outs
            once.append(instruction)
        else:
            rest.append(instruction)
    return once, rest


def _is_steady(instruction: Instruction) -> bool:
    call = instruction.call
    if instruction.kind == "fill":
        return not isinstance(call, Cell)
    if instruction.kind == "copy":
        return True
    if any(isinstance(o, Cell) for o in instruction.operands) or instruction.kind != "call":
        return False
    if isinstance(call, LibraryCall):
        return call.kernel in STEADY
    return isinstance(call, (MapCall, ReduceCall)) and not call.writes
