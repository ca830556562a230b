"""Sums over all rows are made by the formulas that read or make what is summed: the gradients of
biases and of a norm's weight beside the gradient of its input."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ember.backends.base import kernels_of
from ember.backends.cpu.column_sums import SumsCall, plan
from ember.capture.background import background
from ember.capture.fusion import Names
from ember.capture.recorder import Instruction, Place, places_in
from ember.device import CPU
from ember.dtypes import float32
from ember.kernel.array import Spec
from ember.kernel.call import LibraryCall, MapCall, ReduceCall
from ember.scalar.expr import Expr, topological, var

FARTHEST = 12  # instructions between formulas that are joined
MOST_NODES, MOST_ARRAYS = 200, 16
MOST_ROWS_ALONE = 1  # fewer rows than this are summed as they were


def summed(instructions: list[Instruction], fixed: set[int]) -> list[Instruction]:
    """The instructions on the CPU with such sums in the formulas; `fixed` are the storages that
    outlive the recording."""
    return Summing(instructions, fixed).run()


class Summing:
    """Goes through the sums; what is taken out is None."""

    def __init__(self, instructions: list[Instruction], fixed: set[int]):
        self.found: list[Instruction | None] = list(instructions)
        self.fixed = fixed
        self.uses: dict[int, set[int]] = defaultdict(set)
        for position, instruction in enumerate(instructions):
            self._note(position, instruction)
        self.hosts = [p for p, i in enumerate(instructions) if i.kind == "host"]
        self.next = max(self.uses, default=0) + 1  # a number for a storage without elements

    def run(self) -> list[Instruction]:
        """What is left."""
        for position, instruction in enumerate(list(self.found)):
            assert instruction is not None
            background.step()
            if _is_sum(instruction):
                if self._attach(position, instruction.operands[0], instruction.outs[0]):
                    self._set(position, None)
            elif _is_layer(instruction):
                self._take_bias(position, instruction)
        for position in range(len(self.found)):
            self._join(position)
        return [i for i in self.found if i is not None]

    def _note(self, position: int, instruction: Instruction) -> None:
        for place in places_in((instruction.operands, instruction.outs)):
            self.uses[place.storage].add(position)

    def _set(self, position: int, instruction: Instruction | None) -> None:
        before = self.found[position]
        if before is not None:
            for place in places_in((before.operands, before.outs)):
                self.uses[place.storage].discard(position)
        self.found[position] = instruction
        if instruction is not None:
            self._note(position, instruction)

    def _between(self, storage: int, low: int, high: int, writes: bool = False) -> bool:
        """Whether a storage is touched, or written, between two positions."""
        for position in self.uses[storage]:
            instruction = self.found[position]
            if low < position < high and instruction is not None:
                if not writes or any(o.storage == storage for o in instruction.outs):
                    return True
        return storage in self.fixed and any(low < h < high for h in self.hosts)

    # sums into formulas

    def _attach(self, position: int, source: Place, out: Place, stays: bool = False) -> bool:
        """Let a formula make the sum of a source over all rows; whether one does. `stays` says that
        the source is read where it was summed, for something else."""
        for other in sorted(self.uses[source.storage], key=lambda p: abs(p - position)):
            host = self.found[other]
            if host is None or other == position or not _is_formula(host):
                continue
            low, high = min(other, position), max(other, position)
            if self._between(source.storage, low, high, True) or self._between(
                out.storage, low, high
            ):
                continue
            changed = self._with_sum(host, source, out, other < position, stays)
            if changed is not None:
                self._set(other, changed)
                return True
        return False

    def _with_sum(
        self, host: Instruction, source: Place, out: Place, is_before: bool, stays: bool
    ) -> Instruction | None:
        """A formula with the sum of what it makes, if it is before that, or of what it reads."""
        call = host.call
        shape = call.shape if isinstance(call, SumsCall) else call.out_specs[0].shape
        if source.spec.shape != shape or any(p.storage == out.storage for p in _places(host)):
            return None
        outs, roots = list(host.outs), list(call.roots)
        sums = list(call.sums) if isinstance(call, SumsCall) else []
        if is_before and source.storage in {o.storage for o in outs}:
            if source not in outs or outs.index(source) in sums:
                return None
            root: Expr = roots[outs.index(source)]
        elif source in host.operands:
            name = call.names[host.operands.index(source)]
            if name in call.keeps:
                return None
            root = var(name)
        else:
            return None
        stays = stays or source.storage in self.fixed or len(self.uses[source.storage]) > 2
        if is_before and source in outs and not stays:
            place = outs.index(source)
            outs[place] = out
            sums.append(place)
        else:
            outs.append(out)
            roots.append(root)
            sums.append(len(outs) - 1)
        made = SumsCall(call, tuple(roots), tuple(o.spec for o in outs), tuple(sums))
        made.name = f"{call.name}+sum"
        if len(host.operands) + len(outs) > MOST_ARRAYS or plan(made) is None:
            return None
        return Instruction("call", made, host.operands, tuple(outs))

    def _take_bias(self, position: int, layer: Instruction) -> None:
        """Let a formula sum the gradient of a layer's bias."""
        g, x, weight, biased, needs = layer.operands
        if not self._attach(position, g, layer.outs[2], stays=True):
            return
        nothing = Place(self.next, layer.outs[2].spec.with_shape((0,)), 0)
        self.next += 1
        operands = (g, x, weight, biased, (*needs[:2], False))
        outs = (*layer.outs[:2], nothing)
        call = layer.call.with_specs(
            (*layer.call.in_specs[:4], operands[4]), tuple(o.spec for o in outs)
        )
        runner = kernels_of(CPU).prepare(call)
        self._set(position, Instruction("call", call, operands, outs, runner))

    # formulas with sums into those after them

    def _join(self, position: int) -> None:
        """Join a formula with sums with the next one that reads the same rows."""
        earlier = self.found[position]
        if earlier is None or not isinstance(earlier.call, SumsCall):
            return
        rows = {o for o in earlier.operands if isinstance(o, Place) and o.spec.numel > 1}
        last = min(len(self.found), position + FARTHEST)
        for other in range(position + 1, last):
            later = self.found[other]
            if (
                later is None
                or not _is_formula(later)
                or not self._can_go(earlier, position, other)
            ):
                continue
            shape = earlier.call.shape
            if not any(o in rows and o.spec.shape == shape for o in _operands(later)):
                continue
            joined = _joined(earlier, later)
            if joined is not None:
                self._set(position, None)
                self._set(other, joined)
                return

    def _can_go(self, earlier: Instruction, position: int, other: int) -> bool:
        """Whether a formula may be computed where another is."""
        if any(self._between(o.storage, position, other) for o in earlier.outs):
            return False
        return not any(self._between(o.storage, position, other, True) for o in _operands(earlier))


