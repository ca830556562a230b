"""`Captured`: a function that is recorded at its first call and replayed after, where that is
right."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from ember.capture.background import background
from ember.capture.gradients import Boundary, Graph, bounded, is_random, leaves_of, rerun
from ember.capture.guards import PLAIN, Guard, Reached
from ember.capture.program import Program, input_storage
from ember.capture.recorder import Recorder, is_shared, shifted
from ember.core import modes
from ember.core.array import _copy, copy_of
from ember.core.executor import current_executor, set_executor
from ember.core.node import NO_EDGE
from ember.core.tensor import Tensor, tensor_of
from ember.device import META
from ember.device import device as Device
from ember.dtypes import dtype as DType
from ember.kernel.array import Array
from ember.layout import Size, like_strides
from ember.pytree import tree_flatten, tree_unflatten

MOST = 8  # recordings of one function, as PyTorch's recompile limit

PATIENCE = 3  # recordings of a forward pass without a backward pass

STANCE = ["default"]  # torch.compiler.set_stance

CONSTANT = (Size, DType, Device, type(Ellipsis))  # results that are the same each time

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
        self.grads: Grads = []  # those that the function gives to leaves
        self.references: list[int] = []
        self.graph: Graph | None = None
        self.again: Any = None
        self.wants_bounds = False  # whether the next call is recorded with boundaries

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

    def is_usable(self) -> bool:
        """Whether no earlier run would be disturbed by a replay."""
        return self.graph is None or self.graph.is_free()

    def is_ready(self) -> bool:
        """Whether its programs are made; those that cannot be leave it to run eagerly."""
        programs = [self.program, self.graph.program if self.graph else None]
        ready = True
        for program in programs:
            if program is not None and not program.is_ready:
                ready = False
                self.eager = self.eager or program.failure
        if not ready:
            background.start()
        return ready

    def result(self, leaves: list[Any]) -> Any:
        """What the function returns, with tensors of its own."""
        found: list[Any] = []
        for kind, value in self.outputs:
            found.append(found[value] if kind == "same" else _output((kind, value), leaves))
        if self.graph is not None:
            self.graph.attach(found, leaves, self.again)
        return tree_unflatten(found, self.structure)


def _output(output: Any, leaves: list[Any]) -> Any:
    kind, value = output
    if kind == "argument":
        return leaves[value]
    if kind == "view":
        position, spec, offset = value
        return leaves[position].as_strided(
            spec.shape, spec.strides, leaves[position]._array.offset + offset
        )
    if kind in ("place", "leaf"):
        made = tensor_of(copy_of(value, like_strides(value.spec.shape, value.spec.strides)))
        return made.requires_grad_() if kind == "leaf" else made
    return value


class Run(NamedTuple):
    """What is known of the run that was recorded: its arguments, as `given` to the function with
    boundaries, and the numbers of their storages."""

    recorder: Recorder
    reached: Reached
    leaves: list[Any]
    given: list[Any]
    nodes: list[Boundary]
    arguments: dict[int, int]


def _tensors(leaves: list[Any]) -> list[Tensor]:
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _changed(before: Grads) -> Grads:
    """The gradients of leaves that are not what they were."""
    return [(leaf, leaf.grad) for leaf, grad in before if leaf.grad is not grad]


def _is_used(grad: Any, recorder: Recorder) -> bool:
    """Whether a recording reads or writes a gradient that was there before."""
    return grad is not None and any(s is grad._array.storage for s in recorder.outside.values())


def _beyond(recorder: Recorder, given: list[Any], before: Grads) -> str | None:
    """Whether a backward pass inside the function leaves it through its arguments."""
    if _changed(before):
        return "it gives an argument a gradient"
    if any(t.grad_fn in recorder.consumed for t in _tensors(given) if t.grad_fn is not None):
        return "its backward pass goes on beyond an argument"
    return None


def _with_originals(result: Any, given: list[Any], leaves: list[Any]) -> Any:
    """A result with the arguments themselves where the function returned what stood for them."""
    if given is leaves:
        return result
    found = {id(a): b for a, b in zip(given, leaves, strict=True) if a is not b}
    values, structure = tree_flatten(result)
    return tree_unflatten([found.get(id(v), v) for v in values], structure)


class Captured:
    """A function in the place of `function`; `strict` makes an error of what cannot be recorded."""

    def __init__(self, function: Callable[..., Any], strict: bool = False):
        self.function, self.strict = function, strict
        self.recordings: list[Recording] = []
        self.reasons: list[str] = []  # why there was a recording after the first
        self.unfinished = 0  # graphs whose backward pass never came
        self.most = MOST

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Replay, record, or run."""
        executor = current_executor()
        if executor is not None and executor.steps_aside:
            set_executor(None)  # recordings are programs already
            try:
                return self(*args, **kwargs)
            finally:
                set_executor(executor)
        stance = STANCE[0]
        state = modes.state
        if executor is not None or state.levels or state.functions:
            return self.function(*args, **kwargs)
        if state.saved_hooks or state.forward:
            return self.function(*args, **kwargs)
        if stance == "force_eager":
            return self.function(*args, **kwargs)
        leaves, structure = tree_flatten((args, kwargs))
        reason, bounds = None, False
        for position, recording in enumerate(self.recordings):
            failed = recording.guard.fails(leaves, structure)
            if failed is None:
                bounds = recording.wants_bounds
                if self._is_complete(recording):
                    if not (recording.is_usable() and recording.is_ready()):
                        return self.function(*args, **kwargs)
                    if not recording.is_held():
                        return recording.replay(leaves)
                elif recording.eager is not None or not recording.is_usable():
                    return self.function(*args, **kwargs)
                del self.recordings[position]
                break
            reason = reason or failed
        if stance == "fail_on_recompile" and reason is not None:
            raise RuntimeError(f"torch.compile: fail_on_recompile, and {reason}")
        if len(self.recordings) >= self.most or (stance.startswith("eager_on") and self.recordings):
            return self.function(*args, **kwargs)
        if reason is not None:
            self.reasons.append(reason)
        return self._record(leaves, structure, bounds)

    def _is_complete(self, recording: Recording) -> bool:
        """Whether a recording has its program, and that of its backward pass where there is one;
        if a backward pass never comes, calls run eagerly after a few attempts."""
        graph = recording.graph
        if graph is not None and graph.program is None:
            if graph.refusal is None and graph.is_free():
                self.unfinished += 1
                if self.unfinished > PATIENCE:
                    graph.refusal = "no backward pass came for its results, which need gradients"
            if graph.refusal is not None:
                recording.eager, recording.program, recording.graph = graph.refusal, None, None
            return False
        return recording.program is not None

    def _record(self, leaves: list[Any], structure: Any, bounds: bool) -> Any:
        given, nodes = bounded(leaves) if bounds else (leaves, [])
        args, kwargs = tree_unflatten(given, structure)
        reached = Reached(self.function, leaves)
        if reached.is_unfinished():
            return _with_originals(self.function(*args, **kwargs), given, leaves)
        recording = Recording(Guard(leaves, structure, reached))
        recorder = Recorder(self.strict)
        recorder.before_host = lambda: _setter(grads_of(reached.leaves))
        recorder.leaves = frozenset(map(id, reached.leaves))
        arguments = _argument_storages(recorder, leaves)
        recording.eager = _refusal(leaves, reached)
        if recording.eager is not None:
            self.recordings.insert(0, recording)
            return self.function(*args, **kwargs)
        before = grads_of(reached.leaves), grads_of([t for t in _tensors(given) if t.is_leaf])
        kept = self._before(leaves, reached)
        outer = set_executor(recorder)
        try:
            result = self.function(*args, **kwargs)
        finally:
            set_executor(outer)
        if recorder.postponed:
            return _with_originals(result, given, leaves)
        run = Run(recorder, reached, leaves, given, nodes, arguments)
        recording.eager = recorder.broken or recorder.refusal or reached.changed()
        if recording.eager is None and not recorder.instructions:
            recording.eager = "it has no work for a device"
        if recording.eager is None:
            recording.eager = _beyond(recorder, given, before[1])
        if recording.eager is None:
            recording.grads = _changed(before[0])
            recording.again = rerun(self.function, structure)
            recording.eager = self._finish(recording, run, result)
        self.recordings.insert(0, recording)
        if recording.program is None:
            return _with_originals(result, given, leaves)
        return self._first(recording, run, kept)

    def _before(self, leaves: list[Any], reached: Reached) -> Any:
        """What is to be known of the time before a call that is recorded."""

    def _first(self, recording: Recording, run: Run, before: Any) -> Any:
        """What a call returns that was recorded: copies, since what the program writes stays
        inside."""
        for position, array in recording.inputs:
            _copy(array, run.leaves[position]._array)
        return recording.result(run.leaves)

    def _finish(self, recording: Recording, run: Run, result: Any) -> str | None:
        """Make the program of a recording; why not, if it cannot be."""
        recorder, reached, leaves, _, _, arguments = run
        known = {id(t._array.storage) for t in reached.tensors}
        known |= {id(t.grad._array.storage) for t in reached.leaves if t.grad is not None}
        known |= recorder.held
        for number, storage in recorder.outside.items():
            expected = number in arguments or number in recorder.constants
            if not expected and id(storage) not in known and storage.device is not META:
                return "it uses a tensor that is neither an argument nor found in its surroundings"
        if any(
            o.spec is not None and o.spec.device is META
            for i in recorder.instructions
            for o in i.outs
        ):
            return "it works on meta, where nothing is to be done"
        if any(is_shared(recorder.outside[n]) for n in recorder.constants):
            return "it uses the memory of a NumPy array"
        if any(recorder.constants.get(n, 0) is None for n in recorder.written):
            return "it writes into a large array that it makes of Python's values"
        reason = self._outputs(recording, run, result)
        if reason is not None:
            return None if recording.wants_bounds else reason
        shifts = {n: leaves[p]._array.offset for n, p in arguments.items()}
        recorder.instructions = [shifted(i, shifts) for i in recorder.instructions]
        inputs = {n: input_storage(leaves[p]._array) for n, p in arguments.items()}
        recording.program = Program(recorder, inputs)
        for number, position in arguments.items():
            array = Array(inputs[number], leaves[position]._array.spec, 0)
            recording.inputs.append((position, array))
            if number in recorder.written:
                recording.returned_to.append((position, array))
        recording.outputs = [
            (kind, recording.program.array(value)) if kind in ("place", "leaf") else (kind, value)
            for kind, value in recording.outputs
        ]
        if recording.graph is not None:
            graph = recording.graph
            graph.known = known | {id(s) for s in recording.program.storages.values()}
            for number, position in arguments.items():
                array = leaves[position]._array
                graph.given[id(array.storage)] = (array.storage, inputs[number], array.offset)
        recorder.consumed.clear()
        kept = [(t, t.grad) for t in reached.leaves if _is_used(t.grad, recorder)]
        if kept:
            recorder.checks.append(lambda: all(leaf.grad is grad for leaf, grad in kept))
        recording.guard.checks, recording.guard.tape = recorder.checks, recording.program.tape
        recording.references = [
            sys.getrefcount(grad) if grad is not None else 0 for _, grad in recording.grads
        ]
        return None

    def _outputs(self, recording: Recording, run: Run, result: Any) -> str | None:
        graphed: list[int] = []
        values, recording.structure = tree_flatten(result)
        memory: dict[int, int] = {}
        for index, value in enumerate(values):
            if isinstance(value, Tensor):
                first = memory.setdefault(id(value._array.storage), index)
                if values[first] is not value:
                    return "two of its results share memory"
                if first != index:
                    recording.outputs.append(("same", first))
                    continue
            output = _described(value, recording, run)
            if isinstance(output, str):
                return output
            recording.outputs.append(output)
            needs = isinstance(value, Tensor) and output[0] == "place" and value.requires_grad
            if needs and not run.recorder.is_used_up(value._grad_fn):
                graphed.append(index)
        return self._graph(recording, run, values, graphed) if graphed else None

    def _graph(
        self, recording: Recording, run: Run, values: list[Any], graphed: list[int]
    ) -> str | None:
        """Keep the graph of results that need gradients."""
        recorder, reached, leaves, given, nodes, arguments = run
        if recording.grads:
            return "it runs backward and returns what needs gradients: detach that"
        wanted = [p for p, v in enumerate(given) if isinstance(v, Tensor) and v.requires_grad]
        for number, position in arguments.items():
            if number in recorder.written and position in wanted:
                return "it writes into an argument that needs gradients"
        if any(leaves[p].grad_fn is not None for p in wanted) and not nodes:
            recording.wants_bounds = True
            return "its arguments have a history"
        for node in nodes:
            node.edges = (NO_EDGE,)
        outputs = [values[i] for i in graphed]
        known = {id(t) for t in reached.leaves}
        mine = {id(given[p]) for p in wanted}
        found = [t for t in leaves_of(outputs) if id(t) not in mine]
        if not all(id(t) in known for t in found):
            return "its gradients go to tensors that are not found in its surroundings"
        inputs = [given[p] for p in wanted] + found
        recording.graph = Graph(outputs, graphed, inputs, wanted)
        recording.graph.random = is_random(recorder)
        return None

    def wait(self) -> None:
        """Return when the programs of the calls so far are made."""
        background.wait()
        for recording in self.recordings:
            recording.is_ready()

    def report(self) -> str:
        """What became of the calls: recordings with their sizes, or why calls run eagerly; waits
        for programs that are being made."""
        self.wait()
        lines = []
        for recording in self.recordings:
            program = recording.program
            if program is None or recording.eager is not None:
                lines.append(f"eager: {recording.eager}")
            else:
                size = program.planned_bytes / 2**20
                lines.append(
                    f"{program.count} steps in {len(program.steps)}, {size:.1f} MiB of planned "
                    "memory"
                )
        return "\n".join([*lines, *(f"recorded again: {r}" for r in self.reasons)])


