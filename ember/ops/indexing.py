"""x[...]: basic indices are views, tensors and lists of indices gather, assignments write through
either."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ember import dtypes
from ember.backends.library import Library
from ember.core.array import full, host_copy
from ember.core.history import check_write
from ember.core.lifting import is_batched
from ember.core.registry import METHOD, composite, library_op
from ember.core.tensor import Tensor, tensor_of
from ember.device import META
from ember.errors import check
from ember.kernel.array import Spec, contiguous_spec
from ember.layout import broadcast_shapes, broadcasts_to
from ember.ops.create import tensor
from ember.ops.views import select, slice_, unsqueeze
from ember.source_lines import warn

INDEX_TYPES = (dtypes.int64, dtypes.int32, dtypes.uint8, dtypes.bool_, dtypes.int16, dtypes.int8)


@library_op(Library.index, upcast=False)
def index(input: Tensor, indices: Sequence[Tensor | None]) -> Spec | None:
    """input[indices]: each index tensor replaces its dim; None keeps one."""
    return input.spec.with_shape(_indexed_shape(input.shape, indices))


index.grad = lambda g, input_spec, indices: (
    index_put_op(_zeros(input_spec), indices, g, True),
    [None] * len(indices),
)


def _zeros(spec: Spec) -> Tensor:
    return tensor_of(full(contiguous_spec(spec.shape, spec.dtype, spec.device), 0))


@library_op(Library.index_put, upcast=False, name="index_put")
def index_put_op(
    input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Spec:
    """A copy of `input` with `values` written (or added) at `indices`."""
    shape = _indexed_shape(input.shape, indices)
    check(
        broadcasts_to(values.shape, shape),
        RuntimeError,
        f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to "
        f"indexing result of shape {list(shape)}",
    )
    return input.spec.with_shape(input.shape)


def _index_put_gradient(
    g: Any, input_spec: Spec, indices: Any, values_spec: Spec, accumulate: bool
) -> Any:
    kept = g if accumulate else index_put_op(g, indices, g.new_zeros(()), False)
    return kept, [None] * len(indices), index(g, indices)


index_put_op.grad = _index_put_gradient


def _indexed_shape(shape: Sequence[int], indices: Sequence[Tensor | None]) -> tuple[int, ...]:
    used = [d for d, i in enumerate(indices) if i is not None]
    try:
        found = broadcast_shapes(*(indices[d].shape for d in used))
    except RuntimeError:
        shapes = ", ".join(str(list(indices[d].shape)) for d in used)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None
    rest = [n for d, n in enumerate(shape) if d not in used]
    together = used == list(range(used[0], used[0] + len(used)))
    front = used[0] if together else 0
    return (*rest[:front], *found, *rest[front:])


def _normalised(self: Tensor, key: Any) -> tuple[Tensor, list[Any] | None]:
    """The view that the basic parts of a key make, and index tensors for its dims (None if there
    are none)."""
    items = _as_items(key)
    consumed = sum(_dims_of(i) for i in items if i is not None and i is not Ellipsis)
    check(
        consumed <= self.ndim,
        IndexError,
        f"too many indices for tensor of dimension {self.ndim}",
    )
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    check(len(dots) <= 1, IndexError, "an index can only have a single ellipsis ('...')")
    filler: list[Any] = [slice(None)] * (self.ndim - consumed)
    items = items[: dots[0]] + filler + items[dots[0] + 1 :] if dots else items + filler
    out, dim = self, 0
    indices: list[Any] = []
    for item in items:
        if item is None:
            out = unsqueeze(out, dim)
            indices.append(None)
            dim += 1
        elif isinstance(item, slice):
            out = _sliced(out, dim, item)
            indices.append(None)
            dim += 1
        elif (
            isinstance(item, Tensor)
            and item.dtype in (dtypes.bool_, dtypes.uint8)
            and item.ndim != 0
        ):
            for part in _mask_indices(item, out, dim):
                indices.append(part)
                dim += 1
        elif isinstance(item, (bool, np.bool_)) or (
            isinstance(item, Tensor) and item.dtype is dtypes.bool_
        ):
            out = unsqueeze(out, dim)
            true = bool(item)
            indices.append(tensor([0] if true else [], dtype=dtypes.int64, device=self.device))
            dim += 1
        elif isinstance(item, Tensor):
            indices.append(item)
            dim += 1
        else:
            out = _selected(out, dim, item, self)
    return out, indices if any(i is not None for i in indices) else None


def _as_items(key: Any) -> list[Any]:
    if isinstance(key, list) and not _is_index_list(key):
        warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated: use "
            "x[tuple(seq)] instead of x[seq], or x[torch.tensor(seq)]",
            UserWarning,
        )
        key = tuple(key)
    items = list(key) if isinstance(key, tuple) else [key]
    return [_as_item(item) for item in items]


def _is_index_list(key: list[Any]) -> bool:
    """Whether a list stands for one tensor of indices, rather than for a tuple of them: tensors,
    sequences, slices, ... and None make it a tuple, as in PyTorch."""
    return not any(
        k is None or k is Ellipsis or isinstance(k, (slice, list, tuple, range, Tensor, np.ndarray))
        for k in key
    )


def _as_item(item: Any) -> Any:
    if item is None or item is Ellipsis or isinstance(item, (bool, np.bool_, int, slice)):
        return item
    if isinstance(item, Tensor):
        if item.dtype not in INDEX_TYPES:
            raise IndexError(
                "tensors used as indices must be long, int, byte or bool tensors: got "
                f"{item.dtype} (use .long())"
            )
        if (
            item.ndim == 0
            and item.dtype.category == dtypes.INTEGRAL
            and item.dtype is not dtypes.uint8
            and not is_batched(item)
        ):
            return int(item.item())
        return item
    if isinstance(item, (list, tuple, range, np.ndarray)):
        if isinstance(item, np.ndarray) and item.dtype.kind not in "biu":
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        made = tensor(np.asarray(item)) if isinstance(item, np.ndarray) else tensor(list(item))
        return made.long() if made.numel() == 0 or made.dtype is dtypes.float32 else made
    try:
        return operator.index(item)
    except TypeError:
        raise (TypeError if isinstance(item, str) else IndexError)(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
            f"valid indices (got {type(item).__name__})"
        ) from None


def _dims_of(item: Any) -> int:
    if isinstance(item, (bool, np.bool_)):
        return 0
    if isinstance(item, Tensor) and item.dtype in (dtypes.bool_, dtypes.uint8):
        return item.ndim
    return 1


def _sliced(out: Tensor, dim: int, item: slice) -> Tensor:
    step = 1 if item.step is None else operator.index(item.step)
    check(step > 0, ValueError, "step must be greater than zero: use flip() to reverse a dim")
    bounds = [None if b is None else int(b) for b in (item.start, item.stop)]
    start, stop, _ = slice(bounds[0], bounds[1], step).indices(out.shape[dim])
    if start == 0 and stop == out.shape[dim] and step == 1:
        return out if out._base is not None else slice_(out, dim, 0, stop, 1)
    return slice_(out, dim, start, max(stop, start), step)


def _selected(out: Tensor, dim: int, item: Any, whole: Tensor) -> Tensor:
    position, size = int(item), out.shape[dim]
    if not -size <= position < size:
        if whole.ndim == 0:
            raise IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` in Python")
        raise IndexError(f"index {position} is out of bounds for dimension {dim} with size {size}")
    return select(out, dim, position)


def _mask_indices(mask: Tensor, out: Tensor, dim: int) -> list[Tensor]:
    if mask.dtype is dtypes.uint8:
        warnings.warn(
            "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool "
            "instead.",
            UserWarning,
            stacklevel=5,
        )
    window = out.shape[dim : dim + mask.ndim]
    for offset, (a, b) in enumerate(zip(mask.shape, window, strict=True)):
        check(
            a == b,
            IndexError,
            f"The shape of the mask {list(mask.shape)} at index {offset} does not match the shape "
            f"of the indexed tensor {list(out.shape)} at index {dim + offset}",
        )
    check(
        not is_batched(mask),
        RuntimeError,
        "vmap: We do not support batching operators that can support dynamic shape. Attempting to "
        "batch over indexing with a boolean mask. Use torch.where, or masked_fill.",
    )
    check(
        mask.device is not META, NotImplementedError, "a mask on meta has no elements to index with"
    )
    found = np.nonzero(host_copy(mask._array))
    return [tensor(part, dtype=dtypes.int64, device=out.device) for part in found]


def _on_device(indices: list[Any], device: Any) -> list[Any]:
    """CPU indices may index a GPU tensor; other devices may not mix."""
    made = []
    for position in indices:
        if isinstance(position, Tensor):
            check(
                position.device is device or position.device.type == "cpu",
                RuntimeError,
                "indices should be either on cpu or on the same device as the indexed tensor "
                f"({device}): this one is on {position.device}",
            )
            position = (
                position.to(device)
                if position.dtype is dtypes.int64
                else position.to(device).long()
            )
        made.append(position)
    while made and made[-1] is None:
        made.pop()
    return made


@composite(METHOD)
def __getitem__(self: Tensor, key: Any) -> Tensor:
    """Ints, slices, None, ..., masks, tensors and lists of ints, as in NumPy."""
    if type(key) is int:
        return _selected(self, 0, key, self) if self.ndim else _no_dims(key)
    out, indices = _normalised(self, key)
    if indices is None:
        return (
            slice_(out, 0, 0, out.shape[0], 1)
            if out is self and self.ndim
            else out
            if out is not self
            else out.view_as(out)
        )
    return index(out, tuple(_on_device(indices, out.device)))


def _no_dims(key: Any) -> Tensor:
    raise IndexError(
        "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
        "C++"
    )


@composite(METHOD)
def __setitem__(self: Tensor, key: Any, value: Any) -> None:
    """Write a number or a broadcast tensor at the indexed places."""
    out, indices = _normalised(self, key)
    if not isinstance(value, Tensor):
        if isinstance(value, (list, tuple, np.ndarray)):
            value = tensor(value, dtype=self.dtype, device=self.device)
        elif indices is None:
            check(
                isinstance(value, (int, float, complex, np.generic)),
                TypeError,
                f"can't assign a {type(value).__name__} to a {self.type()}",
            )
            out.fill_(value)
            return
        else:
            value = tensor(value, dtype=self.dtype, device=self.device)
    if indices is None:
        out.copy_(_without_lead(value, out))
        return
    check_write(self)
    put_in_place(out, tuple(_on_device(indices, out.device)), value, False)


def _without_lead(value: Tensor, out: Tensor) -> Tensor:
    lead = 0
    while value.ndim - lead > out.ndim and value.shape[lead] == 1:
        lead += 1
    return value.reshape(value.shape[lead:]) if lead else value


def put_in_place(out: Tensor, indices: Sequence[Any], value: Tensor, accumulate: bool) -> Tensor:
    """Write (or add) values at index tensors of `out` itself."""
    if value.device is not out.device and value.ndim == 0:
        value = value.to(out.device)
    if value.dtype is not out.dtype:
        value = value.to(out.dtype)
    lead_shape = _indexed_shape(out.shape, indices)
    while value.ndim > len(lead_shape) and value.shape[0] == 1:
        value = value.reshape(value.shape[1:])
    return out.copy_(index_put_op(out, indices, value, accumulate))
