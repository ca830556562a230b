"""Memory for the storages that live and die within a recording: those share it which are never
alive together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ember.backends.base import kernels_of, memory_of
from ember.backends.cpu.column_sums import SumsCall
from ember.capture.recorder import Instruction, Place, places_in
from ember.kernel.array import Spec, Storage
from ember.kernel.call import MapCall
from ember.layout import extent

ALIGNMENT = 64


def storage_of(nbytes: int, device: Any) -> Storage:
    """A new storage of a program's own, of which no executor is told: it is no part of a recording
    that another thread may be in."""
    memory = memory_of(device)
    storage = Storage(memory.allocate(nbytes), device)
    memory.adopt(storage)
    return storage


class Life:
    """When a storage is used, how large it is, and whose memory it may take over as that dies."""

    def __init__(self, position: int):
        self.first = self.last = position
        self.size = 1
        self.device: Any = None
        self.exact = False  # what is copied to another device is copied whole
        self.heir_of: set[int] = set()


class Block(NamedTuple):
    """Memory that someone had up to an instruction."""

    size: int
    until: int
    owner: int
    device: Any
    storage: Storage


def bytes_to_end(spec: Spec, offset: int = 0) -> int:
    """How many bytes a storage must have for an array at an offset."""
    return (offset + extent(spec.shape, spec.strides)) * spec.dtype.itemsize


def lives(instructions: list[Instruction], known: dict[int, Storage]) -> dict[int, Life]:
    """The lives of all storages but the known ones."""
    found: dict[int, Life] = {}
    for position, instruction in enumerate(instructions):
        for place in places_in((instruction.operands, instruction.outs)):
            if place.storage in known:
                continue
            life = found.setdefault(place.storage, Life(position))
            life.last = position
            if place.spec is not None:
                size = bytes_to_end(place.spec, place.offset)
                life.size, life.device = max(life.size, size), place.spec.device
        if instruction.kind == "transfer":
            nbytes, *devices = instruction.call
            for place, device in zip(
                (instruction.operands[0], instruction.outs[0]), devices, strict=True
            ):
                if place.storage in found:
                    life = found[place.storage]
                    life.size, life.device, life.exact = nbytes, device, True
        for out in instruction.outs:
            if out.storage in found:
                found[out.storage].heir_of |= _replaced(instruction, out)
    return found


def _replaced(instruction: Instruction, out: Place) -> set[int]:
    """The storages of operands whose elements a result may be written over, one by one; not those
    that the call writes itself."""
    call = instruction.call
    if not isinstance(call, MapCall):
        return set()
    if isinstance(call, SumsCall) and instruction.outs.index(out) in call.sums:
        return set()  # it grows while the operands are still read
    places = places_in(instruction.operands)
    numbers = [p.storage for p in (*places, *instruction.outs)]
    return {
        p.storage
        for p in places
        if p.spec is out.spec and p.offset == out.offset and numbers.count(p.storage) == 1
    }


def _inherits(life: Life, block: Block) -> bool:
    """Whether a result may be written over an operand: on devices whose kernels are known to read
    an element before they write it."""
    if block.owner not in life.heir_of:
        return False
    on_host = isinstance(block.storage.buffer, np.ndarray)
    return on_host or kernels_of(block.device).joins_formulas


def plan(instructions: list[Instruction], known: dict[int, Storage]) -> int:
    """Add the storages to the known ones, by the greedy best fit; the bytes that it takes."""
    total = 0
    every = lives(instructions, known)
    blocks: list[Block] = []
    for number, life in sorted(every.items(), key=lambda item: item[1].first):
        if life.exact:
            known[number] = storage_of(life.size, life.device)
            total += life.size
            continue
        size = -(-life.size // ALIGNMENT) * ALIGNMENT
        fitting = [
            b
            for b in blocks
            if b.device is life.device
            and size <= b.size <= 4 * size
            and (b.until < life.first or (b.until == life.first and _inherits(life, b)))
        ]
        if fitting:
            chosen = min(fitting, key=lambda b: (b.owner not in life.heir_of, b.size))
            blocks.remove(chosen)
            size, storage = chosen.size, chosen.storage
        else:
            storage = storage_of(size, life.device)
            total += size
        known[number] = storage
        blocks.append(Block(size, life.last, number, life.device, storage))
    return total
