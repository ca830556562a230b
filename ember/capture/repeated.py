"""Work that is done twice on the same values is done once: common subexpressions."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from ember.capture.passes import is_pure
from ember.capture.recorder import Instruction, Place, places_in
from ember.core.cells import Cell
from ember.kernel.call import LibraryCall, MapCall, ReduceCall


def without_repetitions(instructions: list[Instruction], fixed: set[int]) -> list[Instruction]:
    """The instructions without those whose result is there already, in memory that nobody writes
    again; who read theirs reads that. `fixed` are the storages that outlive the recording."""
    writers = Counter(o.storage for i in instructions for o in i.outs)
    versions: dict[int, int] = defaultdict(int)
    known: dict[Any, tuple[Place, ...]] = {}
    instead: dict[int, int] = {}  # the storage that is read in the place of another
    found: list[Instruction] = []
    # the host's own functions may write into memory that they can see
    seen = fixed if any(i.kind == "host" for i in instructions) else set()
    for original in instructions:
        instruction = _renamed(original, instead)
        outs = instruction.outs
        if instruction.kind == "host":
            known.clear()
        once = all(writers[o.storage] == 1 and o.storage not in seen for o in outs)
        once = once and is_pure(instruction)
        key = _key(instruction, versions) if once else None
        if key is not None:
            before = known.setdefault(key, outs)
            if before is not outs and not any(o.storage in fixed for o in outs):
                instead.update((o.storage, b.storage) for o, b in zip(outs, before, strict=True))
                continue
        for out in outs:
            versions[out.storage] += 1
        found.append(instruction)
    return found


def _renamed(instruction: Instruction, instead: dict[int, int]) -> Instruction:
    places = places_in(instruction.operands)
    if not any(p.storage in instead for p in places):
        return instruction

    def rename(tree: Any) -> Any:
        if isinstance(tree, Place):
            return tree._replace(storage=instead.get(tree.storage, tree.storage))
        if isinstance(tree, (tuple, list)):
            return type(tree)(rename(item) for item in tree)
        return tree

    return instruction._replace(operands=tuple(map(rename, instruction.operands)))


def _key(instruction: Instruction, versions: dict[int, int]) -> Any:
    """What two instructions have in common that compute the same; None for what cannot be told."""
    call = instruction.call
    if isinstance(call, MapCall):
        if call.writes:
            return None
        what: Any = (call.roots, call.names, call.compute, call.keeps, call.axes)
    elif isinstance(call, ReduceCall):
        zero = (type(call.zero), repr(call.zero))
        what = (call.combine, zero, call.accumulate, call.axes, call.keepdim)
    elif isinstance(call, LibraryCall):
        what = (call.kernel, call.upcast)
    elif instruction.kind == "fill":
        what = _operand(call, versions)
    else:
        what = None
    outs = tuple((o.spec, o.offset) for o in instruction.outs)
    key = (instruction.kind, type(call), what, outs, _operand(instruction.operands, versions))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _operand(operand: Any, versions: dict[int, int]) -> Any:
    if isinstance(operand, Place):
        return operand, versions[operand.storage]
    if isinstance(operand, Cell):  # not its value, which is another at each replay
        return "cell", operand.position
    if isinstance(operand, (tuple, list)):
        return tuple(_operand(item, versions) for item in operand)
    return type(operand), repr(operand) if isinstance(operand, float) else operand