def _operands(instruction: Instruction) -> list[Place]:
    return [o for o in instruction.operands if isinstance(o, Place)]


def _places(instruction: Instruction) -> list[Place]:
    return places_in((instruction.operands, instruction.outs))


def _is_here(instruction: Instruction) -> bool:
    return all(p.spec is not None and p.spec.device is CPU for p in _places(instruction))


def _is_sum(instruction: Instruction) -> bool:
    """Whether an instruction sums the rows of a float32 array over all dims but the last."""
    call = instruction.call
    if instruction.kind != "call" or not isinstance(call, ReduceCall) or call.combine != "add":
        return False
    spec, out = call.in_specs[0], call.out_specs[0]
    every = spec.ndim > 1 and tuple(call.axes) == tuple(range(spec.ndim - 1))
    single = spec.dtype is out.dtype is call.accumulate is float32 and not call.zero
    return every and single and _is_here(instruction) and _is_long(spec)


def _is_long(spec: Spec) -> bool:
    return spec.contiguous and spec.numel >= MOST_ROWS_ALONE * spec.shape[-1] > 0


def _is_layer(instruction: Instruction) -> bool:
    """Whether an instruction makes the gradients of a linear layer, of its bias too."""
    call = instruction.call
    if instruction.kind != "call" or not isinstance(call, LibraryCall):
        return False
    if call.kernel != "linear_backward" or not _is_here(instruction):
        return False
    g, _, _, biased, needs = instruction.operands
    return bool(biased and needs[2]) and g.spec.dtype is float32 and _is_long(g.spec)


def _is_formula(instruction: Instruction) -> bool:
    call = instruction.call
    plain = instruction.kind == "call" and isinstance(call, MapCall) and not call.writes
    return plain and call.compute is float32 and _is_here(instruction)


def _joined(earlier: Instruction, later: Instruction) -> Instruction | None:
    """Both as one, where there is a kernel for it."""
    a, b = earlier.call, later.call
    shape = b.shape if isinstance(b, SumsCall) else b.out_specs[0].shape
    if shape != a.shape or (a.axes and b.axes and a.axes != b.axes):
        return None
    outs = (*earlier.outs, *later.outs)
    written = {o.storage for o in outs}
    if len(written) < len(outs):
        return None
    if any(p.storage in written and p not in later.outs for p in _operands(earlier)):
        return None
    if any(p.storage in written and p not in later.outs for p in _operands(later)):
        return None
    names = Names()
    roots = (*names.renamed(earlier, {}), *names.renamed(later, {}))
    used = {n.value for n in topological(roots) if n.op == "var"}
    chosen = [i for i in range(len(names.operands)) if f"v{i}" in used]
    if len(topological(roots)) > MOST_NODES or len(chosen) + len(outs) > MOST_ARRAYS:
        return None
    base = MapCall(
        f"{a.name}+{b.name}",
        tuple(names.specs[i] for i in chosen),
        (outs[0].spec.with_shape(shape),),
        roots=roots,
        names=tuple(f"v{i}" for i in chosen),
        compute=float32,
        keeps=frozenset(names.kept & used),
        axes=a.axes or b.axes,
    )
    count = len(earlier.outs)
    more: Any = b.sums if isinstance(b, SumsCall) else ()
    sums = (*a.sums, *(count + i for i in more))
    call = SumsCall(base, roots, tuple(o.spec for o in outs), sums)
    if plan(call) is None:
        return None
    return Instruction("call", call, tuple(names.operands[i] for i in chosen), outs)
