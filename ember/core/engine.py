"""The gradient engine: runs the graph backwards, each node once all its gradients have arrived. No
recursion."""

from __future__ import annotations

import heapq
import itertools
import sys
from _thread import _local  # threading.local, without the import of threading
from collections.abc import Callable, Sequence
from typing import Any

from ember.core import modes
from ember.core.array import copy_of, is_whole
from ember.core.node import AccumulateGrad, Edge, Node, hooked
from ember.core.slot import executor_slot
from ember.core.tensor import Tensor, connected
from ember.errors import check
from ember.kernel.array import Spec
from ember.layout import broadcasts_to, like_strides

# references to a gradient that only the engine holds, counted in `_take`; tests hold it to be so
FRESH = 5
anomaly: list[Any] = [None]  # autograd/anomaly.py: told of each node before and after it runs


class _Running(_local):
    task: _Task | None = None  # the innermost backward pass of this thread


_running = _Running()
_numbers = itertools.count(1)


def pass_number() -> int:
    """The number of the backward pass that is running in this thread; 0 outside."""
    return 0 if _running.task is None else _running.task.number


def queue_callback(callback: Callable[[], None]) -> None:
    """Call `callback()` when the backward pass that is running in this thread is over.

    RuntimeError outside of one.
    """
    check(
        _running.task is not None,
        RuntimeError,
        "Final callbacks can only be installed during backward pass.",
    )
    assert _running.task is not None
    _running.task.callbacks.append(callback)


def takes_part(node: Node) -> bool:
    """Whether the running backward pass brings a gradient to a node."""
    task = _running.task
    return task is not None and (node in task.waiting or node in task.roots) and task.sees(node)


class _Task:
    """One backward pass."""

    def __init__(self, retain_graph: bool, create_graph: bool):
        self.retain_graph, self.create_graph = retain_graph, create_graph
        self.number = next(_numbers)
        self.roots: set[Node] = set()
        self.waiting: dict[Node, int] = {}
        self.buffers: dict[Node, list[Any]] = {}
        self.heap: list[tuple[int, int, Node]] = []
        self.captures: dict[Edge, int] = {}
        self.results: list[Any] = []
        self.needed: set[Node] | None = None
        self.callbacks: list[Callable[[], None]] = []

    def sees(self, node: Node) -> bool:
        """Whether the node runs, or its gradient is one that was asked for."""
        return (
            self.needed is None or node in self.needed or any(node is n for n, _ in self.captures)
        )

    def deliver(self, node: Node, index: int, grad: Any) -> None:
        """Add a gradient to an output of a node."""
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = [None] * len(node.out_specs)
        known = buffer[index]
        buffer[index] = grad if known is None else _sum(known, grad)

    def push(self, node: Node) -> None:
        """All gradients of the node are there."""
        heapq.heappush(self.heap, (-node.sequence, id(node), node))


def run(
    roots: list[Edge],
    grads: list[Any],
    *,
    retain_graph: bool,
    create_graph: bool,
    inputs: list[Edge] | None = None,
    accumulate: bool = True,
) -> list[Any]:
    """Send `grads` into the graph at `roots`. With `inputs`, only what leads to them runs.

    Returns the gradients that arrived at `inputs` (None where none did) unless they are accumulated
    into `.grad`.
    """
    task = _Task(retain_graph, create_graph)
    nodes = task.roots = {node for node, _ in roots if node is not None}
    order = _discover(task, nodes)
    if inputs is not None:
        task.results = [None] * len(inputs)
        if accumulate:
            task.needed = _leading_to({node for node, _ in inputs}, order) | {
                node for node, _ in inputs
            }
        else:
            task.captures = {}
            for position, edge in enumerate(inputs):
                task.captures.setdefault(edge, position)
            task.needed = _leading_to({node for node, _ in inputs}, order)
    for (node, index), grad in zip(roots, grads, strict=True):
        task.deliver(node, index, grad)
    for node in nodes:
        if task.waiting.get(node, 0) == 0:
            task.push(node)
    before, outer = modes.state.grad, _running.task
    modes.state.grad, _running.task = create_graph, task
    try:
        _run_all(task)
        for callback in task.callbacks:
            callback()
    finally:
        modes.state.grad, _running.task = before, outer
    if executor_slot[0] is not None and not retain_graph:
        executor_slot[0].used_up(order)
    if inputs is not None:
        return [task.results[task.captures.get(edge, i)] for i, edge in enumerate(inputs)]
    return []


