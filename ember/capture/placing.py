"""Results are made where they are wanted: what is only copied into another layout or into a part of
a larger array is written there at once, and memory that is wholly written is not filled before."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ember.backends.base import kernels_of
from ember.backends.cpu.compiled import plan
from ember.capture.background import background
from ember.capture.recorder import Instruction, Place, places_in
from ember.device import CPU
from ember.kernel.array import Spec, spec_of
from ember.kernel.call import LibraryCall, MapCall, ReduceCall
from ember.layout import contiguous_strides, extent

STRIDED = frozenset(("attention", "attention_backward"))  # kernels that write rows at any steps
LARGEST = 1 << 26  # elements of an array whose parts are looked at one by one


def placed(instructions: list[Instruction], fixed: set[int]) -> list[Instruction]:
    """The instructions on the CPU without such copies and fills; `fixed` are the storages that
    outlive the recording."""
    return Placing(instructions, fixed).run()


class Placing:
    """Goes through the copies and fills; what is taken out is None."""

    def __init__(self, instructions: list[Instruction], fixed: set[int]):
        self.found: list[Instruction | None] = list(instructions)
        self.fixed = fixed
        self.uses: dict[int, set[int]] = defaultdict(set)
        for position, instruction in enumerate(instructions):
            for place in places_in((instruction.operands, instruction.outs)):
                self.uses[place.storage].add(position)
        # memory that is moved between devices as a whole
        self.opaque = {
            place.storage
            for instruction in instructions
            for place in places_in((instruction.operands, instruction.outs))
            if place.spec is None
        }
        self.hosts = [p for p, i in enumerate(instructions) if i.kind == "host"]

    def run(self) -> list[Instruction]:
        """What is left."""
        for position, instruction in enumerate(self.found):
            if instruction is None or not _is_on_host(instruction):
                continue
            if instruction.kind == "fill" and self._is_covered(position, instruction):
                self._take_out(position)
            elif instruction.kind == "copy":
                background.step()
                self._place(position, instruction)
        return [i for i in self.found if i is not None]

    def _take_out(self, position: int) -> None:
        instruction = self.found[position]
        assert instruction is not None
        for place in places_in((instruction.operands, instruction.outs)):
            self.uses[place.storage].discard(position)
        self.found[position] = None

    def _after(self, storage: int, low: int, high: float) -> list[tuple[int, Instruction]]:
        """The instructions that touch a storage between two positions, in order."""
        between = sorted(p for p in self.uses[storage] if low < p < high)
        return [(p, i) for p in between if (i := self.found[p]) is not None]

    # fills

    def _is_covered(self, position: int, fill: Instruction) -> bool:
        """Whether all of what is filled is written again before anyone reads of it."""
        out = fill.outs[0]
        if out.storage in self.opaque:
            return False
        if out.spec.numel > LARGEST or not out.spec.contiguous or not out.spec.numel:
            return False
        left = np.ones(out.spec.numel, np.bool_)
        for later, instruction in self._after(out.storage, position, np.inf):
            reads = any(p.storage == out.storage for p in places_in(instruction.operands))
            if reads or any(position < h < later for h in self.hosts):
                return False
            for one in instruction.outs:
                if one.storage == out.storage:
                    if one.spec.dtype is not out.spec.dtype or not _clear(left, one, out):
                        return False
            if not left.any():
                return True
        return False

    # copies

    def _place(self, position: int, copy: Instruction) -> None:
        """Let what makes a copy's source write its target, if that changes nothing else."""
        source, target = copy.operands[0], copy.outs[0]
        if source.storage in self.fixed or source.storage == target.storage:
            return
        if source.storage in self.opaque or target.storage in self.opaque:
            return
        if source.spec.dtype is not target.spec.dtype or source.spec.shape != target.spec.shape:
            return
        touching = [(p, i) for p, i in self._after(source.storage, -1, np.inf) if p != position]
        makers = [(p, i) for p, i in touching if _writes(i, source.storage)]
        if len(makers) != 1 or makers[0][0] > position:
            return
        start, maker = makers[0]
        made = [o for o in maker.outs if o.storage == source.storage]
        if len(made) != 1 or made[0].spec.numel != source.spec.numel or position in self.hosts:
            return
        if any(p.storage in (source.storage, target.storage) for p in places_in(maker.operands)):
            return
        last = max((p for p, _ in touching), default=position)
        if not self._is_free(target, start, position, last):
            return
        moves = _Moves(source, target)
        changed = {p: _moved(i, source.storage, moves) for p, i in touching}
        if any(c is None for c in changed.values()):
            return
        for p, instruction in changed.items():
            self.found[p] = instruction
        self.uses[target.storage] |= self.uses.pop(source.storage)
        self._take_out(position)

    def _is_free(self, target: Place, start: int, copied: int, last: int) -> bool:
        """Whether nobody needs a target's memory from where it is now written to the copy, or
        writes it while what was copied is read."""
        until = max(copied, last)
        if target.storage in self.fixed and any(start < h < until for h in self.hosts):
            return False
        for position, instruction in self._after(target.storage, start - 1, until + 1):
            if position == copied:
                continue
            touched = [p for p in instruction.outs if p.storage == target.storage]
            if position < copied:
                reads = places_in(instruction.operands)
                touched += [p for p in reads if p.storage == target.storage]
            if not all(_are_apart(p, target) for p in touched):
                return False
        return True


