"""Recordings whose results need gradients: one node stands for their whole graph, and the backward
pass is recorded when it first runs.

The graph of the recording's own run is kept until then. A later run writes into the memory that the
recorded backward pass reads, so only one run at a time may wait for its backward pass.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ember.autograd.backward import grad as gradients
from ember.capture.program import Program
from ember.capture.recorder import Recorder, shifted
from ember.core import modes
from ember.core.array import _copy, copy_of, empty, full
from ember.core.executor import current_executor, set_executor
from ember.core.node import NO_EDGE, AccumulateGrad, Node, edge_of
from ember.core.tensor import Tensor, connected, tensor_of
from ember.errors import check
from ember.kernel.array import Array, Storage, contiguous_spec
from ember.kernel.call import Call
from ember.layout import like_strides
from ember.pytree import tree_flatten, tree_unflatten

TWICE = (
    "Trying to backward through the graph a second time: what a compiled function saved for its "
    "backward pass is freed by the first. Specify retain_graph=True there."
)
CHANGED = (
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation: a parameter or argument of a compiled function, since its forward pass"
)


class Boundary(Node):
    """Where an argument with a history enters a function: its graph ends here while it is cut."""

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """The gradient itself."""
        return (grads[0],)


def bounded(leaves: list[Any]) -> tuple[list[Any], list[Boundary]]:
    """Arguments with boundaries at those that have a history."""
    found, nodes = [], []
    for leaf in leaves:
        if isinstance(leaf, Tensor) and leaf.grad_fn is not None:
            node = Boundary((edge_of(leaf),), (leaf._array.spec,))
            nodes.append(node)
            leaf = connected(leaf._array, node)
        found.append(leaf)
    return found, nodes


def leaves_of(outputs: list[Tensor]) -> list[Tensor]:
    """The leaves that a graph leads to."""
    seen: set[Node] = set()
    stack: list[Any] = [edge_of(t)[0] for t in outputs]
    found = []
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, AccumulateGrad):
            found.append(node.variable)
        stack += [target for target, _ in node.edges]
    return found


class Graph:
    """The gradients of one recording's results.

    `outputs` are the results with their graph, at the places `positions` of the function's;
    `inputs` are the tensors that gradients go to: those of arguments, whose positions are
    `arguments`, then parameters.
    """

    def __init__(
        self,
        outputs: list[Tensor],
        positions: list[int],
        inputs: list[Tensor],
        arguments: list[int],
    ):
        self.outputs, self.positions = outputs, positions
        self.inputs, self.arguments = inputs, arguments
        self.parameters = inputs[len(arguments) :]
        self.specs = tuple(contiguous_spec(o.shape, o.dtype, o._array.spec.device) for o in outputs)
        self.refusal: str | None = None  # why the backward pass is not recorded
        self.program: Program | None = None
        self.places: list[Array | None] = []
        self.seeds: list[Array] = []
        self.used: list[Storage] = []  # memory of parameters that the backward pass reads
        self.random = False
        self.known: set[int] = set()
        self.given: dict[int, tuple[Storage, Storage, int]] = {}
        self.waiting: Callable[[], Any] = lambda: None

    def is_free(self) -> bool:
        """Whether no run waits for its backward pass."""
        node = self.waiting()
        return node is None or node.released

    def attach(
        self, found: list[Any], leaves: list[Any], again: Callable[[list[Any]], list[Any]]
    ) -> None:
        """Connect a run's results, among `found`, to a node that stands for the graph."""
        targets = [leaves[p] for p in self.arguments] + self.parameters
        node = CompiledBackward(tuple(map(edge_of, targets)), self.specs)
        node.graph, node.again, node.released = self, again, False
        node.leaves = leaves
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)] + self.parameters
        node.versions = [(t._array.storage, t._array.storage.version) for t in tensors]
        self.waiting = weakref.ref(node)
        for number, position in enumerate(self.positions):
            tensor = found[position]
            tensor._grad_fn, tensor._output_nr, tensor._requires_grad = node, number, True

    def backward(self, grads: list[Any]) -> list[Any]:
        """The gradients of the inputs: recorded the first time, then replayed."""
        if self.program is None:
            return self._record(grads)
        for seed, grad in zip(self.seeds, grads, strict=True):
            _write(seed, grad)
        self.program.run()
        return [
            None
            if place is None
            else tensor_of(copy_of(place, like_strides(place.spec.shape, place.spec.strides)))
            for place in self.places
        ]

    def _record(self, grads: list[Any]) -> list[Any]:
        self.seeds = [empty(spec) for spec in self.specs]
        for seed, grad in zip(self.seeds, grads, strict=True):
            _write(seed, grad)
        recorder = Recorder()
        hooks = [(p, p._backward_hooks) for p in self.inputs]
        outer = set_executor(recorder)
        try:
            for parameter, _ in hooks:
                parameter._backward_hooks = None  # they run where the gradients arrive
            found = gradients(
                self.outputs, self.inputs, [tensor_of(s) for s in self.seeds], allow_unused=True
            )
        finally:
            set_executor(outer)
            for parameter, known in hooks:
                parameter._backward_hooks = known
        sparse = any(g is not None and g._array.kind != "strided" for g in found)
        reason = "its gradients are sparse" if sparse else None
        self.refusal = recorder.broken or reason or self._finish(recorder, found)
        self.outputs = []
        return [None if g is None else _own(g) for g in found]

    def _finish(self, recorder: Recorder, found: Any) -> str | None:
        seeds = {id(s.storage) for s in self.seeds}
        inputs, shifts = {}, {}
        for number, storage in recorder.outside.items():
            if number in recorder.constants:
                continue
            if id(storage) in self.given:
                _, inputs[number], shifts[number] = self.given[id(storage)]
            elif id(storage) not in self.known | seeds:
                return "its backward pass uses memory that its forward pass did not"
            if number in recorder.written:
                return "its backward pass writes into memory that was there before"
        places = [None if g is None else recorder.place(g._array) for g in found]
        recorder.instructions = [shifted(i, shifts) for i in recorder.instructions]
        program = Program(recorder, inputs)
        parameters = {id(t._array.storage) for t in self.parameters}
        self.used = [s for s in recorder.outside.values() if id(s) in parameters]
        self.places = [
            None
            if p is None
            else program.array(p._replace(offset=p.offset - shifts.get(p.storage, 0)))
            for p in places
        ]
        self.program = program
        return None


