"""`Tensor`: an array with gradients and PyTorch's face. It holds no ops: ops/ installs them from
above."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ember.core import modes
from ember.core.array import from_host
from ember.core.facts import ArrayFacts, address, is_same_layout
from ember.core.hooks import Hooks, RemovableHandle, hook_into
from ember.core.levels import LevelArray
from ember.core.node import AccumulateGrad, Node, edge_of, leaf_node, type_name
from ember.core.node import _connected as _node_connected
from ember.core.node import _detached as _node_detached
from ember.device import CPU
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import Array, Spec

_new = object.__new__
NO_LEAVES = (
    "You are attempting to call Tensor.requires_grad_() (or perhaps using "
    "torch.autograd.functional.* APIs) inside of a function being transformed by a functorch "
    "transform. This is unsupported, please attempt to use the functorch transforms (e.g. grad, "
    "vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a function being "
    "transformed instead."
)


class Tensor(ArrayFacts):
    """A multi-dimensional array of one dtype on one device, with its gradient.

    `Tensor(2, 3)` is the legacy constructor: uninitialised, of the default dtype, on the CPU.

    >>> import ember as torch
    >>> torch.tensor([1., 2.]) + 1
    tensor([2., 3.])
    """

    __array_priority__ = 1000  # NumPy leaves `scalar - tensor` to the tensor, and its gradient

    # Defaults live in the class, so that making a tensor sets one attribute.
    _requires_grad = False
    _grad_fn: Node | None = None
    _output_nr = 0
    _grad: Tensor | None = None
    _base: Tensor | None = (
        None  # the tensor whose memory this views, with what history.py needs below
    )
    _view_history = 0
    _history = 0
    _view_of_many = False
    _made_without_grad = False
    _no_grad_base: Tensor | None = None  # what a view that was made without gradients shows
    _silent_writes = False  # made by .data: its writes do not count for saved tensors
    _backward_hooks: Any = None
    _post_accumulate_hooks: Any = None
    _accumulate: Node | None = None  # a leaf's, once it has been used
    _retains_grad = False
    name: str | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if not args and not kwargs and cls is not Tensor:
            return _new(cls)
        return legacy_constructor[0](cls, *args, **kwargs)

    _plain_function = True  # False in subclasses that ops ask before they run

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        hook = next(vars(k)["__torch_function__"] for k in cls.__mro__ if says_how(k))
        cls._plain_function = hook is disabled_torch_function
        if not cls._plain_function:
            modes.SPECIAL[0] += 1  # from now on ops look for overrides
            for equip in on_overriding_class:
                equip(cls)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """What ops on a subclass do by default: run, and give results of the subclass."""
        if not all(issubclass(cls, kind) for kind in types):
            return NotImplemented
        found = disabled_torch_function(func, types, args, kwargs)
        return found if cls is Tensor or func in without_conversion else _as_kind(found, cls)

    # gradients

    @property
    def requires_grad(self) -> bool:
        """Whether backward computes a gradient for this tensor."""
        if self._base is not None and self._base._history != self._view_history:
            edge_of(self)
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Set `requires_grad` of a leaf, and return it. RuntimeError for integers, and for False on
        a non-leaf."""
        if modes.state.levels:
            raise RuntimeError(NO_LEAVES)
        if requires_grad == self._requires_grad and self._grad_fn is None:
            return self
        check(
            self._grad_fn is None or requires_grad,
            RuntimeError,
            "you can only change requires_grad flags of leaf variables. If you want to use a "
            "computed variable in a subgraph that doesn't require differentiation use var_no_grad "
            "= var.detach().",
        )
        check_differentiable(self._array.spec, requires_grad)
        check(
            not (self._inference and requires_grad and not modes.state.inference),
            RuntimeError,
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.",
        )
        self._requires_grad = bool(requires_grad) or self._grad_fn is not None
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was made by the user rather than by a recorded op."""
        return self.grad_fn is None

    @property
    def grad_fn(self) -> Node | None:
        """The node that made this tensor; None for leaves."""
        if self._base is not None and self._base._history != self._view_history:
            edge_of(self)
        return self._grad_fn

    @property
    def output_nr(self) -> int:
        """Which output of its node this is."""
        return self._output_nr

    @property
    def grad(self) -> Tensor | None:
        """What backward has added up for this tensor."""
        if self._grad is None and self._grad_fn is not None and not self._retains_grad:
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its "
                ".grad attribute won't be populated during autograd.backward(). If you indeed "
                "want the .grad field to be populated for a non-leaf Tensor, use .retain_grad() "
                "on the non-leaf Tensor.",
                UserWarning,
                stacklevel=2,
            )
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            check(
                isinstance(value, Tensor),
                TypeError,
                "assigned grad expected to be a Tensor or None but got grad of type "
                f"{type(value).__name__}",
            )
            check(value is not self, RuntimeError, "can't assign Variable as its own grad")
            check_assigned_grad(self._array.spec, value._array.spec)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def retains_grad(self) -> bool:
        """Whether a non-leaf keeps its gradient."""
        return self._retains_grad

    def retain_grad(self) -> None:
        """Let a non-leaf keep its gradient in `.grad`."""
        check(
            self.requires_grad,
            RuntimeError,
            "can't retain_grad on Tensor that has requires_grad=False",
        )
        if self._grad_fn is None or self._retains_grad:
            return
        node, index = edge_of(self)
        self._retains_grad = True
        node.capture_hooks(index)[-id(self)] = _Retain(self)

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(grad)` when the gradient of this tensor is known; what it returns replaces
        it."""
        check(
            self.requires_grad,
            RuntimeError,
            "cannot register a hook on a tensor that doesn't require gradient",
        )
        if self._grad_fn is None:
            if self._backward_hooks is None:
                self._backward_hooks = Hooks()
            return hook_into(self._backward_hooks, hook)
        node, index = edge_of(self)
        return hook_into(node.capture_hooks(index), hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(param)` after backward has added to the `.grad` of this leaf."""
        check(
            self.requires_grad,
            RuntimeError,
            "cannot register a hook on a tensor that doesn't require gradient",
        )
        check(
            self._grad_fn is None,
            RuntimeError,
            "post accumulate grad hooks cannot be registered on non-leaf tensors",
        )
        return hook_into(self.__dict__.setdefault("_post_accumulate_hooks", Hooks()), hook)

    @property
    def data(self) -> Tensor:
        """The same memory without history; writes through it are not noticed by saved tensors."""
        made = _without_history(self._array)
        made._silent_writes = True
        return made

    @data.setter
    def data(self, value: Tensor) -> None:
        check(
            isinstance(value, Tensor),
            TypeError,
            f"Variable data has to be a tensor, but got {type(value).__name__}",
        )
        if self._requires_grad:
            check_differentiable(value._array.spec, True)
        self._array = value._array
        self.__dict__.pop("_accumulate", None)

    def detach(self) -> Tensor:
        """The same memory without history."""
        made = _without_history(self._array)
        made._inference = self._inference
        return made

    def detach_(self) -> Tensor:
        """Cut this tensor from its history. RuntimeError for views."""
        check(
            self._base is None,
            RuntimeError,
            "Can't detach views in-place. Use detach() instead.",
        )
        self._grad_fn, self._output_nr, self._requires_grad = None, 0, False
        return self

    @property
    def _version(self) -> int:
        """How often the storage has been written. RuntimeError for inference tensors."""
        check(not self._inference, RuntimeError, "Inference tensors do not track version counter.")
        return self._array.storage.version

    def _is_view(self) -> bool:
        """Whether this is a view whose history follows its base's."""
        return self._base is not None

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The legacy type name; with an argument, the tensor as that dtype or legacy type."""
        if dtype is None:
            return type_name(self._array.spec)
        return legacy_cast[0](self, dtype, non_blocking)


class _DisabledTorchFunction:
    """`__torch_function__` of classes that do not override: the function runs, nobody is asked."""

    __name__ = "_disabled_torch_function_impl"

    def __call__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        modes.state.functions_off += 1
        try:
            return func(*args, **(kwargs or {}))
        finally:
            modes.state.functions_off -= 1


disabled_torch_function = _DisabledTorchFunction()
on_overriding_class: list[Callable[[type], None]] = []  # core/asking.py
without_conversion: set[Any] = set()  # functions whose results stay what they are in subclasses


def says_how(kind: type) -> bool:
    """Whether a class says itself what its `__torch_function__` is."""
    return "__torch_function__" in vars(kind)


def _as_kind(found: Any, kind: Any) -> Any:
    """Results with their tensors as ones of a subclass."""
    if isinstance(found, Tensor):
        if isinstance(found, kind):
            return found
        if found.is_leaf and found.requires_grad:  # somebody's: an alias, so that it stays itself
            return found.as_subclass(kind)  # type: ignore[attr-defined]
        made = _new(kind)
        made.__dict__.update(found.__dict__)
        return made
    if type(found) in (tuple, list):
        return type(found)(_as_kind(f, kind) for f in found)
    if isinstance(found, tuple) and hasattr(found, "_fields"):
        return type(found)(*(_as_kind(f, kind) for f in found))
    return found


legacy_constructor: list[Callable[..., Any]] = []  # ops/legacy.py
legacy_device = [CPU]  # where the default tensor type is
legacy_cast: list[Callable[..., Any]] = []


def check_differentiable(spec: Spec, requires_grad: bool) -> None:
    """RuntimeError for gradients of integers."""
    check(
        not requires_grad or spec.dtype.is_floating_point or spec.dtype.is_complex,
        RuntimeError,
        "only Tensors of floating point and complex dtype can require gradients",
    )


def check_assigned_grad(own: Spec, grad: Spec) -> None:
    """RuntimeError unless a gradient fits its tensor."""
    check(
        own.dtype is grad.dtype,
        RuntimeError,
        f"attempting to assign a gradient with dtype '{grad.dtype.title}' to a tensor with dtype "
        f"'{own.dtype.title}'",
    )
    check(
        own.device is grad.device,
        RuntimeError,
        f"attempting to assign a gradient located on device with index '{grad.device}' to a "
        f"tensor located on device with index '{own.device}': move it with .to('{own.device}')",
    )
    check(
        own.shape == grad.shape,
        RuntimeError,
        f"attempting to assign a gradient of size '{list(grad.shape)}' to a tensor of size "
        f"'{list(own.shape)}'. Please ensure that the gradient and the tensor are the same size",
    )


class _Retain:
    """The hook of retain_grad: holds its tensor weakly, which holds the node that holds this."""

    def __init__(self, tensor: Tensor):
        self.tensor = weakref.ref(tensor)

    def __call__(self, grad: Tensor) -> None:
        tensor = self.tensor()
        if tensor is not None:
            known: Any = tensor._grad
            tensor._grad = _plain(grad._array) if known is None else known + grad


def _plain(array: Array) -> Tensor:
    made = _new(Tensor)
    made._array = array
    return made


def _without_history(array: Array) -> Tensor:
    """A tensor over an array that no level has a history of."""
    if modes.SPECIAL[0] and type(array) is LevelArray:
        return _plain(array.detached())
    return _plain(array)


def needs_grad(tensor: Tensor) -> bool:
    """Whether a gradient can reach this tensor."""
    return tensor._requires_grad or (tensor._base is not None and tensor._base._requires_grad)


def tensor_of(array: Array) -> Tensor:
    """A tensor over an array, without history."""
    made = _new(Tensor)
    made._array = array
    if modes.state.inference:
        made._inference = True
    return made


def connected(array: Array, node: Node | None, output_nr: int = 0) -> Tensor:
    """A tensor over an array as output of a node (or without history)."""
    made = _new(Tensor)
    made._array = array
    if node is not None:
        if isinstance(node, AccumulateGrad):
            made._requires_grad = True
            made.__dict__["_accumulate"] = node
        else:
            made._grad_fn, made._output_nr, made._requires_grad = node, output_nr, True
    return made


_node_connected.append(connected)
_node_detached.append(lambda tensor: _plain(tensor._array))


def from_ndarray(values: np.ndarray[Any, Any], dtype: DType | None = None) -> Tensor:
    """A CPU tensor that shares the memory of an ndarray."""
    return tensor_of(from_host(values, dtype))


__all__ = [
    "Tensor",
    "address",
    "connected",
    "from_ndarray",
    "is_same_layout",
    "leaf_node",
    "needs_grad",
    "tensor_of",
]