def _described(value: Any, recording: Recording, run: Run) -> tuple[str, Any] | str:
    """How a replay gives a result: its kind and what that needs; or why it cannot."""
    recorder, reached, leaves, given, _, arguments = run
    position = next((i for i, leaf in enumerate(given) if leaf is value), None)
    if not isinstance(value, Tensor):
        if position is None and type(value) not in PLAIN and not isinstance(value, CONSTANT):
            return f"it returns a {type(value).__name__}, which a replay cannot make"
        return "value", value
    if position is not None:
        return "argument", position
    if any(value is t for t in (*reached.tensors, *(g for _, g in recording.grads))):
        return "value", value
    if type(value) is not Tensor:
        return f"it returns a {type(value).__name__}, which a replay cannot make"
    place = recorder.place(value._array)
    number = place.storage
    if number not in recorder.outside or number in recorder.constants:
        return "leaf" if value.requires_grad and value.is_leaf else "place", place
    if number not in arguments:
        return "it returns a view of a tensor that was there before"
    argument, gradients = leaves[arguments[number]]._array, leaves[arguments[number]].requires_grad
    if gradients or place.spec.dtype is not argument.spec.dtype:
        return "it returns a view of an argument that a replay cannot make"
    return "view", (arguments[number], place.spec, place.offset - argument.offset)


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
    tensors = _tensors(leaves)
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
