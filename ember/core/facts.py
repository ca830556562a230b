"""What a tensor is, read off its array: shape, dtype, device, strides, address."""

from __future__ import annotations

from typing import Any

from ember.device import META
from ember.device import device as Device
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import Array, Spec
from ember.layout import Size, is_contiguous


class ArrayFacts:
    """The part of Tensor that asks its array; it knows nothing of gradients."""

    _array: Array
    _inference = False
    # The kinds of tensors that Ember does not have, which libraries ask every tensor for.
    is_quantized = is_mkldnn = is_nested = False
    is_ipu = is_maia = is_mps = is_mtia = is_vulkan = is_xla = is_xpu = False

    @property
    def spec(self) -> Spec:
        """Shape, strides, dtype and device together."""
        return self._array.spec

    @property
    def shape(self) -> Size:
        """The sizes of the dims."""
        return Size(self._array.spec.shape)

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._array.spec.dtype

    @property
    def device(self) -> Device:
        """Where the elements are."""
        return self._array.spec.device

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return self._array.spec.ndim

    @property
    def is_sparse(self) -> bool:
        """Whether the tensor holds coordinates and values (`torch.sparse_coo`)."""
        return self._array.kind == "sparse_coo"

    @property
    def is_sparse_csr(self) -> bool:
        """Whether the tensor holds compressed rows (`torch.sparse_csr`)."""
        return self._array.kind == "sparse_csr"

    @property
    def names(self) -> tuple[None, ...]:
        """The names of the dims: they have none."""
        return (None,) * self._array.spec.ndim

    @property
    def is_cuda(self) -> bool:
        """Whether the tensor is on a GPU."""
        return self._array.spec.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """Whether the tensor is on the CPU."""
        return self._array.spec.device.type == "cpu"

    @property
    def is_meta(self) -> bool:
        """Whether the tensor has a shape and no elements."""
        return self._array.spec.device is META

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(self._array.spec.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._array.spec.nbytes

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dim."""
        shape = self.shape
        if dim is None:
            return shape
        check(
            -len(shape) <= dim < len(shape),
            IndexError,
            lambda: (
                f"Dimension out of range (expected to be in range of [{-len(shape)}, "
                f"{len(shape) - 1}], but got {dim})"
                if shape
                else "Dimension specified as 0 but tensor has no dimensions"
            ),
        )
        return shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        """The strides in elements, or that of one dim."""
        strides = self._array.spec.strides
        if dim is None:
            return strides
        check(
            -len(strides) <= dim < len(strides),
            IndexError,
            lambda: (
                f"Dimension out of range (expected to be in range of [{-len(strides)}, "
                f"{len(strides) - 1}], but got {dim})"
            ),
        )
        return strides[dim]

    def storage_offset(self) -> int:
        """The place of the first element in the storage, in elements."""
        return self._array.offset

    def dim(self) -> int:
        """The number of dims."""
        return self._array.spec.ndim

    ndimension = dim

    def numel(self) -> int:
        """The number of elements."""
        return self._array.spec.numel

    nelement = numel

    def element_size(self) -> int:
        """Bytes of an element."""
        return int(self._array.spec.dtype.itemsize)

    def get_device(self) -> int:
        """The index of the GPU; -1 on the CPU."""
        index = self._array.spec.device.index
        return -1 if index is None else index

    def is_floating_point(self) -> bool:
        """Whether the dtype is a real floating-point one."""
        return self._array.spec.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is complex."""
        return self._array.spec.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self._array.spec.dtype.is_signed

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode."""
        return self._inference

    def is_set_to(self, tensor: ArrayFacts) -> bool:
        """Whether both are the same view of the same storage."""
        a, b = self._array, tensor._array
        return a.storage is b.storage and a.offset == b.offset and a.spec is b.spec

    def __len__(self) -> int:
        shape = self._array.spec.shape
        check(shape, TypeError, "len() of a 0-d tensor")
        return shape[0]

    def __bool__(self) -> bool:
        return bool(self.item())  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return id(self)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether elements lie in row-major order (or that of `memory_format`) without gaps."""
        spec = self._array.spec
        if memory_format is not None and getattr(memory_format, "strides_of", None) is not None:
            wanted = memory_format.strides_of(spec.shape)
            return wanted is not None and is_same_layout(spec.shape, spec.strides, wanted)
        return is_contiguous(spec.shape, spec.strides)

    def data_ptr(self) -> int:
        """The address of the first element (a simulated GPU has addresses of its own)."""
        array = self._array
        if array.spec.device is META or array.spec.numel == 0:
            return 0
        return address(array)


def is_same_layout(
    shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]
) -> bool:
    """Whether strides agree wherever they matter."""
    return 0 in shape or all(
        n == 1 or a == b for n, a, b in zip(shape, strides, wanted, strict=True)
    )


def address(array: Array) -> int:
    """The address of an array's first element."""
    held = getattr(array.storage, "lease", None) or array.storage.buffer
    start = getattr(held, "address", None)
    if start is None:
        start = array.storage.bytes().ctypes.data
    return int(start + array.offset * array.spec.dtype.itemsize)
