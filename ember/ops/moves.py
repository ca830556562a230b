"""Copies: between devices and dtypes, into other tensors, to Python and NumPy. The only ops that
cross devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ember import dtypes
from ember.backends.base import resolve
from ember.core import dispatch, modes
from ember.core.array import (
    carried,
    copy_into,
    copy_of,
    empty_pinned,
    fill,
    host_copy,
    to_device,
    will_read,
)
from ember.core.dispatch import attach, needs_grad, node_type, unbroadcast
from ember.core.factory import fill_value
from ember.core.history import check_overlap, check_write, rebind, written
from ember.core.node import Node, edge_of
from ember.core.registry import FUNCTION, METHOD, OPS, composite
from ember.core.tensor import Tensor, tensor_of
from ember.device import CPU, META
from ember.device import device as Device
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import Array, expose, spec_of
from ember.layout import broadcasts_to, like_strides
from ember.ops.formats import (
    channels_format,
    contiguous_format,
    format_of,
    memory_format,
    preserve_format,
)
from ember.source_lines import warn


class CopyNode(Node):
    """A recorded copy: the gradient goes back to the device and dtype that the source has."""

    __slots__ = ("source",)

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """Move the gradient back; into the source's order where one of them has channels last."""
        g = grads[0]
        if g.device is not self.source.device:
            g = g.to(self.source.device)
        g = unbroadcast(g, self.source)
        if g._array.spec.strides != self.source.strides and len(self.source.shape) > 3:
            found = format_of(self.source)
            if found is not channels_format(g):
                g = g.contiguous(memory_format=found or contiguous_format)
        return (g,)


class OverwriteNode(CopyNode):
    """A recorded write over all of a tensor: the value before gets zeros, the source (if any) its
    gradient."""

    __slots__ = ()

    def apply(self, grads: list[Any]) -> tuple[Any, ...]:
        """Zeros for what was there, and the gradient for what was written."""
        before = None if self.edges[0][0] is None else grads[0].new_zeros(grads[0].shape)
        return (before,) if self.source is None else (before, *super().apply(grads))


def _recorded(name: str, source: Tensor, array: Array) -> Tensor:
    out = tensor_of(array)
    if modes.state.grad and needs_grad(source) and dispatch.is_differentiable(array.spec.dtype):
        node = node_type(CopyNode, name)((edge_of(source),), (array.spec,))
        node.source = source._array.spec
        attach(node, [out])
    return out


def _strides(tensor: Tensor, format_: memory_format | None) -> tuple[int, ...]:
    spec = tensor._array.spec
    wanted = (format_ or preserve_format).strides_of(spec.shape)
    return like_strides(spec.shape, spec.strides) if wanted is None else wanted


@composite(FUNCTION | METHOD)
def clone(input: Tensor, *, memory_format: memory_format | None = None) -> Tensor:
    """A copy with its own memory; gradients flow through."""
    return _recorded(
        "clone", input, copy_of(input._array, _strides(input, memory_format), input.dtype)
    )


@composite(METHOD)
def contiguous(self: Tensor, memory_format: memory_format = contiguous_format) -> Tensor:
    """The tensor itself if it lies in row-major order (or that of the format), else such a copy."""
    if self.is_contiguous(memory_format=memory_format):
        return self
    return clone(self, memory_format=memory_format)


def _lies_in(tensor: Tensor, format_: memory_format) -> bool:
    """Whether a cast leaves the order as it is: for row-major order, unless channels lie last."""
    return format_ is (channels_format(tensor) or contiguous_format)


def _cast(self: Tensor, dtype: DType, copy: bool, format_: memory_format | None) -> Tensor:
    spec = self._array.spec
    if (
        spec.dtype is dtype
        and not copy
        and (format_ in (None, preserve_format) or _lies_in(self, format_))
    ):
        return self
    if spec.dtype.is_complex and not dtype.is_complex and dtype is not dtypes.bool_:
        warn("Casting complex values to real discards the imaginary part")
    return _recorded("to_copy", self, copy_of(self._array, _strides(self, format_), dtype))


def move(
    self: Tensor, device: Device, dtype: DType, copy: bool, non_blocking: bool, format_: Any
) -> Tensor:
    """The tensor on a resolved device in a dtype; itself if nothing changes and no copy is asked
    for."""
    spec = self._array.spec
    if spec.device is device:
        return _cast(self, dtype, copy, format_)
    array = self._array
    if spec.dtype is not dtype and (device is CPU or spec.device is CPU):
        # cast on the side with less to carry over
        if dtype.itemsize <= spec.dtype.itemsize:
            array = copy_of(array, like_strides(spec.shape, spec.strides), dtype)
    moved = to_device(
        array, device, blocking=not non_blocking, pinned=non_blocking and device is CPU
    )
    if moved.spec.dtype is not dtype:
        moved = copy_of(moved, like_strides(moved.spec.shape, moved.spec.strides), dtype)
    wanted = (format_ or preserve_format).strides_of(spec.shape) or like_strides(
        spec.shape, spec.strides
    )
    if wanted != moved.spec.strides and spec.numel:
        moved = copy_of(moved, wanted, dtype)
    return _recorded("to_copy", self, moved)


