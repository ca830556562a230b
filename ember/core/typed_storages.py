"""`TypedStorage` and its legacy classes; `Tensor.untyped_storage`, `storage` and `set_`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ember import dtypes
from ember.core import modes
from ember.core.array import from_host, host_copy
from ember.core.storages import UntypedStorage, storage_face
from ember.core.tensor import Tensor, tensor_of
from ember.device import CPU, META
from ember.device import device as Device
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import Array, contiguous_spec, spec_of
from ember.layout import Layout, contiguous_strides

_warned: list[bool] = []


def warn_of_typed_storages() -> None:
    """Say once in a program that typed storages are going away."""
    if not _warned:
        _warned.append(True)
        warnings.warn(
            "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will "
            "be the only storage class. This should only matter to you if you are using storages "
            "directly.  To access UntypedStorage directly, use tensor.untyped_storage() instead of "
            "tensor.storage()",
            UserWarning,
            stacklevel=3,
        )


class _LegacyType(type):
    """The class of `torch.FloatStorage` and its like: any typed storage of the dtype is one."""

    _dtype: DType | None

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls._dtype is None:
            return type.__instancecheck__(cls, instance)
        return isinstance(instance, TypedStorage) and instance.dtype is cls._dtype

    @property
    def dtype(cls) -> DType | None:
        """The dtype of the elements; None for `TypedStorage` itself."""
        return cls._dtype


class TypedStorage(metaclass=_LegacyType):
    """A storage seen as elements of a dtype: what `tensor.storage()` gives.

    >>> import ember as torch
    >>> torch.FloatStorage([1, 2]).tolist()
    [1.0, 2.0]
    """

    _dtype: ClassVar[DType | None] = None
    _untyped_storage: UntypedStorage
    dtype: DType
    is_sparse = False

    def __new__(
        cls,
        *args: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: DType | None = None,
        device: Any = None,
        _internal: bool = False,
    ) -> TypedStorage:
        made = object.__new__(TypedStorage)
        made.dtype = cls._dtype or dtype or modes.get_default_dtype()
        if wrap_storage is None:
            check(len(args) <= 1, TypeError, f"{cls.__name__}() takes a size, or a sequence")
            wrap_storage = _typed_content(args[0] if args else 0, made.dtype, device)
        check(
            isinstance(wrap_storage, UntypedStorage),
            TypeError,
            f"Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}",
        )
        made._untyped_storage = wrap_storage
        return made

    @property
    def device(self) -> Device:
        """Where the elements are."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are on a GPU."""
        return self._untyped_storage.is_cuda

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return self._untyped_storage

    def nbytes(self) -> int:
        """The size in bytes."""
        return int(self._untyped_storage.nbytes())

    def element_size(self) -> int:
        """The bytes of an element."""
        return int(self.dtype.itemsize)

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // int(self.dtype.itemsize)

    __len__ = size

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._untyped_storage.data_ptr()

    def get_device(self) -> int:
        """The index of the GPU; -1 on the CPU."""
        return self._untyped_storage.get_device()

    def pickle_storage_type(self) -> str:
        """The name of the class in files: FloatStorage ..."""
        return f"{self.dtype.title}Storage"

    def type(self) -> str:
        """The name of the legacy class."""
        place = "" if self.device is CPU else f".{self.device.type}"
        return f"torch{place}.{self.pickle_storage_type()}"

    def _tensor(self) -> Tensor:
        """The elements as a vector that shares the memory."""
        spec = contiguous_spec((self.size(),), self.dtype, self.device)
        return tensor_of(Array(self._untyped_storage._cell, spec))

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        values: list[Any] = host_copy(self._tensor()._array).tolist()
        return values

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        check(
            not isinstance(index, slice),
            RuntimeError,
            "slices are only supported in UntypedStorage.__getitem__",
        )
        return self._tensor()[index].item()  # type: ignore[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._tensor()[index] = value  # type: ignore[index]

    def fill_(self, value: Any) -> TypedStorage:
        """Set every element."""
        self._tensor().fill_(value)  # type: ignore[attr-defined]
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> TypedStorage:
        """Take over the elements of another typed storage of the same size, cast."""
        self._tensor().copy_(source._tensor(), bool(non_blocking))  # type: ignore[attr-defined]
        return self

    def resize_(self, size: int) -> TypedStorage:
        """Change the number of elements."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def _wrapped(self, storage: UntypedStorage) -> TypedStorage:
        return TypedStorage(wrap_storage=storage, dtype=self.dtype)

    def clone(self) -> TypedStorage:
        """A copy on the same device."""
        return self._wrapped(self._untyped_storage.clone())

    def cpu(self) -> TypedStorage:
        """The elements on the CPU."""
        return self._wrapped(self._untyped_storage.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """The elements on a GPU."""
        return self._wrapped(self._untyped_storage.cuda(device, non_blocking))

    def share_memory_(self) -> TypedStorage:
        """Move the elements to memory that other processes can map, and return itself."""
        self._untyped_storage.share_memory_()
        return self

    def is_shared(self) -> bool:
        """Whether other processes can map the elements."""
        return self._untyped_storage.is_shared()

    def is_pinned(self, device: Any = "cuda") -> bool:
        """Whether the memory is page-locked."""
        return self._untyped_storage.is_pinned(device)

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, TypedStorage) and other.dtype is self.dtype
        return same and other.untyped() == self.untyped()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __repr__(self) -> str:
        what = f"dtype={self.dtype}, device={self.device}) of size {self.size()}]"
        shown = "..." if self.device is META else "\n ".join(map(str, ("", *self)))[1:]
        return f"{shown}\n[torch.storage.TypedStorage({what}"

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[Any, Any]) -> TypedStorage:
        return self._wrapped(self._untyped_storage.__deepcopy__(memo))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _wrapped_again, (self._untyped_storage, self.dtype)


def _wrapped_again(storage: UntypedStorage, dtype: DType) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=dtype)


def _typed_content(content: Any, dtype: DType, device: Any) -> UntypedStorage:
    """A new storage of a number of elements, or of the elements of a sequence."""
    if isinstance(content, int):
        return UntypedStorage(content * dtype.itemsize, device=device)
    values = np.array(list(content)).astype(dtype.numpy)
    made = UntypedStorage(values.nbytes, device=device)
    return made.copy_(storage_face(from_host(values, dtype).storage))


def _legacy_class(name: str, dtype: DType) -> type:
    doc = f"A storage of {dtype} elements: what `tensor.storage()` of that dtype is an instance of."
    body = {"_dtype": dtype, "__doc__": doc, "__module__": "ember.storage"}
    return _LegacyType(name, (TypedStorage,), body)


# The dtypes that had a storage class of their own; the newer ones are saved as bytes.
LEGACY_DTYPES = (
    dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64,
    dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64,
    dtypes.complex64, dtypes.complex128,
)  # fmt: skip
LEGACY_CLASSES = {f"{t.title}Storage": _legacy_class(f"{t.title}Storage", t) for t in LEGACY_DTYPES}


# what tensors say of their memory


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that the tensor views, with all of its bytes.

    >>> import ember as torch
    >>> torch.zeros(4)[1:].untyped_storage().nbytes()
    16
    """
    if self._array.kind != "strided":
        self._array.storage.bytes()  # says that there is none
    return storage_face(self._array.storage)


