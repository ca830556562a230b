"""ATen's operators that have another form than the public function: `torch.ops.aten.NAME`."""

from __future__ import annotations

from typing import Any

from ember.core.registry import NAMESPACES
from ember.core.tensor import Tensor
from ember.ops.packets import ATEN

_torch, _functional = NAMESPACES["torch"], NAMESPACES["nn.functional"]


def _form(function: Any) -> Any:
    ATEN[function.__name__.removesuffix("_form")] = function
    return function


@_form
def _to_copy(self: Any, *, dtype: Any = None, device: Any = None, **kwargs: Any) -> Tensor:
    """A copy of another dtype or on another device."""
    kwargs.pop("layout", None), kwargs.pop("pin_memory", None)
    found: Tensor = self.to(device=device, dtype=dtype, copy=True, **kwargs)
    return found


@_form
def _softmax(self: Any, dim: int, half_to_float: bool) -> Any:
    """softmax along `dim`, in float32 if `half_to_float`."""
    return (self.float() if half_to_float else self).softmax(dim)


@_form
def _log_softmax(self: Any, dim: int, half_to_float: bool) -> Any:
    """log_softmax along `dim`, in float32 if `half_to_float`."""
    return (self.float() if half_to_float else self).log_softmax(dim)


@_form
def _pin_memory(self: Any, device: Any = None) -> Any:
    """The tensor in memory that a GPU copies from."""
    return self.pin_memory()


@_form
def _conj(self: Any) -> Any:
    """The conjugate."""
    return self.conj()


@_form
def _is_all_true(self: Any) -> Any:
    """Whether every element is true."""
    return self.all()


@_form
def _sparse_addmm(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """β·self + α·mat1 @ mat2."""
    return _torch["addmm"](self, mat1, mat2, beta=beta, alpha=alpha)


@_form
def _sparse_mm_reduce_impl(self: Any, other: Any, reduce: str) -> Any:
    """NotImplementedError: products of sparse matrices that reduce otherwise than by a sum."""
    raise NotImplementedError(
        f"a product of a sparse matrix that reduces by {reduce!r}: gather and scatter_reduce do it"
    )


@_form
def alias(self: Any) -> Any:
    """The same memory."""
    return self.view_as(self)


@_form
def lift_fresh(self: Any) -> Any:
    """The tensor itself."""
    return self


@_form
def sym_size(self: Any, dim: int | None = None) -> Any:
    """The sizes, or one of them."""
    return list(self.shape) if dim is None else self.shape[dim]


@_form
def sym_stride(self: Any, dim: int | None = None) -> Any:
    """The strides, or one of them."""
    return list(self.stride()) if dim is None else self.stride(dim)


@_form
def sym_numel(self: Any) -> int:
    """The number of elements."""
    return int(self.numel())


@_form
def sym_storage_offset(self: Any) -> int:
    """The place of the first element in the storage."""
    return int(self.storage_offset())


@_form
def slice_form(
    self: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """self[start:end:step] along `dim`."""
    index = [slice(None)] * (dim % self.ndim) + [slice(start, end, step)]
    return self[tuple(index)]


@_form
def index(self: Any, indices: Any) -> Any:
    """self[indices], with None for a whole dim."""
    return self[tuple(slice(None) if i is None else i for i in indices)]


@_form
def _unsafe_view(self: Any, size: Any) -> Any:
    """`view`."""
    return self.view(size)


@_form
def _local_scalar_dense(self: Any) -> Any:
    """`item`."""
    return self.item()


@_form
def convolution(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    """A convolution, or a transposed one, of one to three dims."""
    dims = weight.ndim - 2
    if transposed:
        run = _functional[f"conv_transpose{dims}d"]
        return run(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _functional[f"conv{dims}d"](input, weight, bias, stride, padding, dilation, groups)


@_form
def native_layer_norm(
    input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any]:
    """layer_norm, the means and the reciprocals of the deviations."""
    dims = tuple(range(-len(normalized_shape), 0))
    mean = input.mean(dims, keepdim=True)
    rstd = (input.var(dims, unbiased=False, keepdim=True) + eps).rsqrt()
    run = _functional["layer_norm"]
    return run(input, list(normalized_shape), weight, bias, eps), mean, rstd


@_form
def embedding(
    weight: Any,
    indices: Any,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Rows of `weight`; the arguments are in ATen's order."""
    padding = None if padding_idx < 0 else padding_idx
    return _functional["embedding"](
        indices,
        weight,
        padding_idx=padding,
        scale_grad_by_freq=scale_grad_by_freq,
        sparse=sparse,
    )


@_form
def max_pool2d_with_indices(
    self: Any,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """max_pool2d and where the maxima are."""
    return _functional["max_pool2d"](
        self,
        kernel_size,
        stride or None,
        padding,
        dilation,
        ceil_mode=ceil_mode,
        return_indices=True,
    )


@_form
def native_dropout(input: Any, p: float, train: bool | None) -> tuple[Any, Any]:
    """dropout and its mask."""
    if not train:
        return input.clone(), _torch["ones_like"](input, dtype=_torch["ones"](1).bool().dtype)
    mask = _torch["rand_like"](input) >= p
    return input * mask / (1 - p), mask


@_form
def copy(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """`src` in the shape and dtype of `self`."""
    return self.clone().copy_(src)


@_form
def fill(self: Any, value: Any) -> Any:
    """A tensor like `self` full of a number."""
    return _torch["full_like"](self, value)


@_form
def new_empty_strided(self: Any, size: Any, stride: Any, **kwargs: Any) -> Any:
    """An uninitialised tensor with these strides."""
    options = {"dtype": self.dtype, "device": self.device}
    options.update({k: v for k, v in kwargs.items() if v is not None})
    return _torch["empty_strided"](size, stride, **options)
