"""In-place writes and views: who may be written, and how history follows the memory.

A view remembers its base. A recorded write through a view becomes a write of the base
(`CopySlices`), and every other view of that base finds its own history again from the base's when
it is next used.
"""

from __future__ import annotations

from typing import Any

from ember.core import modes
from ember.core.lifting import zeros_for
from ember.core.node import NO_EDGE, Node, edge_of
from ember.core.node import _refresh as _node_refresh
from ember.core.tensor import Tensor, needs_grad
from ember.errors import check
from ember.kernel.array import Array
from ember.layout import Layout, dense_order

INFERENCE_WRITE = (
    "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a "
    "clone to get a normal tensor before doing inplace update."
)


def check_write(tensor: Tensor, one_value: bool = False) -> None:
    """RuntimeError unless the tensor may be written in place: no leaf that needs gradients, and no
    elements that share memory, unless all get `one_value`."""
    if not one_value:
        check_elements(tensor._array)
    if tensor._inference:
        check(modes.state.inference, RuntimeError, INFERENCE_WRITE)
    if modes.state.grad:
        _check_history(tensor)


def _check_history(tensor: Tensor) -> None:
    base = tensor._base
    if base is None:
        check(
            not (tensor._requires_grad and tensor._grad_fn is None),
            RuntimeError,
            "a leaf Variable that requires grad is being used in an in-place operation. "
            "Write inside torch.no_grad(), or use the out-of-place form.",
        )
        source = tensor.__dict__.get("_no_grad_base")
        check(
            source is None or not source._requires_grad,
            RuntimeError,
            "A view was created in no_grad mode and is being modified inplace with grad mode "
            "enabled. Given that this use case is ambiguous and error-prone, it is forbidden. You "
            "can clarify your code by moving both the view and the inplace either both inside the "
            "no_grad block (if you don't want the inplace to be tracked) or both outside (if you "
            "want the inplace to be tracked).",
        )
        return
    is_leaf = base._requires_grad and base._grad_fn is None and base._base is None
    of_leaf = tensor._requires_grad and not base._requires_grad  # the view was made a leaf
    check(
        not (is_leaf or of_leaf),
        RuntimeError,
        "a view of a leaf Variable that requires grad is being used in an in-place operation. "
        "Write inside torch.no_grad(), or use the out-of-place form.",
    )
    if tensor._view_of_many and needs_grad(tensor):
        name = tensor._grad_fn.name() if tensor._grad_fn is not None else "a multi-view function"
        raise RuntimeError(
            f"Output {tensor._output_nr} of {name} is a view and is being modified inplace. This "
            "view is the output of a function that returns multiple views. Such functions do not "
            "allow the output views to be modified inplace. You should replace the inplace "
            "operation by an out-of-place one."
        )


def check_elements(target: Array) -> None:
    """RuntimeError if elements of an array share memory because they were expanded; as in PyTorch,
    strides that overlap in other ways are the writer's affair."""
    spec = target.spec
    check(
        spec.contiguous
        or 0 in spec.shape
        or all(n == 1 or step != 0 for n, step in zip(spec.shape, spec.strides, strict=True)),
        RuntimeError,
        "unsupported operation: more than one element of the written-to tensor refers to a single "
        "memory location. Please clone() the tensor before performing the operation.",
    )


def check_overlap(target: Array, source: Array, apart: bool = False) -> None:
    """RuntimeError if a source lies partly over the target, as far as PyTorch looks: both dense,
    not the same view (unless they must be `apart`)."""
    if target.storage is not source.storage or (target is source and not apart):
        return
    same = target.offset == source.offset and target.spec.shape == source.spec.shape
    if same and target.spec.strides == source.spec.strides and not apart:
        return
    dense = all(dense_order(a.spec.shape, a.spec.strides) is not None for a in (target, source))
    first, last = target.layout.extent()
    start, end = source.layout.extent()
    check(
        (not dense or end <= first or last <= start) and not (apart and target is source),
        RuntimeError,
        "unsupported operation: some elements of the input tensor and the written-to tensor refer "
        "to a single memory location. Please clone() the tensor before performing the operation.",
    )