def _discover(task: _Task, roots: set[Node]) -> list[Node]:
    """Count how many gradients each node waits for; every node, users before what they use is not
    promised."""
    seen, stack, order = set(roots), list(roots), []
    waiting = task.waiting
    while stack:
        node = stack.pop()
        order.append(node)
        for target, _ in node.edges:
            if target is not None:
                waiting[target] = waiting.get(target, 0) + 1
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
    return order


def _leading_to(targets: set[Node], nodes: list[Node]) -> set[Node]:
    """The nodes from which a target can be reached (targets themselves only if they lead to
    another)."""
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        for target, _ in node.edges:
            if target is not None:
                users.setdefault(target, []).append(node)
    found: set[Node] = set()
    stack = list(targets)
    while stack:
        for user in users.get(stack.pop(), ()):
            if user not in found:
                found.add(user)
                stack.append(user)
    return found


def _run_all(task: _Task) -> None:
    """Run nodes as they become ready, until none is left. Where nobody looks on, that takes less
    than a step by itself."""
    heap, buffers, waiting = task.heap, task.buffers, task.waiting
    pop, push = heapq.heappop, heapq.heappush
    plain = task.needed is None and not task.captures and anomaly[0] is None
    keeps = task.retain_graph
    while heap:
        node = pop(heap)[2]
        if hooked[0] or not plain or node not in buffers:
            _step(task, node)
            continue
        if type(node) is AccumulateGrad:
            leaf = node._leaf()
            if leaf is None or leaf._backward_hooks:
                _step(task, node)
            else:
                del leaf
                _accumulate(task, node, buffers.pop(node))
            continue
        grads = buffers.pop(node)
        results: Any = node.apply(grads)
        edges = node.edges
        if len(results) < len(edges):
            _lacks(node, results)
        if not keeps:
            node.release()
        del grads
        for position, ((target, index), grad) in enumerate(zip(edges, results)):
            if target is None:
                continue
            if grad is not None:
                found, wanted = grad._array.spec, target.out_specs[index]
                if found is not wanted and not _fits(found, wanted):
                    grad = _validated(grad, target, index, node, position)
                buffer = buffers.get(target)
                if buffer is None and len(target.out_specs) == 1:
                    buffers[target] = [grad]
                else:
                    task.deliver(target, index, grad)
            left = waiting[target] = waiting[target] - 1
            if left == 0:
                push(heap, (-target.sequence, id(target), target))
        results = grad = None  # else the next node would find its gradients in use


def _step(task: _Task, node: Node) -> None:
    grads = task.buffers.pop(node, None)
    if grads is None:
        grads = [None] * len(node.out_specs)
    needed = task.needed is None or node in task.needed
    captured = (
        [(i, task.captures.get((node, i))) for i in range(len(grads))] if task.captures else []
    )
    if needed or any(position is not None for _, position in captured):
        if node.__dict__ or isinstance(node, AccumulateGrad):
            _tensor_hooks(node, grads)
    for index, position in captured:
        if position is not None:
            task.results[position] = grads[index]
    if not needed:
        _pass_nothing(task, node)
        return
    if isinstance(node, AccumulateGrad):
        if grads[0] is not None:
            if not node.__dict__:
                _accumulate(task, node, grads)
                return
            _pre_hooks(node, grads)
            seen = tuple(grads) if node.__dict__.get("_post_hooks") else ()
            _accumulate(task, node, grads)
            _post_hooks(node, [], seen)
        return
    if grads[0] is None and all(g is None for g in grads):
        _pass_nothing(task, node)
        return
    results = _apply(task, node, grads)
    del grads
    waiting = task.waiting
    for position, (target, index) in enumerate(node.edges):
        if target is None:
            continue
        grad, results[position] = results[position], None
        if grad is not None:
            found, wanted = grad._array.spec, target.out_specs[index]
            if found is not wanted and not _fits(found, wanted):
                grad = _validated(grad, target, index, node, position)
            task.deliver(target, index, grad)
            del grad
        left = waiting[target] = waiting[target] - 1
        if left == 0:
            task.push(target)


def _pre_hooks(node: Node, grads: list[Any]) -> None:
    extra = node.__dict__
    for hook in tuple(extra.get("_pre_hooks", {}).values()) if extra else ():
        replaced = hook(tuple(grads))
        if replaced is not None:
            grads[:] = replaced if isinstance(replaced, (tuple, list)) else [replaced]


def _post_hooks(node: Node, results: list[Any], grads: tuple[Any, ...]) -> list[Any]:
    extra = node.__dict__
    for hook in tuple(extra.get("_post_hooks", {}).values()) if extra else ():
        replaced = hook(tuple(results), grads)
        if replaced is not None:
            results = list(replaced) if isinstance(replaced, (tuple, list)) else [replaced]
    return results


