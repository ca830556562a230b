"""A recording bound to memory: every call has its arrays, and running it is calling a list of
functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.backends.base import kernels_of
from ember.backends.cpu.binding import bind
from ember.backends.cpu.errstate import enter, leave
from ember.backends.cpu.kernels import CpuKernels
from ember.capture.background import background
from ember.capture.fusion import Fusion
from ember.capture.gathering import gathered
from ember.capture.memory import bytes_to_end, plan, storage_of
from ember.capture.passes import steady, without_the_unread
from ember.capture.placing import placed
from ember.capture.recorder import Instruction, Place, Recorder, places_in
from ember.capture.repeated import without_repetitions
from ember.capture.summing import summed
from ember.capture.turning import turned
from ember.core.cells import Cell
from ember.device import CPU
from ember.errors import check
from ember.kernel.array import Array, Storage
from ember.kernel.number import Slot, called_with, has_slots

Step = Callable[[], Any]


class Program:
    """The instructions of a recording over storages of its own.

    `inputs` names the recording's storages that stand for arguments, each with the storage that an
    argument is copied into. Storages that were there before, and those that the function's results
    and gradients still use, stay what they are; all others share planned memory.
    """

    def __init__(self, recorder: Recorder, inputs: dict[int, Storage]):
        self.storages: dict[int, Storage] = {**recorder.outside, **inputs}
        instructions = [i for i in recorder.instructions if i.kind != "unused"]
        for number, reference in enumerate(recorder.storages):
            alive = reference()
            if number not in self.storages and alive is not None:
                self.storages[number] = alive
        self.tape = recorder._tape
        self.slots: dict[int, Slot] = {}  # of the numbers that are asked for at each run
        self.written = [self.storages[n] for n in sorted(recorder.written) if n in recorder.outside]
        self.restored: list[tuple[Storage, Any]] = []
        self.planned_bytes = self.count = 0
        self.names: list[str] = []
        self.steps: list[Step] = []
        self.is_ready = False
        self.failure: str | None = None  # why it cannot be made
        self._given = instructions, recorder.constants, recorder.written
        self._lasting = dict(self.storages)
        places = [p for i in instructions for p in places_in((i.operands, i.outs))]
        if all(p.spec is not None and p.spec.device is CPU for p in places):
            background.put(self._prepare)
        else:  # memory of GPUs is the business of the thread that runs
            self._make()

    def _prepare(self) -> None:
        """Make the program; an error is for the report, since the function can still run as it
        is."""
        try:
            self._make()
        except Exception as error:
            if background.at_once:
                raise
            self.failure = f"{type(error).__name__}: {error}"

    def _make(self) -> None:
        instructions, constants, written = self._given
        self.storages, self.slots = dict(self._lasting), {}  # it may be the second attempt
        fixed = set(self.storages)
        instructions = without_the_unread(instructions, fixed)
        instructions = without_repetitions(instructions, fixed)
        once, instructions = steady(instructions, fixed, set(constants) - written)
        instructions = turned(instructions, fixed)
        instructions = [i for i in Fusion(instructions, fixed).run() if i.kind != "unused"]
        instructions = summed(placed(instructions, fixed), fixed)
        instructions = gathered(instructions, fixed)
        self._do(once)
        self.planned_bytes = plan(instructions, self.storages)
        steps = [(self._bind(i), self._device(i)) for i in instructions]
        self.restored = [(self.storages[n], v) for n, v in constants.items() if n in written]
        self.count = len(instructions)
        self.names = [i.kind + " " + str(getattr(i.call, "name", "")) for i in instructions]
        self.steps = self._joined(steps)
        self._given, self._lasting = ([], {}, set()), {}
        self.is_ready = True

    def array(self, place: Place) -> Array:
        """A place as an array of the program's memory."""
        return Array(self.storages[place.storage], place.spec, place.offset)

    def run(self) -> None:
        """Do it all again; waits for what is still being made."""
        if not self.is_ready:
            background.wait()
            check(self.is_ready, RuntimeError, f"torch.compile: {self.failure}")
        values = self.tape.values
        for position, slot in self.slots.items():
            slot.set(values[position])
        token = enter()
        try:
            for storage, values in self.restored:
                storage.bytes()[:] = values
            for step in self.steps:
                step()
        finally:
            leave(token)
        for storage in self.written:
            storage.version += 1

    def _device(self, instruction: Instruction) -> Any:
        """The device that an instruction stays on; None for what involves the host."""
        if instruction.kind in ("host", "transfer"):
            return None
        return instruction.outs[0].spec.device

    def _joined(self, steps: list[tuple[Step, Any]]) -> list[Step]:
        """The steps, with runs of them that stay on one device made one where its backend can."""
        found: list[Step] = []
        run: list[Step] = []
        place: Any = None

        def finish() -> None:
            together = kernels_of(place).sequence(list(run)) if len(run) > 1 else None
            found.extend(list(run) if together is None else [together])
            run.clear()

        for step, device in steps:
            stays = device is not None and getattr(step, "on_device", True)
            if run and not (stays and device is place):
                finish()
            if stays:
                place = device
                run.append(step)
            else:
                found.append(step)
        if run:
            finish()
        return found

    # memory

    def _do(self, once: list[Instruction]) -> None:
        """Compute what stays the same, in memory of its own."""
        for instruction in once:
            for place in instruction.outs:
                size = bytes_to_end(place.spec, place.offset)
                self.storages[place.storage] = storage_of(max(size, 1), place.spec.device)
        token = enter()
        try:
            for instruction in once:
                self._bind(instruction)()
        finally:
            leave(token)

    # binding

    def _operand(self, operand: Any) -> Any:
        if isinstance(operand, Place):
            return self.array(operand)
        if isinstance(operand, Cell):
            return self.slots.setdefault(operand.position, Slot(float(operand)))
        if isinstance(operand, (tuple, list)) and places_in(operand):
            return type(operand)(self._operand(o) for o in operand)
        return operand

    def _bind(self, instruction: Instruction) -> Step:
        background.step()
        kind, call, operands, outs, now = instruction
        if kind == "host":
            return _host_step(call, operands[0])
        if kind == "transfer":
            source, target = self.storages[operands[0].storage], self.storages[outs[0].storage]
            return lambda: now(source, target)
        arrays = tuple(self.array(o) for o in outs)
        if kind == "together":
            return self._bind_together(call.calls, operands, arrays)
        if kind == "fill":
            step = called_with(now, (arrays[0], self._operand(call)))
            step.on_device = not isinstance(call, Cell)  # type: ignore[attr-defined]
            return step
        given = tuple(self._operand(o) for o in operands)
        if kind == "copy":
            return lambda: now(arrays[0], given[0])
        kernels = kernels_of(arrays[0].spec.device)
        if has_slots(given) and not kernels.takes_slots:
            return _with_numbers(kernels, call, given, arrays, now)
        return kernels.bind(call, given, arrays, now)

    def _bind_together(self, calls: Any, operands: Any, arrays: tuple[Array, ...]) -> Step:
        kernels = kernels_of(arrays[0].spec.device)
        given = tuple(tuple(self._operand(o) for o in each) for each in operands)
        waiting, outs = list(arrays), []
        for call in calls:
            outs.append(tuple(waiting.pop(0) for _ in call.out_specs))
        step: Step = kernels.bind_together(calls, given, outs, [kernels.prepare(c) for c in calls])
        return step


def _with_numbers(
    kernels: Any, call: Any, given: tuple[Any, ...], outs: tuple[Array, ...], runner: Any
) -> Step:
    """A call some of whose numbers change, on a device whose kernels take them as arguments."""
    shorter = bind(call, given, outs) if isinstance(kernels, CpuKernels) else None
    if shorter is not None:
        return shorter
    step = called_with(runner, given)
    if call.writes:
        return step

    def copied() -> None:
        made = step()
        for out, array in zip(outs, made if len(outs) > 1 else (made,), strict=True):
            kernels.copy(out, array)

    return copied


def _host_step(function: Step, before: Step | None) -> Step:
    def step() -> None:
        if before is not None:
            before()
        function()

    return step


def input_storage(array: Array) -> Storage:
    """A new storage that holds just the elements that an argument spans."""
    return storage_of(max(bytes_to_end(array.spec), 1), array.spec.device)
