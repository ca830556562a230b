"""Factories: tensors from values, shapes and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from ember import dtypes
from ember.core import modes
from ember.core.array import check_strides, from_host
from ember.core.dispatch import number_type
from ember.core.factory import (
    MARKED,
    fill_value,
    finish,
    from_values,
    marked,
    place,
    shape_of,
)
from ember.core.factory import new_empty as blank
from ember.core.factory import new_full as filled
from ember.core.registry import FUNCTION, METHOD, OPS, OUT, composite
from ember.core.tensor import Tensor, tensor_of
from ember.device import CPU
from ember.dtypes import dtype as DType
from ember.dtypes import from_numpy_dtype
from ember.errors import check
from ember.kernel.array import expose
from ember.ops.formats import strided
from ember.ops.shared_memory import of_memory
from ember.source_lines import warn

# from values


def _host_values(data: Any, dtype: DType | None) -> tuple[np.ndarray[Any, Any], DType]:
    """A fresh contiguous ndarray of nested Python data, with the dtype that PyTorch infers."""
    if isinstance(data, (bool, int, float, complex)) and not isinstance(data, np.generic):
        return _from_sequence(data, dtype)
    if isinstance(data, (np.ndarray, np.generic)):
        found = dtype or from_numpy_dtype(data.dtype)
        if isinstance(data, np.ndarray):
            check_strides(data)
        return _cast(np.asarray(data), found), found
    if isinstance(data, (list, tuple, range)) or (
        hasattr(data, "__len__") and not isinstance(data, (dict, set, frozenset))
    ):
        return _from_sequence(data, dtype)
    if hasattr(data, "__array__"):
        return _host_values(np.asarray(data), dtype)
    raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")


def _cast(values: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    if values.dtype.kind == "c" and not dtype.is_complex:
        raise TypeError(f"can't convert complex to {dtype.name}")
    if values.dtype.kind == "i" and dtype.category == dtypes.INTEGRAL and values.ndim == 0:
        info = np.iinfo(dtype.numpy)
        fits = info.min <= int(values) <= info.max or dtype is dtypes.uint8
        check(
            fits, RuntimeError, f"value cannot be converted to type {dtype.name} without overflow"
        )
    with np.errstate(all="ignore"):
        return np.array(values, dtype=dtype.numpy, order="C")


def _from_sequence(data: Any, dtype: DType | None) -> tuple[np.ndarray[Any, Any], DType]:
    if isinstance(data, list) and all(type(v) is int or type(v) is float for v in data):
        leaves, shape = data, (len(data),)  # the usual case, without a closer look
    else:
        leaves = []
        shape = _measure(data, leaves)
    if any(isinstance(leaf, Tensor) for leaf in leaves):
        leaves = [leaf.item() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    numpy_types = {leaf.dtype for leaf in leaves if isinstance(leaf, np.generic)}
    if dtype is None:
        dtype = _inferred(leaves, numpy_types)
    for leaf in leaves:
        if not isinstance(leaf, (bool, int, float, complex, np.generic)):
            raise _not_a_number(leaf, bool(shape) and leaf is leaves[0])
    try:
        values = np.array(leaves, dtype=object if dtype is dtypes.uint64 else None)
    except OverflowError:
        values = np.array(leaves, dtype=object)
    if (
        values.dtype == np.uint64
        and dtype.category == dtypes.INTEGRAL
        and dtype is not dtypes.uint64
    ):
        values = values.astype(object)  # beyond int64
    if values.dtype == object and leaves and dtype is dtypes.uint64:
        return np.array(leaves, np.uint64).reshape(shape), dtype
    if values.dtype == object and leaves:
        check(
            dtype.category != dtypes.INTEGRAL,
            ValueError,
            f"Overflow when unpacking long long: a value does not fit {dtype}",
        )
        values = np.array([complex(v) if dtype.is_complex else float(v) for v in leaves])
    if not leaves:
        values = values.astype(np.float64)
    _check_range(values, dtype)
    return _cast(values.reshape(shape), dtype), dtype


def _not_a_number(leaf: Any, leads: bool) -> Exception:
    if isinstance(leaf, str):
        return (
            ValueError("too many dimensions 'str'")
            if leads
            else TypeError("new(): invalid data type 'str'")
        )
    return RuntimeError(
        f"Could not infer dtype of {type(leaf).__name__}: it is no number, sequence or array"
    )


def _check_range(values: np.ndarray[Any, Any], dtype: DType) -> None:
    """RuntimeError for numbers that an integer dtype cannot hold; unsigned ones wrap negatives."""
    same = values.dtype == dtype.numpy
    if same or dtype.category != dtypes.INTEGRAL or values.dtype.kind not in "iuf":
        return
    info = np.iinfo(dtype.numpy)
    least = info.min if dtype.is_signed else -info.max
    with np.errstate(all="ignore"):
        fits = bool(((values >= least) & (values <= info.max)).all())
    check(fits, RuntimeError, f"value cannot be converted to type {dtype.name} without overflow")


def _inferred(leaves: list[Any], numpy_types: set[Any]) -> DType:
    if not leaves:
        return modes.get_default_dtype()
    if len(numpy_types) == 1 and all(isinstance(leaf, np.generic) for leaf in leaves):
        return from_numpy_dtype(next(iter(numpy_types)))
    category = max(
        (
            dtypes.category_of_number(leaf)
            for leaf in leaves
            if isinstance(leaf, (bool, int, float, complex, np.generic))
        ),
        default=dtypes.FLOAT,
    )
    return number_type((False, 0, 0.0, 0j)[category])


def _measure(data: Any, leaves: list[Any]) -> tuple[int, ...]:
    """The shape of nested sequences, whose numbers go to `leaves`; ValueError for ragged ones."""
    if isinstance(data, np.ndarray) and data.ndim:
        leaves.extend(data.reshape(-1))
        return tuple(data.shape)
    if isinstance(data, Tensor) and data.numel() != 1:
        if data.dtype.category <= dtypes.INTEGRAL:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        raise ValueError("only one element tensors can be converted to Python scalars: use stack()")
    if (
        isinstance(data, (str, dict, set, frozenset))
        or not hasattr(data, "__len__")
        or isinstance(data, (np.generic, Tensor, np.ndarray))
    ):
        leaves.append(data[()] if isinstance(data, np.ndarray) else data)
        return ()
    shapes = []
    for item in data:
        shape = _measure(item, leaves)
        if shapes and bool(shape) != bool(shapes[0]):  # a number beside a sequence
            raise TypeError(
                f"'{type(item).__name__}' object cannot be interpreted as an integer"
                if shape
                else "not a sequence"
            )
        if shapes and shape != shapes[0]:
            dim = len(shapes[0]) and min(len(shape), len(shapes[0]))
            want = shapes[0][0] if shapes[0] else 0
            got = shape[0] if shape else 0
            raise ValueError(f"expected sequence of length {want} at dim {max(dim, 1)} (got {got})")
        shapes = shapes or [shape]
    return (len(data), *(shapes[0] if shapes else ()))


def _copy_of(
    source: Tensor, maker: str, dtype: Any, device: Any, requires_grad: bool = False
) -> Tensor:
    """A leaf with a tensor's values; a warning, since clone says so more clearly."""
    warn(
        "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() "
        "or sourceTensor.detach().clone().requires_grad_(True), rather than "
        f"{maker}(sourceTensor)."
    )
    source = source.detach()
    target = place(device) if device is not None else source.device
    return source.to(target, dtype or source.dtype, copy=True).requires_grad_(requires_grad)


