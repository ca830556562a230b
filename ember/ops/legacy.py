"""The legacy tensor types: `torch.FloatTensor(2, 3)`, `torch.cuda.HalfTensor`, and `torch.Tensor`
itself."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ember import dtypes
from ember.backends.base import resolve
from ember.core import modes
from ember.core.array import empty
from ember.core.factory import from_values, shape_of
from ember.core.registry import METHOD, composite
from ember.core.tensor import Tensor, legacy_cast, legacy_constructor, legacy_device, tensor_of
from ember.device import CPU, set_default_device
from ember.device import device as Device
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import contiguous_spec
from ember.layout import Size
from ember.ops.create import _host_values
from ember.ops.moves import move
from ember.source_lines import warn

NAMES = ("data", "other", "size")  # of what a legacy constructor takes instead of an argument


def _made(dtype: DType, device: Device, args: tuple[Any, ...]) -> Tensor:
    """What a legacy constructor makes: sizes give an uninitialised tensor, data a copy, and a
    tensor one that shares its memory."""
    args = args or (0,)
    if len(args) == 1 and not _is_size(args[0]):
        data = args[0]
        if isinstance(data, Tensor):
            check(
                data.dtype is dtype,
                TypeError,
                lambda: (
                    f"expected a tensor of {dtype}, but got one of {data.dtype}: use .to(dtype) to "
                    "convert it"
                ),
            )
            return move(data.detach(), device, dtype, False, False, None)
        check(
            hasattr(type(data), "__getitem__") and not isinstance(data, np.generic | dict),
            TypeError,
            f"new(): data must be a sequence (got {type(data).__name__}). To make a tensor of one "
            "number use torch.tensor(number)",
        )
        values, found = _host_values(data, dtype)
        return tensor_of(from_values(values, found, device))
    shape = (operator.index(args[0]),) if isinstance(args[0], np.ndarray) else shape_of(args)
    return tensor_of(empty(contiguous_spec(shape, dtype, device)))


def _is_size(value: Any) -> bool:
    """Whether one argument is a size rather than data: an integer (no bool), or a torch.Size."""
    if isinstance(value, Tensor | bool | Size):
        return isinstance(value, Size)
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _construct(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
    if len(kwargs) == 1 and not args:
        args = tuple(Size(v) if k == "size" else v for k, v in kwargs.items() if k in NAMES)
    check(
        not kwargs or args,
        TypeError,
        f"Tensor() got unexpected keyword argument(s): {', '.join(kwargs)}",
    )
    place = Device(device) if device is not None else CPU
    check(
        place.type == "cpu",
        RuntimeError,
        f"legacy constructor expects device type: cpu but device type: {place.type} was passed. "
        f"Use torch.tensor(data, device='{place}'), or torch.{place.type}.FloatTensor",
    )
    if len(args) == 1 and isinstance(args[0], Tensor):
        made = args[0].view_as(args[0]) if cls is Tensor else args[0].detach()
    else:
        made = _made(modes.get_default_dtype(), _default_type_device(), args)
    if cls is not Tensor:
        shell = object.__new__(cls)
        shell._array = made._array
        return shell
    return made


def _default_type_device() -> Device:
    return resolve(legacy_device[0])


legacy_constructor.append(_construct)


class TensorType(type):
    """The class of a legacy tensor type: `isinstance` looks at dtype and device."""

    dtype: DType
    place: str

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, Tensor)
            and instance.dtype is cls.dtype
            and instance.device.type == cls.place
        )

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.pop("device", None)
        check(
            not kwargs,
            TypeError,
            f"{cls.__name__}() got unexpected keyword argument(s): {', '.join(kwargs)}",
        )
        place = Device(device) if device is not None else Device(cls.place)
        check(
            place.type == cls.place,
            RuntimeError,
            f"legacy constructor expects device type: {cls.place} but device type: {place.type} "
            "was passed",
        )
        return _made(cls.dtype, resolve(place), args)

    def __repr__(cls) -> str:
        return f"<class '{type_string(cls)}'>"

    def __str__(cls) -> str:
        return repr(cls)


def type_string(kind: TensorType) -> str:
    """The name of a legacy type: torch.cuda.FloatTensor."""
    return f"torch.{'' if kind.place == 'cpu' else kind.place + '.'}{kind.__name__}"


def _make(dtype: DType, place: str) -> TensorType:
    name = f"{dtype.title}Tensor"
    module = "torch" if place == "cpu" else f"torch.{place}"
    doc = f"The legacy type of {dtype} tensors on {place}."
    return TensorType(
        name,
        (),
        {
            "dtype": dtype,
            "place": place,
            "is_cuda": place == "cuda",
            "__module__": module,
            "__doc__": doc,
        },
    )


LEGACY = tuple(
    t
    for t in dtypes.ALL
    if t not in dtypes.EIGHT_BIT_FLOATS
    and t.name not in ("uint16", "uint32", "uint64", "complex64", "complex128")
)
CPU_TYPES = {f"{t.title}Tensor": _make(t, "cpu") for t in LEGACY}
CUDA_TYPES = {f"{t.title}Tensor": _make(t, "cuda") for t in LEGACY}


def find_type(text: str) -> TensorType:
    """The legacy type of a name such as torch.cuda.FloatTensor; ValueError for others."""
    parts = text.split(".")
    table = CUDA_TYPES if parts[-2:-1] == ["cuda"] else CPU_TYPES
    found = table.get(parts[-1])
    check(found is not None and parts[0] == "torch", ValueError, f"invalid type: '{text}'")
    assert found is not None
    return found


def _cast(tensor: Tensor, kind: Any, non_blocking: bool) -> Tensor:
    if isinstance(kind, DType):
        return move(tensor, tensor.device, kind, False, non_blocking, None)
    if kind is Tensor:
        kind = CPU_TYPES[f"{modes.get_default_dtype().title}Tensor"]
    if isinstance(kind, str):
        kind = find_type(kind)
    check(
        isinstance(kind, TensorType),
        TypeError,
        "type(): dtype must be a type, str, or dtype object",
    )
    place = tensor.device if tensor.device.type == kind.place else resolve(Device(kind.place))
    return move(tensor, place, kind.dtype, False, non_blocking, None)


legacy_cast.append(_cast)


@composite(METHOD)
def new(self: Tensor, *args: Any, device: Any = None, size: Any = None) -> Tensor:
    """A tensor of the same dtype on the same device, by the legacy constructor's arguments: sizes,
    or data, of which a tensor shares its memory.

    RuntimeError for a device of another type, TypeError for a float or a tensor of another dtype.

    >>> import ember as torch
    >>> torch.tensor([1.5]).new([2, 3])
    tensor([2., 3.])
    """
    place = self.device if device is None else resolve(Device(device))
    check(
        place.type == self.device.type,
        RuntimeError,
        f"legacy constructor expects device type: {self.device.type} but device type: "
        f"{place.type} was passed. Use new_tensor, new_empty or new_zeros, which take any device",
    )
    if size is not None:
        args = (Size(size),)
    return _made(self.dtype, place, args)


def set_default_tensor_type(t: Any) -> None:
    """Make a legacy type the default: its dtype, and its device for factories.

    Deprecated. TypeError for types that are not floating-point.
    """
    warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives."
    )
    if t is Tensor:
        t = CPU_TYPES["FloatTensor"]
    if isinstance(t, str):
        t = find_type(t)
    check(
        isinstance(t, TensorType) and t.dtype.is_floating_point,
        TypeError,
        "only floating-point types are supported as the default type",
    )
    place = Device(t.place)
    resolve(place)
    modes.set_default_dtype(t.dtype)
    legacy_device[0] = place
    set_default_device(place)


__all__ = ["CPU_TYPES", "CUDA_TYPES", "set_default_tensor_type"]