class CompiledBackward(Node):
    """Stands for the graph of one run of a compiled function."""

    __slots__ = ("again", "graph", "leaves", "released", "versions")
    graph: Graph
    again: Callable[[list[Any]], list[Any]]
    leaves: list[Any]
    released: bool
    versions: list[tuple[Storage, int]]

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """The gradients of arguments and parameters."""
        check(not self.released, RuntimeError, TWICE)
        graph = self.graph
        used = {id(s) for s in graph.used}
        changed = any(s.version != v for s, v in self.versions if id(s) in used)
        check(not changed, RuntimeError, CHANGED)
        recording = current_executor()
        if isinstance(recording, Recorder):
            recording.give_up("the graph of a compiled function is older than the recording")
        grads = [
            tensor_of(full(spec, 0)) if g is None else g
            for g, spec in zip(grads, graph.specs, strict=True)
        ]
        if modes.state.grad:
            return tuple(self._twice(grads))
        with modes.no_grad():
            return tuple(graph.backward(grads))

    def _twice(self, grads: list[Any]) -> list[Any]:
        """Gradients that have gradients themselves: of the function run again, as it is."""
        check(
            not self.graph.random,
            RuntimeError,
            "torch.compile does not currently support double backward through random numbers: "
            "call the function without compiling it",
        )
        check(all(s.version == v for s, v in self.versions), RuntimeError, CHANGED)
        graph = self.graph
        leaves, nodes = bounded(self.leaves)
        results = self.again(leaves)
        edges = [node.edges for node in nodes]
        for node in nodes:
            node.edges = (NO_EDGE,)
        try:
            found = gradients(
                [results[p] for p in graph.positions],
                [leaves[p] for p in graph.arguments] + graph.parameters,
                grads,
                create_graph=True,
                allow_unused=True,
            )
        finally:
            for node, before in zip(nodes, edges, strict=True):
                node.edges = before
        return list(found)

    def release(self) -> None:
        """Let the next run write into what this one saved."""
        self.released = True


def rerun(function: Callable[..., Any], structure: Any) -> Callable[[list[Any]], list[Any]]:
    """A function of flat arguments that gives the flat results of another."""

    def again(leaves: list[Any]) -> list[Any]:
        args, kwargs = tree_unflatten(leaves, structure)
        with modes.enable_grad():
            return tree_flatten(function(*args, **kwargs))[0]

    return again


def is_random(recorder: Recorder) -> bool:
    """Whether a recording draws random numbers."""
    return any(type(i.call) is Call for i in recorder.instructions)


def _write(seed: Array, grad: Tensor) -> None:
    _copy(seed, grad._array)


def _own(grad: Tensor) -> Tensor:
    """A copy: the program writes into the memory of its recording."""
    array = grad._array
    if array.kind != "strided":  # no program writes into it
        return grad
    return tensor_of(copy_of(array, like_strides(array.spec.shape, array.spec.strides)))