@composite(FUNCTION, asks_classes=False)
def tensor(
    data: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor with a copy of `data`: numbers, nested sequences, an ndarray, a tensor.

    >>> import ember as torch
    >>> torch.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, Tensor):
        return _copy_of(data, "torch.tensor", dtype, device, requires_grad)
    values, found = _host_values(data, dtype)
    return finish(from_values(values, found, place(device)), requires_grad, pin_memory)


@composite(FUNCTION, asks_classes=False)
def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing its memory where dtype and device allow."""
    if isinstance(data, Tensor):
        spec = data._array.spec
        target = place(device) if device is not None else spec.device
        same = target is spec.device and (dtype is None or dtype is spec.dtype)
        return data if same else data.to(target, dtype or spec.dtype)
    if isinstance(data, np.ndarray):
        shared = from_numpy(data)
        return shared.to(place(device), dtype or shared.dtype)
    return tensor(data, dtype=dtype, device=device)


@composite(FUNCTION, asks_classes=False)
def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`obj` as a tensor; copy=True always copies, copy=False raises where a copy would be
    needed."""
    if isinstance(obj, Tensor):
        target = place(device) if device is not None else obj.device
        wanted = dtype or obj.dtype
        needed = target is not obj.device or wanted is not obj.dtype
        check(
            not (needed and copy is False),
            ValueError,
            "can't alias tensor with another dtype or device",
        )
        made = obj.to(target, wanted, copy=bool(copy))
        return made if requires_grad or not made.requires_grad else made.detach()
    if isinstance(obj, np.ndarray):
        shared = from_numpy(obj)
        made = asarray(shared, dtype=dtype, device=device or CPU, copy=copy)
        return made.requires_grad_(requires_grad)
    shared = of_memory(obj, dtype)
    if shared is not None:
        made = asarray(shared, device=device or shared.device, copy=copy)
        return made.requires_grad_(requires_grad)
    check(copy is not False, ValueError, "can't alias arbitrary sequence into a tensor")
    return tensor(obj, dtype=dtype, device=device, requires_grad=requires_grad)