def typed_storage(self: Tensor) -> TypedStorage:
    """The memory that the tensor views, as elements of its dtype."""
    return TypedStorage(
        wrap_storage=storage_face(self._array.storage), dtype=self._array.spec.dtype
    )


def storage(self: Tensor) -> TypedStorage:
    """The memory that the tensor views, as elements of its dtype. Deprecated: a warning says so."""
    warn_of_typed_storages()
    return typed_storage(self)


def storage_type(self: Tensor) -> Any:
    """The legacy class of the tensor's storage: `torch.FloatStorage` ..."""
    return LEGACY_CLASSES.get(f"{self._array.spec.dtype.title}Storage", TypedStorage)


def is_shared(self: Tensor) -> bool:
    """Whether other processes can map the tensor's memory."""
    return untyped_storage(self).is_shared()


def share_memory_(self: Tensor) -> Tensor:
    """Move the tensor's memory to where other processes can map it, and return itself."""
    untyped_storage(self).share_memory_()
    return self


def view_of(storage: UntypedStorage, dtype: DType, layout: Layout) -> Tensor:
    """A tensor over a storage; RuntimeError for a layout that reaches outside it."""
    check_layout(layout, dtype, storage.nbytes())
    spec = spec_of(tuple(layout.shape), tuple(layout.strides), dtype, storage.device)
    return tensor_of(Array(storage._cell, spec, layout.offset))