def _is_on_host(instruction: Instruction) -> bool:
    places = places_in((instruction.operands, instruction.outs))
    return all(p.spec is not None and p.spec.device is CPU for p in places)


def _writes(instruction: Instruction, storage: int) -> bool:
    return any(o.storage == storage for o in instruction.outs)


def _clear(left: Any, part: Place, whole: Place) -> bool:
    """Take a part out of the elements that are left; False if it reaches beyond them."""
    begin = part.offset - whole.offset
    if begin < 0 or begin + extent(part.spec.shape, part.spec.strides) > left.size:
        return False
    as_strided(left[begin:], part.spec.shape, part.spec.strides)[...] = False
    return True


def _are_apart(x: Place, y: Place) -> bool:
    """Whether two arrays of one storage have no element in common."""
    if x.spec.dtype is not y.spec.dtype:
        return False
    sizes = [extent(p.spec.shape, p.spec.strides) for p in (x, y)]
    if x.offset + sizes[0] <= y.offset or y.offset + sizes[1] <= x.offset:
        return True
    begin = min(x.offset, y.offset)
    room = max(p.offset + s for p, s in zip((x, y), sizes, strict=True)) - begin
    if room > LARGEST:
        return False
    taken = np.zeros(room, np.bool_)
    for part, value in ((x, True), (y, False)):
        view = as_strided(taken[part.offset - begin :], part.spec.shape, part.spec.strides)
        if not value:
            return not view.any()
        view[...] = value
    return False


class _Moves:
    """Where the elements of a dense source go that is copied into a target."""

    def __init__(self, source: Place, target: Place):
        self.source, self.target = source, target
        spec, to = source.spec, target.spec
        triples = zip(spec.shape, spec.strides, to.strides, strict=True)
        dims = sorted(((n, a, b) for n, a, b in triples if n != 1), key=lambda d: -d[1])
        self.dims: list[tuple[int, int, int]] = []
        size = 1
        for count, step, by in reversed(dims):
            if step != size:  # gaps, or elements that are several times there
                self.dims = []
                return
            size *= count
            inner = self.dims[-1] if self.dims else None
            if inner is not None and by == inner[0] * inner[2]:
                self.dims[-1] = (inner[0] * count, inner[1], inner[2])
            else:
                self.dims.append((count, step, by))
        self.dims.reverse()

    def place(self, place: Place) -> Place | None:
        """Where an array of the source's storage then lies; None if it is no such array."""
        if place.spec.dtype is not self.source.spec.dtype or not self.dims:
            return None
        rest, offset = place.offset - self.source.offset, self.target.offset
        reach = []  # how far an array goes along each dim
        for _, step, by in self.dims:
            begin = rest // step
            rest -= begin * step
            offset += begin * by
            reach.append(begin)
        strides = []
        for count, stride in zip(place.spec.shape, place.spec.strides, strict=True):
            if count == 1 or stride == 0:
                strides.append(0)
                continue
            which = next((i for i, d in enumerate(self.dims) if stride >= d[1]), None)
            if which is None or stride % self.dims[which][1]:
                return None
            times = stride // self.dims[which][1]
            reach[which] += times * (count - 1)
            strides.append(times * self.dims[which][2])
        if any(not 0 <= r < d[0] for r, d in zip(reach, self.dims, strict=True)):
            return None
        return Place(self.target.storage, _spec(place.spec, tuple(strides)), offset)


def _spec(spec: Spec, strides: tuple[int, ...]) -> Spec:
    """A spec with other strides, those of dims of length 1 as they usually are."""
    usual = contiguous_strides(spec.shape)
    chosen = tuple(u if n == 1 else s for n, s, u in zip(spec.shape, strides, usual, strict=True))
    return spec_of(spec.shape, chosen, spec.dtype, spec.device)


def _moved(instruction: Instruction, storage: int, moves: _Moves) -> Instruction | None:
    """An instruction with the arrays of a storage where they go; None where it cannot be done."""
    mine = [p for p in places_in((instruction.operands, instruction.outs)) if p.storage == storage]
    found = {p: moves.place(p) for p in mine}
    if any(to is None for to in found.values()) or instruction.kind not in ("call", "copy"):
        return None

    def move(tree: Any) -> Any:
        if isinstance(tree, Place):
            return found.get(tree, tree)
        if isinstance(tree, (tuple, list)):
            return type(tree)(move(item) for item in tree)
        return tree

    operands, outs = tuple(map(move, instruction.operands)), tuple(map(move, instruction.outs))
    changed = instruction._replace(operands=operands, outs=outs)
    if all(to.spec is p.spec for p, to in found.items() if to) or instruction.kind == "copy":
        return changed
    call = instruction.call
    if isinstance(call, MapCall):
        return _reshaped(changed)
    if call.writes or not isinstance(call, (LibraryCall, ReduceCall)):
        return None
    same = all(a.spec is b.spec for a, b in zip(instruction.outs, outs, strict=True))
    return changed if same or isinstance(call, ReduceCall) or call.kernel in STRIDED else None


def _reshaped(changed: Instruction) -> Instruction | None:
    """A formula of arrays with other strides, where that can be compiled."""
    call = changed.call
    if call.writes:
        return None
    specs = tuple(
        o.spec if isinstance(o, Place) else s
        for o, s in zip(changed.operands, call.in_specs, strict=True)
    )
    made = call.with_specs(specs, tuple(o.spec for o in changed.outs))
    if plan(made, often=True) is None:
        return None
    return changed._replace(call=made, runner=kernels_of(CPU).prepare(made))