@composite(FUNCTION)
def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor:
    """A CPU tensor that shares the memory of an ndarray. TypeError for dtypes that PyTorch
    lacks."""
    check(
        isinstance(ndarray, np.ndarray),
        TypeError,
        f"expected np.ndarray (got {type(ndarray).__name__})",
    )
    from_numpy_dtype(ndarray.dtype)
    if not ndarray.flags.writeable:
        import warnings

        warnings.warn(
            "The given NumPy array is not writable, and PyTorch does not support non-writable "
            "tensors. This means writing to this tensor will result in undefined behavior. You "
            "may want to copy the array to protect its data or make it writable before converting "
            "it to a tensor.",
            UserWarning,
            stacklevel=3,
        )
    array = from_host(ndarray)
    expose(array.storage)
    return tensor_of(array)


# from shapes

FACTORIES: dict[Any, str] = {0: "zeros", 1: "ones", None: "empty"}


def _sequence(size: Any, where: str) -> Any:
    """`size`; TypeError for a single number where PyTorch asks for a tuple."""
    single = isinstance(size, (int, float)) and not isinstance(size, Tensor)
    check(not single, TypeError, f"{where} must be tuple of ints, not {type(size).__name__}")
    return size


def _factory(value: Any, sizes: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    dtype = kwargs.pop("dtype", None)
    device = kwargs.pop("device", None)
    requires_grad, pinned = kwargs.pop("requires_grad", False), kwargs.pop("pin_memory", False)
    layout, chosen = kwargs.pop("layout", None), kwargs.pop("memory_format", None)
    named = f"{FACTORIES[value]}()" if value in FACTORIES else "a factory"
    if "size" in kwargs:
        sizes = (*sizes, _sequence(kwargs.pop("size"), f"{named}: argument 'size'"))
    check(bool(sizes), TypeError, f'{named} missing 1 required positional arguments: "size"')
    check(
        kwargs.pop("names", None) is None,
        NotImplementedError,
        "names of dims are left out: a tensor's dims are known by their numbers",
    )
    check(not kwargs, TypeError, f"{named} got an unexpected keyword argument {[*kwargs][:1]}")
    shape = shape_of(sizes)
    dtype = dtype or modes.get_default_dtype()
    if layout is not None and layout is not strided:
        return _sparse(value, shape, layout, dtype, device).requires_grad_(requires_grad)
    array = blank(shape, dtype, device) if value is None else filled(shape, value, dtype, device)
    made = finish(array, requires_grad, pinned)
    return made if chosen is None else made.to(memory_format=chosen)


def _sparse(value: Any, shape: Any, layout: Any, dtype: Any, device: Any) -> Any:
    check(not value, RuntimeError, "full(...) is not implemented for sparse layout")
    made = OPS["sparse_coo_tensor"](size=shape, dtype=dtype, device=device)
    return made.to_sparse(layout=layout)


@composite(FUNCTION | OUT)
def zeros(*size: Any, **kwargs: Any) -> Tensor:
    """Zeros of a shape; dtype, device, requires_grad, pin_memory as keywords."""
    return _factory(0, size, kwargs)


@composite(FUNCTION | OUT)
def ones(*size: Any, **kwargs: Any) -> Tensor:
    """Ones of a shape; dtype, device, requires_grad as keywords."""
    return _factory(1, size, kwargs)


@composite(FUNCTION | OUT)
def empty(*size: Any, **kwargs: Any) -> Tensor:
    """An uninitialised tensor of a shape; dtype, device, requires_grad, pin_memory, memory_format
    as keywords."""
    made = _factory(None, size, kwargs)
    return marked(made) if MARKED[0] else made


@composite(FUNCTION | OUT)
def full(
    size: Any, fill_value: Any, *, dtype: DType | None = None, device: Any = None, **kwargs: Any
) -> Tensor:
    """A tensor of a shape filled with a number, of the number's dtype by default."""
    if isinstance(fill_value, Tensor):
        dtype, fill_value = dtype or fill_value.dtype, fill_value.item()
    kwargs.pop("layout", None)
    rest = kwargs.keys() - {"requires_grad", "pin_memory", "names"}
    check(not rest, TypeError, f"full() got an unexpected keyword argument {sorted(rest)[:1]}")
    shape = shape_of((_sequence(size, "full(): argument 'size' (position 1)"),))
    array = filled(shape, _fill(dtype, fill_value), dtype or number_type(fill_value), device)
    return finish(array, kwargs.pop("requires_grad", False), kwargs.pop("pin_memory", False))


def _fill(dtype: DType | None, value: Any) -> Any:
    return value if dtype is None else fill_value(dtype, value)


@composite(FUNCTION)
def empty_strided(
    size: Any, stride: Any, *, dtype: DType | None = None, device: Any = None, **kwargs: Any
) -> Tensor:
    """An uninitialised tensor of a shape with given strides."""
    shape, strides = shape_of((size,)), shape_of((stride,))
    check(
        len(shape) == len(strides),
        RuntimeError,
        f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides "
        f"({len(strides)})",
    )
    extent = (
        1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if 0 not in shape else 0
    )
    flat = marked(finish(blank((extent,), dtype, device), False, kwargs.pop("pin_memory", False)))
    return (
        flat.as_strided(shape, strides).detach().requires_grad_(kwargs.pop("requires_grad", False))
    )


def _new(self: Tensor, value: Any, sizes: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    kwargs["dtype"] = kwargs.get("dtype") or self.dtype
    kwargs["device"] = kwargs.get("device") if kwargs.get("device") is not None else self.device
    return _factory(value, sizes, kwargs)


@composite(METHOD)
def new_zeros(self: Tensor, *size: Any, **kwargs: Any) -> Tensor:
    """Zeros of a shape with this tensor's dtype and device."""
    return _new(self, 0, size, kwargs)


@composite(METHOD)
def new_ones(self: Tensor, *size: Any, **kwargs: Any) -> Tensor:
    """Ones of a shape with this tensor's dtype and device."""
    return _new(self, 1, size, kwargs)


@composite(METHOD)
def new_empty(self: Tensor, *size: Any, **kwargs: Any) -> Tensor:
    """An uninitialised tensor of a shape with this tensor's dtype and device."""
    return marked(_new(self, None, size, kwargs))


@composite(METHOD)
def new_full(self: Tensor, size: Any, fill_value: Any, **kwargs: Any) -> Tensor:
    """A tensor of a shape filled with a number, with this tensor's dtype and device."""
    return _new(self, fill_value, (size,), kwargs)


@composite(METHOD)
def new_tensor(self: Tensor, data: Any, **kwargs: Any) -> Tensor:
    """A copy of `data` as a tensor of this one's dtype and device."""
    dtype = kwargs.pop("dtype", None) or self.dtype
    device = kwargs.pop("device", None)
    device = self.device if device is None else device
    if isinstance(data, Tensor) and kwargs.keys() <= {"requires_grad"}:
        return _copy_of(data, "tensor.new_tensor", dtype, device, **kwargs)
    return tensor(data, dtype=dtype, device=device, **kwargs)


@composite(FUNCTION)
def scalar_tensor(s: Any, *, dtype: DType | None = None, device: Any = None, **kw: Any) -> Tensor:
    """A 0-dim tensor."""
    return full((), s, dtype=dtype or modes.get_default_dtype(), device=device)
