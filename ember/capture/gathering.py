"""Formulas that are alike, of arrays of any sizes, done together by one kernel of a GPU: an
optimizer's updates of all parameters, weights that are cast.

One moves up to the first of its kind, or down to the last, where nothing in between is disturbed.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from ember.backends.base import kernels_of
from ember.capture.recorder import Instruction, Place, places_in
from ember.core.cells import Cell
from ember.device import CPU
from ember.kernel.array import Spec
from ember.kernel.call import MapCall

LARGEST = 1 << 22  # elements of what moves and is not written into lasting memory


class Together(NamedTuple):
    """In the place of a call: those of several instructions, one after another."""

    name: str
    calls: tuple[MapCall, ...]


def gathered(instructions: list[Instruction], fixed: set[int]) -> list[Instruction]:
    """The instructions, with groups that are done together in the place of their members."""
    kinds: dict[Any, list[int]] = defaultdict(list)
    for position, instruction in enumerate(instructions):
        key = _kind(instruction, fixed)
        if key is not None:
            kinds[key].append(position)
    touched = [(_reads(i), {p.storage for p in i.outs}) for i in instructions]
    hosts = [p for p, i in enumerate(instructions) if i.kind == "host"]
    groups: dict[int, list[int]] = {}  # where a group is done, its members
    for members in kinds.values():
        first = members[0]
        up = [m for m in members if _can_move(touched, hosts, m, first, members)]
        rest = [m for m in members if m not in up]
        down = [m for m in rest if _can_move(touched, hosts, m, rest[-1], rest)]
        for place, found in ((first, up), (rest[-1] if rest else 0, down)):
            if len(found) > 1:
                groups[place] = found
    return _rebuilt(instructions, groups)


def _rebuilt(instructions: list[Instruction], groups: dict[int, list[int]]) -> list[Instruction]:
    gone = {m for members in groups.values() for m in members}
    found = []
    for position, instruction in enumerate(instructions):
        if position in groups:
            parts = [instructions[m] for m in groups[position]]
            call = Together(f"{len(parts)} {parts[0].call.name}", tuple(p.call for p in parts))
            outs = tuple(o for p in parts for o in p.outs)
            found.append(Instruction("together", call, tuple(p.operands for p in parts), outs))
        elif position not in gone:
            found.append(instruction)
    return found


def _reads(instruction: Instruction) -> set[int]:
    return {p.storage for p in places_in(instruction.operands)}


def _can_move(
    touched: list[tuple[set[int], set[int]]], hosts: list[int], member: int, to: int, alike: Any
) -> bool:
    """Whether one of some alike instructions may be done at the place of another."""
    low, high = min(member, to), max(member, to)
    if any(low < h < high for h in hosts):
        return False
    reads, writes = touched[member]
    for other in range(low, high + 1):
        if other != member:
            read, written = touched[other]
            if written & (reads | writes) or read & writes:
                return False
    return True


def _kind(instruction: Instruction, fixed: set[int]) -> Any:
    """What formulas that can be done together have in common; None for what cannot."""
    call = instruction.call
    if instruction.kind != "call" or not isinstance(call, MapCall) or call.axes:
        return None
    first = instruction.outs[0].spec
    if first.device is CPU or not kernels_of(first.device).joins_formulas or not first.numel:
        return None
    places = [p for p in (*instruction.operands, *instruction.outs) if isinstance(p, Place)]
    if any(not p.spec.contiguous or p.spec.shape != first.shape for p in places):
        return None
    if first.numel > LARGEST and not all(o.storage in fixed for o in instruction.outs):
        return None
    numbers = tuple(
        ("cell", o.position) if isinstance(o, Cell) else o
        for o in instruction.operands
        if not isinstance(o, Place)
    )
    dtypes = tuple(s.dtype if isinstance(s, Spec) else s for s in call.in_specs)
    outs = tuple(o.spec.dtype for o in instruction.outs)
    return (call.roots, call.names, call.compute, call.keeps, dtypes, outs, first.device, numbers)
