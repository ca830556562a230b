"""Neighbouring formulas of a recording become one kernel: elementwise calls with each other and
with the row programs before and after them.

A call joins the one that made an operand of it when nothing in between is disturbed, by coming up
to it or by letting it come down; results that nobody reads any more are then not stored at all.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from ember.backends.base import kernels_of
from ember.backends.cpu.compiled import plan
from ember.backends.cpu.kernels import arithmetic_type
from ember.capture.background import background
from ember.capture.memory import storage_of
from ember.capture.recorder import Instruction, Place, places_in
from ember.capture.reshaping import alike, same_shape
from ember.dtypes import bfloat16, bool_, float16, float32, float64
from ember.dtypes import dtype as DType
from ember.kernel.array import Spec
from ember.kernel.call import MapCall
from ember.scalar.approximations import FUNCTIONS
from ember.scalar.expr import Expr, substitute, topological, var

REALS = (float16, bfloat16, float32, float64)
MOST_NODES = 200  # operations of one kernel
MOST_ARRAYS = 20
FARTHEST = 200  # instructions that a call may pass


class Fusion:
    """Goes through the instructions once; `fixed` are the storages that outlive the recording."""

    def __init__(self, instructions: list[Instruction], fixed: set[int]):
        self.fixed = fixed
        self.done: list[Instruction] = []
        self.users: dict[int, int] = defaultdict(int)  # how many instructions read a storage
        self.places: dict[Any, str] = {}
        self.given = [self._as_call(instruction) for instruction in instructions]
        for instruction in self.given:
            for number in _reads(instruction):
                self.users[number] += 1

    def run(self) -> list[Instruction]:
        """The instructions that do the same."""
        for instruction in self.given:
            background.step()
            while self._is_formula(instruction):
                joined = self._joined(instruction)
                if joined is None:
                    break
                instruction = joined
            self.done.append(instruction)
        return self.done

    def _place(self, device: Any) -> str:
        """Who joins the calls of a device: the "host", the "device" itself, or "" for nobody."""
        found = self.places.get(device)
        if found is None:
            on_host = isinstance(storage_of(1, device).buffer, np.ndarray)
            joins = "device" if kernels_of(device).joins_formulas else ""
            found = self.places[device] = "host" if on_host else joins
        return found

    def _as_call(self, instruction: Instruction) -> Instruction:
        """A copy of reals that keeps their order, as a formula where that can join others."""
        if instruction.kind != "copy":
            return instruction
        (source,), (target,) = instruction.operands, instruction.outs
        a, b = source.spec, target.spec
        if a.dtype not in REALS or b.dtype not in REALS:
            return instruction
        if a.shape != b.shape or a.strides != b.strides or not b.numel:
            return instruction
        if self._place(b.device) != "device":
            return instruction
        compute = float64 if float64 in (a.dtype, b.dtype) else float32
        call = MapCall("copy", (a,), (b,), roots=(var("x"),), names=("x",), compute=compute)
        runner = kernels_of(b.device).prepare(call)
        return Instruction("call", call, (source,), (target,), runner)

    def _is_formula(self, instruction: Instruction) -> bool:
        call = instruction.call
        if instruction.kind != "call" or not isinstance(call, MapCall):
            return False
        outs = instruction.outs
        shape, place = outs[0].spec.shape, self._place(outs[0].spec.device)
        kinds: tuple[DType, ...] = (call.compute, bool_)
        if place == "device":
            kinds = (*REALS, bool_)
        compute = arithmetic_type(call.compute) if place == "device" else call.compute
        if not place or compute not in (float32, float64):
            return False
        if any(o.spec.shape != shape or o.spec.dtype not in kinds for o in outs):
            return False
        return len({o.storage for o in outs}) == len(outs) and bool(outs[0].spec.numel)

    def _joined(self, later: Instruction) -> Instruction | None:
        """A call joined with one that made an operand of it, taken out of those that are done."""
        wanted = {alike(p) for p in later.operands if isinstance(p, Place)}
        reads, writes = _reads(later), _writes(later)
        up = True  # whether the call could come up so far
        lower = max(0, len(self.done) - FARTHEST)
        for index in range(len(self.done) - 1, lower - 1, -1):
            earlier = self.done[index]
            if self._is_formula(earlier) and any(alike(o) in wanted for o in earlier.outs):
                down = self._can_come_down(earlier, index)
                if up or down:
                    joined = self._join(earlier, later)
                    if joined is not None:
                        return self._settle(joined, index, down)
            if earlier.kind == "host":
                return None
            touched = _writes(earlier)
            if touched & reads or (touched | _reads(earlier)) & writes:
                up = False
        return None

    def _can_come_down(self, earlier: Instruction, index: int) -> bool:
        reads, writes = _reads(earlier), _writes(earlier)
        for other in self.done[index + 1 :]:
            touched = _writes(other)
            if other.kind == "host" or touched & reads or (touched | _reads(other)) & writes:
                return False
        return True

    def _settle(self, joined: Instruction, index: int, down: bool) -> Instruction:
        """Take what was joined out; where it cannot stay last, all after it follow it again."""
        if down:
            del self.done[index]
            return joined
        after = self.done[index + 1 :]
        del self.done[index:]
        self.done.append(joined)
        self.done += after
        return MOVED

    def _join(self, earlier: Instruction, later: Instruction) -> Instruction | None:
        a, b = earlier.call, later.call
        on_host = self._place(earlier.outs[0].spec.device) == "host"
        if arithmetic_type(a.compute) is not arithmetic_type(b.compute):
            return None
        if on_host and bool(a.axes) is not bool(b.axes) and _has_functions(b if a.axes else a):
            return None  # vectors that are unrolled gain more than a pass over the cache costs
        if earlier.outs[0].spec.device is not later.outs[0].spec.device:
            return None
        if earlier.outs[0].spec.shape != later.outs[0].spec.shape:
            pair = None if on_host else same_shape(earlier, later)
            if pair is None:
                return None
            earlier, later = pair
            a, b = earlier.call, later.call
        if a.axes and b.axes and a.axes != b.axes:
            return None
        if not _keeps_apart(earlier, later) or not any(o in later.operands for o in earlier.outs):
            return None
        names = Names()
        first = names.renamed(earlier, {})
        made = dict(zip(earlier.outs, first, strict=True))
        second = names.renamed(later, made)
        before, after = _reads(earlier), _reads(later)
        stays = [o in later.outs or self._is_read(o, after) for o in earlier.outs]
        roots = {o: r for o, r, s in zip(earlier.outs, first, stays, strict=True) if s}
        roots.update(zip(later.outs, second, strict=True))
        joined = names.instruction(earlier, later, roots)
        if joined is None:
            return None
        for number in before | after:
            self.users[number] -= (number in before) + (number in after)
        for number in _reads(joined):
            self.users[number] += 1
        return joined

    def _is_read(self, out: Place, after: set[int]) -> bool:
        """Whether anyone but the later call needs a result."""
        number = out.storage
        return number in self.fixed or self.users[number] > (number in after)


class Names:
    """Gives the operands of joined calls common names."""

    def __init__(self) -> None:
        self.operands: list[Any] = []
        self.specs: list[Any] = []
        self.kept: set[str] = set()
        self.names: dict[Any, str] = {}

    def _name(self, operand: Any, spec: Any, kept: bool) -> str:
        is_place = isinstance(operand, Place)
        key = (operand if is_place else (len(self.operands), "number"), kept)
        found = self.names.get(key)
        if found is None:
            found = self.names[key] = f"v{len(self.operands)}"
            self.operands.append(operand)
            self.specs.append(spec)
            if kept:
                self.kept.add(found)
        return found

    def renamed(self, instruction: Instruction, made: dict[Place, Expr]) -> list[Expr]:
        """The formulas of a call over common names, with those of what is `made` put in."""
        call, values = instruction.call, {}
        for name, operand, spec in zip(
            call.names, instruction.operands, call.in_specs, strict=True
        ):
            if isinstance(operand, Place) and operand in made:
                values[name] = made[operand]
            else:
                values[name] = var(self._name(operand, spec, name in call.keeps))
        return [
            substitute(r, lambda n: values.get(n.value) if n.op == "var" else None)
            for r in call.roots
        ]

    def instruction(
        self, earlier: Instruction, later: Instruction, roots: dict[Place, Expr]
    ) -> Instruction | None:
        """The joined call; None where it cannot be compiled."""
        every = topological(roots.values())
        if len(every) > MOST_NODES or len(self.operands) + len(roots) > MOST_ARRAYS:
            return None
        used = {n.value for n in every if n.op == "var"}
        chosen = [i for i in range(len(self.operands)) if f"v{i}" in used]
        call = MapCall(
            f"{earlier.call.name}+{later.call.name}",
            tuple(self.specs[i] for i in chosen),
            tuple(o.spec for o in roots),
            roots=tuple(roots.values()),
            names=tuple(f"v{i}" for i in chosen),
            compute=arithmetic_type(later.call.compute),
            keeps=frozenset(self.kept & used),
            axes=earlier.call.axes or later.call.axes,
        )
        if not any(isinstance(s, Spec) for s in call.in_specs):
            return None
        kernels = kernels_of(call.out_specs[0].device)
        if not (kernels.joins(call) if kernels.joins_formulas else plan(call, often=True)):
            return None
        operands = tuple(self.operands[i] for i in chosen)
        return Instruction("call", call, operands, tuple(roots), kernels.prepare(call))


MOVED = Instruction("unused", None, (), ())


def _has_functions(call: MapCall) -> bool:
    return any(node.op in FUNCTIONS for node in topological(call.roots))


def _reads(instruction: Instruction) -> set[int]:
    return {p.storage for p in places_in(instruction.operands)}


def _writes(instruction: Instruction) -> set[int]:
    return {p.storage for p in instruction.outs}


def _keeps_apart(earlier: Instruction, later: Instruction) -> bool:
    """Whether results lie where one kernel may write them while it reads the operands: in the very
    places of operands, or in other memory."""
    outs = [*earlier.outs, *later.outs]
    places = [p for p in (*earlier.operands, *later.operands, *outs) if isinstance(p, Place)]
    return all(p == out or p.storage != out.storage for out in outs for p in places)
