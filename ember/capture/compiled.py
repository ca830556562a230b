"""`Captured`: a function that is recorded at its first call and replayed after, where that is
right."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ember.capture.guards import Guard, Reached
from ember.capture.program import Program, input_storage
from ember.capture.recorder import Instruction, Place, Recorder, places_in
from ember.core import modes
from ember.core.array import _copy, copy_of
from ember.core.executor import current_executor, set_executor
from ember.core.tensor import Tensor, tensor_of
from ember.device import META
from ember.kernel.array import Array
from ember.layout import like_strides
from ember.pytree import tree_flatten, tree_unflatten

MOST = 8  # recordings of one function, as PyTorch's recompile limit

STANCE = ["default"]  # torch.compiler.set_stance

Grads = list[tuple[Tensor, Any]]


def grads_of(leaves: list[Tensor]) -> Grads:
    """The gradients that leaves have now."""
    return [(leaf, leaf.grad) for leaf in leaves]


def set_grads(grads: Grads) -> None:
    """Give leaves these gradients."""
    for leaf, grad in grads:
        if leaf.grad is not grad:
            leaf.grad = grad


class Recording:
    """One recording of a function: its guard, and its program or why it has none."""

    def __init__(self, guard: Guard):
        self.guard = guard
        self.eager: str | None = None
        self.program: Program | None = None
        self.inputs: list[tuple[int, Array]] = []
        self.returned_to: list[tuple[int, Array]] = []  # arguments that the function writes
        self.outputs: list[Any] = []
        self.structure: Any = None
        self.grads: Grads = []
        self.references: list[int] = []

    def is_held(self) -> bool:
        """Whether the program of someone keeps a gradient that a replay would overwrite."""
        return any(
            grad is not None and sys.getrefcount(grad) > known
            for (_, grad), known in zip(self.grads, self.references, strict=True)
        )

    def replay(self, leaves: list[Any]) -> Any:
        """Do the recorded work for arguments."""
        assert self.program is not None
        for position, array in self.inputs:
            _copy(array, leaves[position]._array)
        self.program.run()
        for position, array in self.returned_to:
            _copy(leaves[position]._array, array)
            leaves[position]._array.storage.version += 1
        set_grads(self.grads)
        return self.result(leaves)

    def result(self, leaves: list[Any]) -> Any:
        """What the function returns, with tensors of its own."""
        found = [_output(output, leaves) for output in self.outputs]
        return tree_unflatten(found, self.structure)


def _output(output: Any, leaves: list[Any]) -> Any:
    kind, value = output
    if kind == "argument":
        return leaves[value]
    if kind == "array":
        return tensor_of(copy_of(value, like_strides(value.spec.shape, value.spec.strides)))
    return value


class Captured:
    """A function in the place of `function`; `strict` makes an error of what cannot be recorded."""

    def __init__(self, function: Callable[..., Any], strict: bool = False):
        self.function, self.strict = function, strict
        self.recordings: list[Recording] = []
        self.reasons: list[str] = []  # why there was a recording after the first

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Replay, record, or run."""
        stance = STANCE[0]
        if current_executor() is not None or modes.state.levels or modes.state.functions:
            return self.function(*args, **kwargs)
        if stance == "force_eager":
            return self.function(*args, **kwargs)
        leaves, structure = tree_flatten((args, kwargs))
        reason = None
        for position, recording in enumerate(self.recordings):
            failed = recording.guard.fails(leaves, structure)
            if failed is None:
                if recording.program is None:
                    return self.function(*args, **kwargs)
                if not recording.is_held():
                    return recording.replay(leaves)
                del self.recordings[position]
                break
            reason = reason or failed
        if stance == "fail_on_recompile" and reason is not None:
            raise RuntimeError(f"torch.compile: fail_on_recompile, and {reason}")
        if len(self.recordings) >= MOST or (stance.startswith("eager_on") and self.recordings):
            return self.function(*args, **kwargs)
        if reason is not None:
            self.reasons.append(reason)
        return self._record(args, kwargs, leaves, structure)

    def _record(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any], structure: Any
    ) -> Any:
        reached = Reached(self.function, leaves)
        recording = Recording(Guard(leaves, structure, reached))
        recorder = Recorder(self.strict)
        recorder.before_host = lambda: _setter(grads_of(reached.leaves))
        recorder.leaves = frozenset(map(id, reached.leaves))
        arguments = _argument_storages(recorder, leaves)
        recording.eager = _refusal(leaves, reached)
        if recording.eager is not None:
            self.recordings.insert(0, recording)
            return self.function(*args, **kwargs)
        outer = set_executor(recorder)
        try:
            result = self.function(*args, **kwargs)
        finally:
            set_executor(outer)
        if recorder.postponed:
            return result
        recording.eager = recorder.broken or recorder.refusal or reached.changed()
        if recording.eager is None and not recorder.instructions:
            recording.eager = "it has no work for a device"
        if recording.eager is None:
            recording.eager = self._finish(recording, recorder, reached, leaves, arguments, result)
        self.recordings.insert(0, recording)
        if recording.program is None:
            return result
        for position, array in recording.inputs:
            _copy(array, leaves[position]._array)
        return recording.result(leaves)  # copies: what the program writes stays inside

    def _finish(
        self,
        recording: Recording,
        recorder: Recorder,
        reached: Reached,
        leaves: list[Any],
        arguments: dict[int, int],
        result: Any,
    ) -> str | None:
        """Make the program of a recording; why not, if it cannot be."""
        known = {id(t._array.storage) for t in reached.tensors}
        known |= {id(t.grad._array.storage) for t in reached.leaves if t.grad is not None}
        known |= recorder.held
        for number, storage in recorder.outside.items():
            expected = number in arguments or number in recorder.constants
            if not expected and id(storage) not in known and storage.device is not META:
                return "it uses a tensor that is neither an argument nor found in its surroundings"
        if any(recorder.constants.get(n, 0) is None for n in recorder.written):
            return "it writes into a large array that it makes of Python's values"
        reason = self._outputs(recording, recorder, leaves, arguments, result)
        if reason is not None:
            return reason
        shifts = {n: leaves[p]._array.offset for n, p in arguments.items()}
        recorder.instructions = [_shifted(i, shifts) for i in recorder.instructions]
        inputs = {n: input_storage(leaves[p]._array) for n, p in arguments.items()}
        recording.program = Program(recorder, inputs)
        for number, position in arguments.items():
            array = Array(inputs[number], leaves[position]._array.spec, 0)
            recording.inputs.append((position, array))
            if number in recorder.written:
                recording.returned_to.append((position, array))
        recording.outputs = [
            ("array", recording.program.array(value)) if kind == "place" else (kind, value)
            for kind, value in recording.outputs
        ]
        recorder.consumed.clear()
        recording.guard.checks, recording.guard.tape = recorder.checks, recording.program.tape
        recording.grads = grads_of(reached.leaves)
        recording.references = [
            sys.getrefcount(grad) if grad is not None else 0 for _, grad in recording.grads
        ]
        return None

    def _outputs(
        self,
        recording: Recording,
        recorder: Recorder,
        leaves: list[Any],
        arguments: dict[int, int],
        result: Any,
    ) -> str | None:
        values, recording.structure = tree_flatten(result)
        for value in values:
            if not isinstance(value, Tensor):
                recording.outputs.append(("value", value))
                continue
            position = next((i for i, leaf in enumerate(leaves) if leaf is value), None)
            node = value._grad_fn
            if position is not None:
                recording.outputs.append(("argument", position))
            elif type(value) is not Tensor:
                recording.outputs.append(("value", value))
            elif value._requires_grad and not recorder.is_used_up(node):
                return "its result needs gradients: put backward into the function too"
            else:
                place = recorder.place(value._array)
                number = place.storage
                if number in arguments:
                    offset = place.offset - leaves[arguments[number]]._array.offset
                    place = place._replace(offset=offset)
                recording.outputs.append(("place", place))
        return None

    def report(self) -> str:
        """What became of the calls: recordings with their sizes, or why calls run eagerly."""
        lines = []
        for recording in self.recordings:
            program = recording.program
            if program is None:
                lines.append(f"eager: {recording.eager}")
            else:
                size = program.planned_bytes / 2**20
                lines.append(
                    f"{program.count} steps in {len(program.steps)}, {size:.1f} MiB of planned "
                    "memory"
                )
        return "\n".join([*lines, *(f"recorded again: {r}" for r in self.reasons)])


