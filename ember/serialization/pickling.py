"""How tensors are pickled and copied: what pickles call to rebuild them, and the hooks on `Tensor`.

The rebuilding functions have PyTorch's names and signatures, as files in its format call them. They
take nothing on trust: a layout that reaches outside its storage is refused.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from ember.core.modes import no_grad
from ember.core.registry import OPS
from ember.core.storages import UntypedStorage
from ember.core.tensor import Tensor, tensor_of
from ember.core.typed_storages import TypedStorage, untyped_storage, view_of
from ember.device import META
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import Array, Storage, spec_of
from ember.layout import Layout

# What tensors note about themselves beside the attributes that the class declares.
_BOOKKEEPING = {"_accumulate", "_base_memory", "_post_accumulate_hooks"}.union(
    *(getattr(cls, "__annotations__", ()) for cls in Tensor.__mro__)
)


def user_attributes(tensor: Tensor) -> dict[str, Any]:
    """The attributes that users have set on a tensor."""
    return {name: value for name, value in vars(tensor).items() if not is_internal(name)}


def is_internal(name: str) -> bool:
    """Whether an attribute of this name belongs to the tensor itself."""
    return name in _BOOKKEEPING or hasattr(Tensor, name)


# what pickles call


def _rebuild_tensor(
    storage: TypedStorage, storage_offset: int, size: Sequence[int], stride: Sequence[int]
) -> Tensor:
    """A tensor over a typed storage."""
    return _view(storage, storage.dtype, storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage: TypedStorage,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: Any,
    metadata: Any = None,
) -> Tensor:
    """A tensor over a typed storage, with what it knows of gradients."""
    tensor = _view(storage, storage.dtype, storage_offset, size, stride)
    return _finished(tensor, requires_grad, metadata)


def _rebuild_tensor_v3(
    storage: UntypedStorage,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: Any,
    dtype: DType,
    metadata: Any = None,
) -> Tensor:
    """A tensor of a dtype over bytes."""
    tensor = _view(storage, dtype, storage_offset, size, stride)
    return _finished(tensor, requires_grad, metadata)


def _view(
    storage: Any, dtype: DType, offset: int, size: Sequence[int], stride: Sequence[int]
) -> Tensor:
    check(
        isinstance(storage, TypedStorage | UntypedStorage),
        TypeError,
        f"a tensor is rebuilt from a storage, not from {type(storage).__name__}",
    )
    layout = Layout(_integers(size), _integers(stride), *_integers((offset,)))
    return view_of(storage.untyped(), dtype, layout)


def _integers(values: Any) -> tuple[int, ...]:
    whole = isinstance(values, tuple | list) and all(isinstance(v, int) for v in values)
    check(whole, TypeError, f"sizes and strides are tuples of integers, not {values!r}")
    return tuple(int(value) for value in values)


def _finished(tensor: Any, requires_grad: bool, metadata: Any) -> Tensor:
    if metadata and metadata.get("conj"):
        tensor = tensor.conj()
    if metadata and metadata.get("neg"):
        tensor = -tensor
    if requires_grad:
        tensor.requires_grad_()
    return tensor


def _rebuild_meta_tensor_no_storage(
    dtype: DType, size: Sequence[int], stride: Sequence[int], requires_grad: bool
) -> Tensor:
    """A tensor on `meta`."""
    layout = Layout(_integers(size), _integers(stride))
    nbytes = layout.extent()[1] * dtype.itemsize if layout.numel else 0
    spec = spec_of(layout.shape, layout.strides, dtype, META)
    return tensor_of(Array(Storage(nbytes, META), spec)).requires_grad_(requires_grad)


def _rebuild_sparse_tensor(layout: Any, data: Any) -> Tensor:
    """A sparse tensor of its parts and its size; RuntimeError for indices outside it."""
    check(
        isinstance(data, tuple | list) and 3 <= len(data) <= 4,
        TypeError,
        f"a sparse tensor is rebuilt from its parts and its size, not from {type(data).__name__}",
    )
    if layout.name == "sparse_coo":
        indices, values, size, *known = data
        made = OPS["sparse_coo_tensor"](indices, values, size, check_invariants=True)
        return made._coalesced_(bool(known and known[0]))
    make = OPS["sparse_compressed_tensor"]
    return make(*data, layout=layout, check_invariants=True)  # type: ignore[no-any-return]


def _parts_of_sparse(self: Tensor) -> Any:
    """The call that rebuilds a sparse tensor, as files have it."""
    array: Any = self._array
    parts = [tensor_of(part) for part in array.parts]
    known = (array.coalesced,) if array.kind == "sparse_coo" else ()
    return self.layout, (*parts, self.shape, *known)  # type: ignore[attr-defined]


def _rebuild_from_type_v2(
    func: Callable[..., Tensor], new_type: Any, args: Any, state: Any
) -> Tensor:
    """A tensor of a subclass, or one with attributes of the user's."""
    made = func(*args)
    if type(made) is not new_type:
        made = _as_class(made, new_type)
    if state and hasattr(new_type, "__setstate__"):
        made.__setstate__(state)
    elif state:
        attributes, *slots = state if isinstance(state, tuple) else (state,)
        for values in (attributes, *slots):
            for name, value in (values or {}).items():
                if not is_internal(name):
                    setattr(made, name, value)
    return made