def _fits(found: Spec, wanted: Spec) -> bool:
    """Whether a gradient needs no change to be that of a value."""
    return (
        found.shape == wanted.shape
        and found.dtype is wanted.dtype
        and found.device is wanted.device
    )


def _apply(task: _Task, node: Node, grads: list[Any]) -> list[Any]:
    if node.__dict__:
        _pre_hooks(node, grads)
    guard = anomaly[0]
    results = list(node.apply(grads)) if guard is None else guard(node, grads)
    if len(results) < len(node.edges):
        _lacks(node, results)
    if node.__dict__:
        results = _post_hooks(node, results, tuple(grads))
    if not task.retain_graph:
        node.release()
    return results


def _lacks(node: Node, results: Sequence[Any]) -> None:
    raise RuntimeError(
        f"{node.name()} returned an incorrect number of gradients (expected {len(node.edges)}, got "
        f"{len(results)})"
    )


def _pass_nothing(task: _Task, node: Node) -> None:
    for target, _ in node.edges:
        if target is not None:
            task.waiting[target] -= 1
            if task.waiting[target] == 0:
                task.push(target)


def _tensor_hooks(node: Node, grads: list[Any]) -> None:
    if isinstance(node, AccumulateGrad):
        leaf = node.variable
        hooks = {0: leaf._backward_hooks or {}} if leaf is not None else {}
    else:
        hooks = node.__dict__.get("_tensor_hooks", {}) if node.__dict__ else {}
    for index, known in hooks.items():
        for key in sorted(known, key=lambda k: k < 0):  # retained gradients see what the hooks made
            hook = known.get(key)
            if grads[index] is not None and hook is not None:
                replaced = hook(grads[index])
                if replaced is not None:
                    check(
                        isinstance(replaced, Tensor),
                        TypeError,
                        f"expected Variable, but hook returned '{type(replaced).__name__}'",
                    )
                    check(
                        replaced._array.shape == grads[index]._array.shape,
                        RuntimeError,
                        f"hook '{getattr(hook, '__name__', hook)}' has changed the size of value",
                    )
                    grads[index] = replaced


def _validated(grad: Any, target: Node, index: int, node: Node, position: int) -> Any:
    """The gradient in the shape, dtype and on the device of the value that it belongs to."""
    wanted, found = target.out_specs[index], grad._array.spec
    if found.shape != wanted.shape:
        check(
            broadcasts_to(wanted.shape, found.shape),
            RuntimeError,
            lambda: (
                f"Function {node.name()} returned an invalid gradient at index {position} - got "
                f"{list(found.shape)} but expected shape compatible with {list(wanted.shape)}"
            ),
        )
        grad = grad.sum_to_size(wanted.shape)
    if found.dtype is not wanted.dtype:
        grad = grad.real if found.dtype.is_complex and not wanted.dtype.is_complex else grad
        grad = grad.to(wanted.dtype)
    check(
        found.device is wanted.device,
        RuntimeError,
        lambda: (
            f"Function {node.name()} returned an invalid gradient at index {position} - expected "
            f"device {wanted.device} but got {found.device}"
        ),
    )
    return grad


def _accumulate(task: _Task, node: AccumulateGrad, grads: list[Any]) -> None:
    variable = node.variable
    if variable is None:
        return
    known = variable._grad
    if task.create_graph:
        variable._grad = grads[0] if known is None else _sum(known, grads[0])
    elif known is None:
        variable._grad = _take(grads, variable)
    elif known._requires_grad or known._array.kind != "strided":
        variable._grad = _sum(known, grads[0])
    else:
        known.add_(grads[0])
    if variable._post_accumulate_hooks:
        for hook in tuple(variable._post_accumulate_hooks.values()):
            hook(variable)


def _sum(known: Any, grad: Any) -> Any:
    """Two gradients added; the dense one first, if the other is sparse."""
    if known._array.kind != "strided" and grad._array.kind == "strided":
        return grad + known
    return known + grad


def _take(grads: list[Any], variable: Tensor) -> Tensor:
    """The gradient as a tensor of its own: as it is where nothing else can see it, else a copy.

    It has the variable's strides, so that optimizers and `view` find the two alike.
    """
    grad = grads.pop()
    array, wanted = grad._array, variable._array.spec.strides
    if array.kind != "strided":  # its parts are never written
        return connected(array, None)
    alone = sys.getrefcount(grad) <= FRESH - 3 and sys.getrefcount(array) <= FRESH - 2
    alone = alone and sys.getrefcount(array.storage) <= 2 and is_whole(array)
    if alone and array.strides == wanted:
        return connected(array, None)
    return connected(copy_of(array, like_strides(array.shape, wanted)), None)