def _setter(grads: Grads) -> Callable[[], None]:
    return lambda: set_grads(grads)


def _argument_storages(recorder: Recorder, leaves: list[Any]) -> dict[int, int]:
    """The numbers of the storages of tensor arguments, with the argument's position."""
    found: dict[int, int] = {}
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            found.setdefault(recorder.number(leaf._array.storage), position)
    return found


def _refusal(leaves: list[Any], reached: Reached) -> str | None:
    """Why a call cannot be recorded at all."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    if any(t._requires_grad for t in tensors):
        return "an argument needs gradients"
    if any(type(t) is not Tensor or t._array.kind != "strided" for t in tensors):
        return "an argument is of a subclass of Tensor, or sparse"
    if any(t._array.spec.device is META for t in tensors):
        return "an argument is on meta"
    storages = [id(t._array.storage) for t in tensors]
    if len(set(storages)) != len(storages):
        return "two arguments share memory"
    held = {id(t._array.storage) for t in reached.tensors}
    if held & set(storages):
        return "an argument shares memory with a parameter or buffer"
    if reached.has_hooks():
        return "modules have forward hooks, which only Python runs"
    return None


def _shifted(instruction: Instruction, shifts: dict[int, int]) -> Instruction:
    """An instruction with arguments' places counted from the argument's first element."""
    if not any(shifts.get(p.storage) for p in places_in((instruction.operands, instruction.outs))):
        return instruction

    def move(tree: Any) -> Any:
        if isinstance(tree, Place):
            return tree._replace(offset=tree.offset - shifts.get(tree.storage, 0))
        if isinstance(tree, (tuple, list)):
            return type(tree)(move(item) for item in tree)
        return tree

    return instruction._replace(operands=move(instruction.operands), outs=move(instruction.outs))