def _as_class(tensor: Tensor, cls: Any) -> Any:
    """The tensor as one of a subclass, sharing its memory."""
    made = object.__new__(cls)
    made._array = tensor._array
    if tensor._requires_grad:
        made._requires_grad = True
    return made


# the hooks


def reduce_tensor(self: Tensor, protocol: Any) -> Any:
    """A tensor as a call that rebuilds it: its storage as bytes, and how it lies there.

    Views of one storage share it again after unpickling. Protocol 5 hands the bytes out of band.
    """
    spec = self._array.spec
    if self._array.kind != "strided":
        func: Any = _rebuild_sparse_tensor
        args: tuple[Any, ...] = _parts_of_sparse(self)
    elif spec.device is META:
        func = _rebuild_meta_tensor_no_storage
        args = (spec.dtype, spec.shape, spec.strides, self._requires_grad)
    else:
        func = _rebuild_tensor_v3
        offset = self._array.offset
        memory = untyped_storage(self)
        needs = self._requires_grad
        args = (memory, offset, spec.shape, spec.strides, needs, OrderedDict(), spec.dtype)
    state = user_attributes(self)
    if type(self) is Tensor and not state:
        return func, args
    if hasattr(type(self), "__getstate__") and _own_getstate(type(self)):
        state = self.__getstate__()
    return _rebuild_from_type_v2, (func, type(self), args, state)


def _own_getstate(cls: type) -> bool:
    return cls.__getstate__ is not object.__getstate__


def deepcopy_tensor(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """A copy with memory, gradient and attributes of its own; views copied together still share.

    RuntimeError for a tensor that an op with a gradient has made.
    """
    if id(self) in memo:
        return memo[id(self)]
    check(
        self.is_leaf,
        RuntimeError,
        "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
        "at the moment: this one has a grad_fn. Copy it with .detach().clone(), or .clone() to "
        "stay in the graph.",
    )
    with no_grad():
        if self._array.kind != "strided":
            memo[id(self)] = _as_class(self.clone(), type(self))  # type: ignore[attr-defined]
            memo[id(self)]._requires_grad = self._requires_grad
            return memo[id(self)]
        memory = copy.deepcopy(untyped_storage(self), memo)
        array = self._array
        made = _as_class(tensor_of(Array(memory._cell, array.spec, array.offset)), type(self))
        made._requires_grad = self._requires_grad
        memo[id(self)] = made
        if self._grad is not None:
            made._grad = copy.deepcopy(self._grad, memo)
        for name, value in user_attributes(self).items():
            setattr(made, name, copy.deepcopy(value, memo))
    return made


def copy_tensor(self: Tensor) -> Tensor:
    """What `copy.copy` gives: another tensor over the same memory."""
    func, args = reduce_tensor(self, 4)
    return func(*args)


Tensor.__reduce_ex__ = reduce_tensor  # type: ignore[method-assign, assignment]
Tensor.__deepcopy__ = deepcopy_tensor
Tensor.__copy__ = copy_tensor