@composite(METHOD)
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The tensor in another dtype or on another device: to(dtype), to(device, dtype), to(other).

    Options: non_blocking, copy (always copy), memory_format. Itself if nothing has to change.
    """
    device, dtype, positional = kwargs.pop("device", None), kwargs.pop("dtype", None), list(args)
    if "other" in kwargs:
        positional.insert(0, kwargs.pop("other"))
    flags = []
    for value in positional:
        if isinstance(value, (DType, type)):
            check(dtype is None, TypeError, f"to() takes one dtype, got {dtype} and {value}")
            dtype = value
        elif isinstance(value, Tensor):
            device, dtype = value.device, value.dtype
        elif isinstance(value, bool):
            flags.append(value)
        elif value is not None or (device is None and dtype is None):
            device = value
    options = dict(zip(("non_blocking", "copy"), flags, strict=False)) | kwargs
    unknown = set(options) - {"non_blocking", "copy", "memory_format"}
    check(
        not unknown,
        TypeError,
        f"to() received an unexpected keyword argument: {', '.join(unknown)}",
    )
    dtype = None if dtype is None else dtypes.as_dtype("to", dtype)
    target = self.device if device is None else resolve(Device(device))
    return move(
        self,
        target,
        dtype or self.dtype,
        options.get("copy", False),
        options.get("non_blocking", False),
        options.get("memory_format"),
    )


@composite(METHOD)
def cuda(
    self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> Tensor:
    """The tensor on a GPU, the current one by default; itself if it is there already."""
    if isinstance(device, int) and not isinstance(device, bool):
        device = Device("cuda", device)
    target = Device("cuda" if device is None else device)
    check(target.type == "cuda", RuntimeError, f"Invalid device, must be cuda device: {target}")
    return move(self, resolve(target), self.dtype, False, non_blocking, memory_format)


@composite(METHOD)
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor on the CPU; itself if it is there already."""
    return move(self, CPU, self.dtype, False, False, memory_format)


def _define_casts() -> None:
    for dtype in dtypes.ALL:
        names = {"bool": ("bool",), "uint8": ("byte",), "int8": ("char",)}.get(
            dtype.name,
            tuple(filter(None, (dtype.alias, dtype.name if dtype is dtypes.bfloat16 else ""))),
        )
        for name in names:

            def cast(self: Tensor, memory_format: Any = None, *, _dtype: DType = dtype) -> Tensor:
                return _cast(self, _dtype, False, memory_format)

            cast.__name__ = name
            cast.__doc__ = f"The tensor as {dtype}."
            composite(METHOD)(cast)


_define_casts()


@composite(METHOD)
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype, and on the device, of another."""
    return move(self, other.device, other.dtype, False, False, None)


@composite(METHOD)
def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Write `src`, broadcast, cast and moved, into this tensor."""
    if not isinstance(src, Tensor):
        raise TypeError(
            f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}"
        )
    check_write(self)
    own, source = self._array.spec, src._array.spec
    check(
        broadcasts_to(source.shape, own.shape),
        RuntimeError,
        f"The size of tensor a ({list(own.shape)}) must match the size of tensor b "
        f"({list(source.shape)}): copy_ broadcasts its source to the target, never the other way",
    )
    check(
        source.device is not META or own.device is META,
        NotImplementedError,
        "Cannot copy out of meta tensor; no data!",
    )
    if self is src:
        return self
    array = src._array
    if own.device is not META:
        if source.device is own.device:
            check_overlap(self._array, array)
            copy_into(self._array, array)
        elif not carried(self._array, array, blocking=not non_blocking):
            copy_into(self._array, to_device(array, own.device, blocking=not non_blocking))
    written(self)
    if (
        modes.state.grad
        and (needs_grad(self) or needs_grad(src))
        and dispatch.is_differentiable(own.dtype)
    ):
        node = node_type(OverwriteNode, "copy_backwards")(
            dispatch.edges_of([_value_before(self), src]), (own,)
        )
        node.source = source
        rebind(self, node, 0)
    return self


def _value_before(tensor: Tensor) -> Tensor | None:
    """Where zeros go when a tensor is written over; nowhere for a view, whose base cuts them
    out."""
    return tensor if tensor._base is None else None


@composite(METHOD)
def zero_(self: Tensor) -> Tensor:
    """Set every element to 0."""
    return fill_(self, 0)


@composite(METHOD)
def fill_(self: Tensor, value: Any) -> Tensor:
    """Set every element to a number (or a 0-dim tensor)."""
    if isinstance(value, Tensor):
        check(
            value.ndim == 0,
            RuntimeError,
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} "
            "dimensions.",
        )
        return copy_(self, value if value.device is self.device else value.to(self.device))
    check_write(self, one_value=True)
    fill(self._array, fill_value(self._array.spec.dtype, value))
    written(self)
    if modes.state.grad and needs_grad(self):
        node = node_type(OverwriteNode, "fill")(
            dispatch.edges_of([_value_before(self)]), (self._array.spec,)
        )
        node.source = None
        rebind(self, node, 0)
    return self