def check_layout(layout: Layout, dtype: DType, nbytes: int) -> None:
    """RuntimeError for a layout with negative parts, or one that needs more than `nbytes`."""
    needed = bytes_needed(layout, dtype)
    shape, strides, offset = layout
    check(
        needed <= nbytes,
        RuntimeError,
        f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, and "
        f"itemsize {dtype.itemsize} requiring a storage size of {needed} are out of bounds for "
        f"storage of size {nbytes}",
    )


def bytes_needed(layout: Layout, dtype: DType) -> int:
    """The bytes of the smallest storage that a layout fits in; RuntimeError for negative parts."""
    shape, strides, offset = layout
    check(offset >= 0, RuntimeError, f"Tensor: invalid storage offset {offset}")
    check(
        len(shape) == len(strides),
        RuntimeError,
        f"unequal size length ({len(shape)}) and stride length ({len(strides)})",
    )
    check(
        all(n >= 0 for n in shape) and all(s >= 0 for s in strides),
        RuntimeError,
        f"sizes and strides cannot be negative: sizes {list(shape)}, strides {list(strides)}",
    )
    return layout.extent()[1] * dtype.itemsize if layout.numel else 0


def set_(
    self: Tensor,
    source: Any = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Let the tensor view other memory: a storage, or that of a tensor of its dtype.

    Without sizes it views the whole storage, or what the tensor views. A storage that is too small
    grows. RuntimeError for another device or dtype.

    >>> import ember as torch
    >>> a = torch.arange(4)
    >>> torch.empty(0, dtype=torch.int64).set_(a.untyped_storage(), 1, (2,), (1,))
    tensor([1, 2])
    """
    check(
        not (self._requires_grad and self._grad_fn is None and modes.is_grad_enabled()),
        RuntimeError,
        "a leaf Variable that requires grad is being used in an in-place operation.",
    )
    memory, layout = _new_view(self, source, storage_offset, size, stride)
    check(
        memory.device is self._array.spec.device,
        RuntimeError,
        f'Attempted to set the storage of a tensor on device "{self._array.spec.device}" to a '
        f'storage on different device "{memory.device}".  This is no longer allowed; the devices '
        "must match.",
    )
    needed = bytes_needed(layout, self._array.spec.dtype)
    if needed > memory.nbytes():
        memory.resize_(needed)
    spec = spec_of(
        tuple(layout.shape), tuple(layout.strides), self._array.spec.dtype, self._array.spec.device
    )
    self._array = Array(memory._cell, spec, layout.offset)
    memory._cell.version += 1
    return self


def _new_view(
    self: Tensor, source: Any, offset: int, size: Sequence[int] | None, stride: Any
) -> tuple[UntypedStorage, Layout]:
    """The storage and layout that the arguments of `set_` name."""
    if source is None:
        return UntypedStorage(0, device=self._array.spec.device), Layout((0,), (1,))
    check(
        isinstance(source, Tensor | UntypedStorage | TypedStorage),
        TypeError,
        f"set_() received an invalid source: a storage or a tensor, not {type(source).__name__}",
    )
    if isinstance(source, UntypedStorage):
        memory, whole = source, Layout((source.nbytes() // self._array.spec.dtype.itemsize,), (1,))
    elif isinstance(source, TypedStorage):
        memory, whole = source.untyped(), Layout((source.size(),), (1,))
        check(
            source.dtype is self._array.spec.dtype,
            RuntimeError,
            f"Expected a Storage of type {self._array.spec.dtype.title.lower()} or an "
            "UntypedStorage, but got "
            f"type {source.dtype.title} for argument 1 'storage'",
        )
    else:
        memory, whole = untyped_storage(source), source._array.layout
        check(
            source._array.spec.dtype is self._array.spec.dtype,
            RuntimeError,
            f"Could not set tensor of type {source._array.spec.dtype} to a tensor of type "
            f"{self._array.spec.dtype}",
        )
    if size is None:
        return memory, whole
    shape = tuple(size)
    return memory, Layout(
        shape, contiguous_strides(shape) if stride is None else tuple(stride), offset
    )


Tensor.untyped_storage = untyped_storage  # type: ignore[attr-defined]
Tensor._typed_storage = typed_storage  # type: ignore[attr-defined]
Tensor.storage = storage  # type: ignore[attr-defined]
Tensor.storage_type = storage_type  # type: ignore[attr-defined]
Tensor.is_shared = is_shared  # type: ignore[attr-defined]
Tensor.share_memory_ = share_memory_  # type: ignore[attr-defined]
Tensor.set_ = set_  # type: ignore[attr-defined]
