"""Nodes of the gradient graph: what backward runs, what each keeps, and where its results go."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from ember.core import modes
from ember.core.hooks import Hooks, RemovableHandle, hook_into
from ember.kernel.array import Array, Spec

_sequence = itertools.count()
Edge = tuple[Any, int]  # (node or None, which of its outputs)
NO_EDGE: Edge = (None, 0)
hooked = [False]  # whether there has been a hook on a node: until then nobody looks for one
made_at: list[Callable[[], list[str]] | None] = [None]  # anomaly detection: where a node is made


class Node:
    """One recorded op. `edges` say where the gradients of its inputs go; `apply` computes them.

    Users see it as `tensor.grad_fn`.
    """

    __slots__ = ("__dict__", "__weakref__", "edges", "out_specs", "sequence")
    edges: tuple[Edge, ...]
    out_specs: tuple[Spec, ...]

    def __init__(self, edges: tuple[Edge, ...], out_specs: tuple[Spec, ...]):
        self.edges, self.out_specs, self.sequence = edges, out_specs, next(_sequence)
        if made_at[0] is not None:
            self.__dict__["_made_at"] = made_at[0]()

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """The gradient for each edge, given those of the outputs (None where there is none)."""
        raise NotImplementedError

    def release(self) -> None:
        """Forget saved tensors: the graph has been used."""

    def name(self) -> str:
        """The name users know: AddBackward0, ..."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[Edge, ...]:
        """The nodes that the gradients go to."""
        return self.edges

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for users' notes."""
        found: dict[Any, Any] = self.__dict__.setdefault("_metadata", {})
        return found

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(grad_inputs, grad_outputs)` after this node; what it returns replaces the
        grad_inputs."""
        hooked[0] = True
        return hook_into(self.__dict__.setdefault("_post_hooks", Hooks()), hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(grad_outputs)` before this node; what it returns replaces them."""
        hooked[0] = True
        return hook_into(self.__dict__.setdefault("_pre_hooks", Hooks()), hook)

    def capture_hooks(self, index: int) -> Hooks:
        """Hooks on the gradient of output `index` (tensor hooks and retained gradients)."""
        hooked[0] = True
        found: Hooks = self.__dict__.setdefault("_tensor_hooks", {}).setdefault(index, Hooks())
        return found

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


class AccumulateGrad(Node):
    """The end of the graph at a leaf: adds what arrives to `leaf.grad`."""

    __slots__ = ("_leaf",)

    def __init__(self, variable: Any):
        super().__init__((), (variable._array.spec,))
        self._leaf = weakref.ref(
            variable
        )  # the leaf owns this node; nobody can see the .grad of one that died
        self.sequence = 1 << 62  # always first: leaves are ready as soon as their gradients are

    @property
    def variable(self) -> Any:
        """The leaf; None once it is gone."""
        return self._leaf()


def leaf_node(tensor: Any) -> Node:
    """The AccumulateGrad of a leaf, made once."""
    node: Node | None = tensor._accumulate
    if node is None:
        node = tensor._accumulate = AccumulateGrad(tensor)
    return node


def edge_of(tensor: Any) -> Edge:
    """Where a gradient for this tensor goes: its node's output, or the leaf's accumulator."""
    if tensor._base is not None:
        _refresh[0](tensor)
    node = tensor._grad_fn
    if node is not None:
        return node, tensor._output_nr
    return (leaf_node(tensor), 0) if tensor._requires_grad else NO_EDGE


_refresh: list[Callable[[Any], None]] = [
    lambda tensor: None
]  # history.py: views whose base was written


SAVED_INFERENCE = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
    "inference mode in computation tracked by autograd. To work around this, you can make a clone "
    "to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
    "`torch.inference_mode()`."
)
FREED_GRAPH = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


class Saved:
    """A tensor kept for backward, with the version it had. Outputs are kept without a cycle through
    their node."""

    __slots__ = ("array", "hooks", "is_output", "leaf", "node", "output_nr", "packed", "version")

    def __init__(self, tensor: Any, is_output: bool = False):
        if tensor._inference:
            raise RuntimeError(SAVED_INFERENCE)
        array = tensor._array
        self.array: Array | None = array
        self.version, self.is_output = array.storage.version, is_output
        self.leaf = self.hooks = None
        if not is_output and (
            tensor._requires_grad or (tensor._base is not None and tensor.requires_grad)
        ):
            self.node, self.output_nr = edge_of(tensor)
            if tensor._grad_fn is None:
                self.leaf = tensor
        else:
            self.node, self.output_nr = NO_EDGE
        hooks = modes.state.saved_hooks
        if hooks:
            self.hooks = hooks[-1]
            self.packed = self.hooks[0](_detached[0](tensor))
            self.array = None

    def unpack(self, owner: Node) -> Any:
        """The tensor again, connected to the graph; RuntimeError if it was written since or the
        graph was freed."""
        if self.hooks is not None:
            return self._reconnect(self.hooks[1](self.packed)._array, owner)
        array = self.array
        if array is None:
            raise RuntimeError(FREED_GRAPH)
        if array.storage.version != self.version:
            self._complain(array, owner)
        return self._reconnect(array, owner)

    def unpack_array(self, owner: Node) -> Array:
        """The array alone, with the same checks."""
        array = self.array
        if self.hooks is not None or array is None or array.storage.version != self.version:
            found: Array = self.unpack(owner)._array
            return found
        return array

    def _complain(self, array: Array, owner: Node) -> None:
        source = owner if self.is_output else self.node
        origin = (
            f", which is output {self.output_nr} of {source.name()}," if source is not None else ""
        )
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: [{type_name(array.spec)} {list(array.shape)}]{origin} is at version "
            f"{array.storage.version}; expected version {self.version} instead. Hint: the value "
            f"was needed by {owner.name()}; use the out-of-place form of the op that changed it, "
            "or clone() first, or enable anomaly detection with "
            "torch.autograd.set_detect_anomaly(True)."
        )

    def _reconnect(self, array: Array, owner: Node) -> Any:
        if self.leaf is not None and self.leaf._array is array:
            return self.leaf
        node = owner if self.is_output else self.node
        return _connected[0](array, node, self.output_nr)

    def release(self) -> None:
        """Drop the data."""
        self.array = self.leaf = None
        if self.hooks is not None:
            self.hooks, self.packed = None, None


FREED: Saved = object.__new__(Saved)  # what stands in the place of a number that was freed
FREED.array = FREED.hooks = None
_connected: list[Callable[..., Any]] = []  # tensor.py: a tensor over an array with a node
_detached: list[Callable[..., Any]] = []


def type_name(spec: Spec) -> str:
    """The legacy type name of a spec: torch.cuda.FloatTensor."""
    place = "" if spec.device.type == "cpu" else f"{spec.device.type}."
    return f"torch.{place}{spec.dtype.title}Tensor"