# to Python and NumPy


@composite(METHOD)
def item(self: Tensor) -> Any:
    """The one element as a Python number. RuntimeError if there are more or fewer."""
    spec = self._array.spec
    check(
        spec.numel == 1,
        RuntimeError,
        f"a Tensor with {spec.numel} elements cannot be converted to Scalar",
    )
    if spec.device is META:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors: they have no elements")
    if spec.device is CPU:
        will_read(self._array)
        nd = self._array.host()
    else:
        nd = host_copy(self._array)
    value = nd.reshape(())[()]
    return float(value) if spec.dtype.is_floating_point else value.item()


@composite(METHOD)
def tolist(self: Tensor) -> Any:
    """The elements as nested lists of Python numbers; a number for 0 dims."""
    nd = host_copy(self._array)
    if self.dtype in (dtypes.bfloat16, *dtypes.EIGHT_BIT_FLOATS):
        nd = nd.astype(np.float32)
    return nd.tolist()


@composite(METHOD)
def numpy(self: Tensor, *, force: bool = False) -> np.ndarray[Any, Any]:
    """The elements as an ndarray that shares the memory; force=True detaches and copies to the CPU
    first."""
    if force:
        return numpy(self.detach().cpu())
    check(
        self.device.type != "cuda",
        TypeError,
        f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the "
        "tensor to host memory first.",
    )
    check(
        self.device is CPU,
        TypeError,
        f"can't convert {self.device} tensor to numpy: it has no elements",
    )
    check(
        not (modes.state.grad and self.requires_grad),
        RuntimeError,
        "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
    )
    will_read(self._array)
    unknown = self.dtype in (dtypes.bfloat16, dtypes.complex32, *dtypes.EIGHT_BIT_FLOATS)
    check(
        not unknown,
        TypeError,
        f"Got unsupported ScalarType {self.dtype.title}: NumPy has no such dtype; convert with "
        ".float() first",
    )
    nd = self._array.host()
    expose(self._array.storage)
    return nd


@composite(METHOD)
def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """NumPy's conversion protocol."""
    values = numpy(self)
    if dtype is not None and values.dtype != np.dtype(dtype):
        return values.astype(dtype)
    return values.copy() if copy else values


@composite(METHOD)
def __array_wrap__(
    self: Tensor, array: Any, context: Any = None, return_scalar: bool = False
) -> Tensor:
    """NumPy's protocol for results: what its functions make of a tensor is a tensor."""
    return OPS["from_numpy"](np.asarray(array))


def _python_number(self: Tensor, kind: type) -> Any:
    check(
        self.numel() == 1,
        ValueError,
        "only one element tensors can be converted to Python scalars",
    )
    value = item(self)
    if isinstance(value, complex) and kind is not complex:
        check(
            value.imag == 0,
            RuntimeError,
            f"value cannot be converted to type {kind.__name__} without overflow",
        )
        value = value.real
    return kind(value)


def _define_numbers() -> None:
    for name, kind in (("__float__", float), ("__int__", int), ("__complex__", complex)):

        def convert(self: Tensor, *, _kind: type = kind) -> Any:
            return _python_number(self, _kind)

        convert.__name__ = name
        convert.__doc__ = f"The one element as {kind.__name__}."
        composite(METHOD)(convert)


_define_numbers()


@composite(METHOD)
def __index__(self: Tensor) -> int:
    """The one integer element, for use as an index."""
    check(
        self.numel() == 1 and self.dtype.category <= dtypes.INTEGRAL,
        TypeError,
        "only integer tensors of a single element can be converted to an index",
    )
    return int(item(self))


@composite(METHOD)
def __bool__(self: Tensor) -> bool:
    """The truth of the one element. RuntimeError if there are several."""
    check(
        self.numel() == 1,
        RuntimeError,
        "Boolean value of Tensor with no values is ambiguous"
        if self.numel() == 0
        else "Boolean value of Tensor with more than one value is ambiguous: use .any() or .all()",
    )
    return bool(item(self))


@composite(METHOD)
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """A copy in page-locked host memory, which GPUs read without staging; itself if it is
    pinned."""
    check(
        self.device is CPU,
        RuntimeError,
        f"cannot pin '{self.type()}' only dense CPU tensors can be pinned",
    )
    if is_pinned(self):
        return self
    spec = self._array.spec
    made = empty_pinned(spec_of(spec.shape, _strides(self, None), spec.dtype, CPU))
    copy_into(made, self._array)
    return tensor_of(made)


@composite(METHOD)
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the tensor lies in pinned memory."""
    return bool(getattr(self._array.storage, "pinned", False))


@composite(FUNCTION, asks_classes=False)
def is_tensor(obj: Any) -> bool:
    """Whether an object is a tensor: what only behaves like one is not."""
    return isinstance(obj, Tensor)


@composite(FUNCTION)
def detach(input: Tensor) -> Tensor:
    """The same memory without history."""
    return input.detach()