def written(tensor: Tensor) -> None:
    """Count a write."""
    if not tensor._silent_writes:
        tensor._array.storage.version += 1


def rebind(tensor: Tensor, node: Node, self_position: int | None, output_nr: int = 0) -> None:
    """Give a written tensor its new history; `self_position` is its own place among the node's
    edges."""
    base = tensor._base
    if base is None:
        _set_history(tensor, node, output_nr)
        tensor._history += 1
        return
    _set_history(base, CopySlices(base, tensor._array.layout, node, self_position), 0)
    base._history += 1
    refresh(tensor)


def _set_history(tensor: Tensor, node: Node, output_nr: int) -> None:
    """Make a tensor the result of a node; a retained gradient is from now on that of the new
    value."""
    retained, before = tensor._retains_grad, tensor._grad_fn
    if retained and before is not None:
        before.capture_hooks(tensor._output_nr).pop(-id(tensor), None)
        tensor._retains_grad = False
    tensor._grad_fn, tensor._output_nr, tensor._requires_grad = node, output_nr, True
    if retained:
        tensor.retain_grad()


def refresh(tensor: Tensor) -> None:
    """Bring a view's history up to that of its base."""
    base = tensor._base
    assert base is not None
    if tensor._view_history != base._history:
        tensor._view_history = base._history
        if base._requires_grad:
            _set_history(tensor, BaseView(base, tensor._array.layout), 0)


_node_refresh[0] = refresh


class Geometry:
    """Where a view lies within its base, both seen from the start of the base's memory."""

    __slots__ = ("base", "extent", "shape", "view")

    def __init__(self, base: Layout, view: Layout):
        start = base.offset
        self.shape = base.shape
        self.base = base._replace(offset=0)
        self.view = view._replace(offset=view.offset - start)
        self.extent = max(self.base.extent()[1], self.view.extent()[1])

    def spread(self, grad: Any, *others: Any) -> Any:
        """A vector of memory laid out as the base's, holding `grad`; others may be written too."""
        memory = self.blank(grad, *others)
        memory.as_strided(*self.base).copy_(grad)
        return memory

    def blank(self, *grads: Any) -> Any:
        """Zeros in the extent of the base."""
        return zeros_for(grads, (self.extent,))


class BaseView(Node):
    """A view whose base was written: its gradient goes to its place in the base."""

    def __init__(self, base: Tensor, layout: Layout):
        self.geometry = Geometry(base._array.layout, layout)
        spec = base._array.with_layout(layout).spec
        super().__init__((edge_of(base),), (spec,))

    def name(self) -> str:
        """PyTorch's name."""
        return "AsStridedBackward0"

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """Zeros with the gradient in the view's place."""
        memory = self.geometry.blank(grads[0])
        memory.as_strided(*self.geometry.view).copy_(grads[0])
        return (memory.as_strided(*self.geometry.base),)


class CopySlices(Node):
    """A base written through a view: the inner node sees the gradient of the slice, the rest passes
    unchanged."""

    def __init__(self, base: Tensor, layout: Layout, inner: Node, self_position: int | None):
        self.inner, self.self_position = inner, self_position
        self.geometry = Geometry(base._array.layout, layout)
        before = edge_of(base) if base._requires_grad else NO_EDGE
        others = tuple(e for i, e in enumerate(inner.edges) if i != self_position)
        super().__init__((before, *others), (base._array.spec,))

    def name(self) -> str:
        """PyTorch's name."""
        return "CopySlices"

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """The inner node's gradients; the base's with the slice replaced."""
        memory = self.geometry.spread(grads[0])
        inner = list(self.inner.apply([memory.as_strided(*self.geometry.view).clone()]))
        own = inner.pop(self.self_position) if self.self_position is not None else None
        if own is not None and modes.state.levels:  # it may be of a batch where `grads` is not
            memory = self.geometry.spread(grads[0], own)
        slice_ = memory.as_strided(*self.geometry.view)
        if own is None:
            slice_.zero_()
        else:
            slice_.copy_(own)
        return (memory.as_strided(*self.geometry.base), *inner)

    def release(self) -> None:
        """Forget what the inner node saved."""
        self.inner.release()
