"""Calls bound to their arrays for programs that run many times, and calls that the host does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.backends.cpu.kernels import CpuKernels, arithmetic_type
from ember.backends.cuda.arrays import DeviceArrays
from ember.backends.cuda.draws import CudaPhilox, is_drawn
from ember.backends.cuda.driver import Driver
from ember.backends.cuda.graphs import GraphSegment
from ember.backends.cuda.memory import CudaMemory
from ember.backends.cuda.numbers import Numbers
from ember.backends.cuda.together import inputs_of, launch_of, program_of
from ember.device import CPU
from ember.kernel.array import Array, Spec, spec_of
from ember.kernel.call import Call, LibraryCall, MapCall, ReduceCall
from ember.kernel.number import Slot, called_with, has_slots
from ember.layout import contiguous_strides

Runner = Callable[..., Any]


class BoundCalls(DeviceArrays):
    """The part of a GPU's kernels that binds calls, and hands some to the host."""

    takes_slots = joins_formulas = has_class_losses = True

    def __init__(self, driver: Driver, memory: CudaMemory):
        super().__init__(driver, memory)
        self.host = CpuKernels()
        self.numbers = Numbers(self)

    def _prepare_map(self, call: MapCall, asked: frozenset[int] = frozenset()) -> Runner | None:
        raise NotImplementedError

    def bind(
        self,
        call: Call,
        operands: tuple[Any, ...],
        outs: tuple[Any, ...],
        runner: Runner,
    ) -> Callable[[], Any]:
        """A call bound to its arrays; what runs on the host cannot be part of a graph."""
        asked = frozenset(i for i, o in enumerate(operands) if isinstance(o, Slot))
        in_memory = self._prepare_map(call, asked) if asked and isinstance(call, MapCall) else None
        if in_memory is not None:
            runner = in_memory
            operands = tuple(
                self.numbers.address(o) if isinstance(o, Slot) else o for o in operands
            )
        run = called_with(runner, operands)
        numbers = self.numbers

        def bound() -> None:
            if asked:
                numbers.write()
            if call.writes:
                run()
                return
            self.targets = list(outs)
            try:
                made = run()
            finally:
                self.targets = []
            for out, array in zip(outs, made if len(outs) > 1 else (made,), strict=True):
                if array is not out:
                    self.copy(out, array)

        if has_slots(operands):
            stays = False
        elif len(operands) > 1 and isinstance(operands[1], CudaPhilox):
            stays = is_drawn(operands[0], operands[2], operands[3:])
        else:
            known = isinstance(call, (MapCall, ReduceCall, LibraryCall))
            stays = known and not getattr(runner, "by_host", False)
        bound.on_device = stays  # type: ignore[attr-defined]
        return bound

    def bind_together(
        self,
        calls: tuple[MapCall, ...],
        operands: tuple[Any, ...],
        outs: list[tuple[Any, ...]],
        runners: list[Runner],
    ) -> Callable[[], Any]:
        """Formulas that are alike, of contiguous arrays, bound to them as one kernel; one by one
        where some do not lie at multiples of 16 bytes."""
        first = calls[0]
        asked = frozenset(i for i, o in enumerate(operands[0]) if isinstance(o, Slot))
        inputs = inputs_of(first, asked)
        arrays = [
            [*(o for o in given if isinstance(o, Array)), *made]
            for given, made in zip(operands, outs, strict=True)
        ]
        rows = [[self.address(a) for a in row] for row in arrays]
        if inputs is None or any(place % 16 for row in rows for place in row):
            steps = [self.bind(*each) for each in zip(calls, operands, outs, runners, strict=True)]
            return lambda: [step() for step in steps]
        kinds = tuple(s.dtype.name for s in first.out_specs)
        program = program_of(first.roots, inputs, kinds, arithmetic_type(first.compute).name)
        numbers = [
            self.numbers.address(o) if isinstance(o, Slot) else o
            for o in operands[0]
            if not isinstance(o, Array)
        ]
        launch = launch_of(self, program, rows, [c.out_specs[0].numel for c in calls], numbers)

        def bound() -> None:
            if asked:
                self.numbers.write()
            launch()

        return bound

    def sequence(self, steps: list[Callable[[], Any]]) -> Callable[[], Any]:
        """Many bound steps as one graph launch."""
        return GraphSegment(self.driver, self.memory, steps)

    def _by_host(self, call: Call) -> Runner:
        """Run a call with the host's kernels."""
        specs = tuple(s.with_device(CPU) for s in call.out_specs)
        moved = call.with_specs(_host_specs(call.in_specs), specs)
        inner: list[Runner] = []

        def run(*operands: Any) -> Any:
            if not inner:
                inner.append(self.host.prepare(moved))
            given = tuple(self._moved(o) for o in operands)
            made = inner[0](*given)
            if call.writes:
                for position in call.writes:
                    self.copy(operands[position], self.to_device(given[position]))
                written = [operands[p] for p in call.writes]
                return written[0] if len(written) == 1 else tuple(written)
            if isinstance(made, tuple):
                return tuple(self.to_device(m) for m in made)
            return self.to_device(made)

        run.by_host = True  # type: ignore[attr-defined]
        return run

    def _moved(self, operand: Any) -> Any:
        if isinstance(operand, Array):
            return self.to_host(operand) if operand.spec.device is not CPU else operand
        if isinstance(operand, (tuple, list)):
            return type(operand)(self._moved(o) for o in operand)
        return operand


def _host_specs(tree: Any) -> Any:
    if isinstance(tree, Spec):
        return spec_of(tree.shape, contiguous_strides(tree.shape), tree.dtype, CPU)
    if isinstance(tree, (tuple, list)):
        return type(tree)(_host_specs(t) for t in tree)
    return tree
