"""Forward passes over several devices: activations follow the weights.

An op that uses a placed weight runs where the plan computes with it, every other op where the pass
is now, and operands that are elsewhere hop. So a forward is cut where its weights change place,
whatever it looks like, and moves that it has in it mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ember.autograd.function import Function
from ember.core import modes
from ember.core.tensor import Tensor
from ember.device import CPU
from ember.device import device as Device
from ember.devices.planning.recording import without_move
from ember.overrides import TorchFunctionMode
from ember.pytree import tree_map

# What only asks about a tensor, and does not compute with it.
QUESTIONS = frozenset(
    "__get__ __set__ __delete__ size dim ndimension numel nelement stride storage_offset __len__ "
    "is_floating_point is_complex is_contiguous get_device element_size data_ptr __hash__ "
    "__repr__ __format__ register_hook requires_grad_ untyped_storage storage is_signed "
    "multi_head_attention_forward_checks".split()
)


class Placed:
    """Where the weights of a model are computed with, and how they come there."""

    def __init__(self, first: Device):
        self.first = first
        self.weights: dict[int, Device] = {}  # id of a parameter -> the device of its ops
        self.fetchers: dict[int, Any] = {}  # the same for those that stay on the host

    def home(self, tensor: Tensor) -> Device | None:
        """The device of a weight, or of a view of one; None for other tensors."""
        found = self.weights.get(id(tensor))
        if found is None and tensor._base is not None:
            found = self.weights.get(id(tensor._base))
        return found


class Following(TorchFunctionMode):
    """One forward pass on its way through the devices."""

    def __init__(self, placed: Placed, boundary: Callable[[Device], None] | None = None):
        super().__init__()
        self.placed, self.where = placed, placed.first
        self.boundary = boundary  # told before the pass goes on elsewhere
        self.crossings: list[Crossing] | None = None
        self._copies: dict[tuple[int, Device], Any] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The function, on one device."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in QUESTIONS:
            return func(*args, **kwargs)
        kept = without_move(func, args, kwargs) if name in ("cuda", "to") else (args, kwargs)
        if kept is None:
            return args[0]
        args, kwargs = kept
        tensors = _tensors(args) + _tensors(tuple(kwargs.values()))
        if not tensors:
            return func(*args, **kwargs)
        target = self._target(name, tensors)
        if all(t._array.spec.device is target for t in tensors):
            return func(*args, **kwargs)

        def brought(value: Any) -> Any:
            return self.bring(value, target) if isinstance(value, Tensor) else value

        if _writes(name, kwargs):
            rest = tree_map(brought, (args[1:], kwargs))
            return func(args[0], *rest[0], **rest[1])
        args, kwargs = tree_map(brought, (tuple(args), kwargs))
        return func(*args, **kwargs)

    def _target(self, name: str, tensors: list[Tensor]) -> Device:
        for tensor in tensors:
            home = self.placed.home(tensor)
            if home is not None:
                self.enter(home)
                return home
        if name.endswith("_") or name == "__setitem__":
            return tensors[0]._array.spec.device
        return self.where

    def enter(self, device: Device) -> None:
        """Go on at a device."""
        if device is not self.where:
            if self.boundary is not None:
                self.boundary(device)
            self.where = device

    def bring(self, tensor: Tensor, target: Device) -> Tensor:
        """A tensor at a device: itself, or a copy that is made once."""
        spec = tensor._array.spec
        if spec.device is target or (spec.ndim == 0 and spec.device is CPU):
            return tensor
        fetcher = self.placed.fetchers.get(id(tensor))
        if fetcher is not None:
            return fetcher.fetched(tensor)  # type: ignore[no-any-return]
        key = (id(tensor), target)
        known = self._copies.get(key)
        if known is not None and known[0] is tensor and known[1] == tensor._version:
            return known[2]  # type: ignore[no-any-return]
        with unfollowed():
            made = self._hop(tensor, target)
        self._copies[key] = (tensor, tensor._version, made)
        return made

    def _hop(self, tensor: Tensor, target: Device) -> Tensor:
        cut = self.crossings is not None and modes.state.grad and tensor.requires_grad
        if not cut:
            return tensor.to(target, non_blocking=True)
        made = tensor.detach().to(target, non_blocking=True).requires_grad_()
        assert self.crossings is not None
        self.crossings.append(Crossing(tensor, made))
        return made

    def bring_all(self, tree: Any) -> Any:
        """Every tensor of a tree where the pass is now."""
        return tree_map(lambda v: self.bring(v, self.where) if isinstance(v, Tensor) else v, tree)

    def forget(self) -> None:
        """Let go of the copies."""
        self._copies.clear()


class unfollowed:
    """A block in which moves are meant, and ops run where their operands are."""

    def __enter__(self) -> None:
        self._before, modes.state.functions = modes.state.functions, ()

    def __exit__(self, *exception: object) -> None:
        modes.state.functions = self._before


class Crossing:
    """A value that went from one stage to another: the graph is cut there, and a backward pass
    carries the gradient over."""

    __slots__ = ("arrived", "sent")

    def __init__(self, sent: Tensor, arrived: Tensor):
        self.sent, self.arrived = sent, arrived


class Fetched(Function):
    """A weight of the host on a GPU; its gradient goes back to the host."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, copied: Tensor) -> Tensor:
        """The copy."""
        ctx.device = weight.device
        return copied.view_as(copied)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The gradient on the host."""
        return grads[0].to(ctx.device), None


def _tensors(args: Any) -> list[Tensor]:
    found = []
    for value in args:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            found += _tensors(value)
    return found


def _writes(name: str, kwargs: dict[str, Any]) -> bool:
    return (
        "out" in kwargs or name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
    )
