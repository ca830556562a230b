"""The graph itself: hooks on what is saved, and on several gradients together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ember.core import engine, modes
from ember.core.hooks import RemovableHandle
from ember.core.node import Node, edge_of
from ember.core.tensor import Tensor
from ember.errors import check


class saved_tensors_hooks:
    """A block in which tensors kept for backward are packed by one function and unpacked by
    another."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        modes.state.saved_hooks = (*modes.state.saved_hooks, (self.pack_hook, self.unpack_hook))

    def __exit__(self, *exc: object) -> None:
        modes.state.saved_hooks = modes.state.saved_hooks[:-1]


class save_on_cpu(saved_tensors_hooks):
    """A block in which tensors kept for backward wait on the CPU."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda"):
        def pack(tensor: Any) -> Any:
            if not pin_memory:
                return tensor.device, tensor.cpu()
            return tensor.device, tensor.cpu().pin_memory()

        def unpack(packed: Any) -> Any:
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


class _MultiHandle:
    """Removes several hooks at once."""

    def __init__(self, handles: Sequence[RemovableHandle]):
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _MultiHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> _MultiHandle:
    """Call `fn` once the gradients of all `tensors` are known (mode "all": with their list), or of
    the first ("any")."""
    check(
        mode in ("all", "any"),
        ValueError,
        f"Expects mode to be one of ('all', 'any') but got {mode}",
    )
    nodes = [edge_of(t)[0] for t in tensors]
    found: list[Any] = [None] * len(tensors)
    number, missing = [0], [0]  # which pass this is, and how many gradients it still brings

    def hook_for(position: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            first = number[0] != engine.pass_number()
            if first:
                number[0], missing[0] = engine.pass_number(), sum(map(engine.takes_part, nodes))
                found[:] = [None] * len(tensors)
            missing[0] -= 1
            if mode == "any":
                if first:
                    fn(grad)
                return
            found[position] = grad
            if missing[0] == 0:
                values, found[:] = list(found), [None] * len(tensors)
                fn(values)

        return hook

    return _MultiHandle([t.register_hook(hook_for(i)) for i, t in enumerate(tensors)])


class GradientEdge(NamedTuple):
    """Where the gradient of a tensor goes: a node and which of its outputs. `backward` and `grad`
    take it for one."""

    node: Node
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of a tensor that requires grad. RuntimeError for one that does not."""
    check(
        tensor.requires_grad,
        RuntimeError,
        "It is not possible to get the gradient edge for a Tensor that does not require gradients",
    )
    return GradientEdge(*edge_of(tensor))


__all__ = [
    "GradientEdge",
    "Node",
    "get_gradient_edge",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]
