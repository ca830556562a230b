"""Views: the same storage seen with other shapes and strides. Each op maps a layout to a layout."""

from __future__ import annotations

from typing import Any

from ember.core import modes
from ember.core.factory import shape_of
from ember.core.levels import LevelArray
from ember.core.registry import FUNCTION, METHOD, composite
from ember.core.registry import view as view_op
from ember.core.tensor import Tensor, tensor_of
from ember.dtypes import INTEGERS
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.kernel.array import spec_of
from ember.layout import Layout, infer_shape, product, wrap_dim, wrap_dims

# shapes


@view_op()
def _view(layout: Layout, shape: tuple[int, ...]) -> Layout:
    found = layout.viewed(infer_shape(shape, layout.numel))
    check(
        found is not None,
        RuntimeError,
        "view size is not compatible with input tensor's size and stride (at least one dimension "
        "spans across two "
        "contiguous subspaces). Use .reshape(...) instead.",
    )
    assert found is not None
    return found


_view.name = "view"


@composite(METHOD)
def view(self: Tensor, *shape: Any, dtype: DType | None = None) -> Tensor:
    """The same memory with another shape (one size may be -1), or as another dtype of its bytes."""
    if len(shape) == 1 and isinstance(shape[0], DType):
        dtype = shape[0]
    if dtype is not None:
        return view_dtype(self, dtype)
    sizes = shape_of(shape)
    if modes.SPECIAL[0] or not isinstance(self, Tensor):
        return _view(self, sizes)
    return _view.run([self, sizes])  # type: ignore[no-any-return]


def view_dtype(self: Tensor, dtype: DType) -> Tensor:
    """The same bytes as another dtype; the last dim grows or shrinks if sizes differ."""
    array, old, new = self._array, self.dtype.itemsize, dtype.itemsize
    if isinstance(array, LevelArray):
        return tensor_of(array.through(lambda value: view_dtype(value, dtype)))
    shape, strides, offset = array.spec.shape, array.spec.strides, array.offset
    if old != new:
        check(
            self.ndim > 0,
            RuntimeError,
            "self.dim() cannot be 0 to view a tensor with another element size",
        )
        check(
            strides[-1] == 1,
            RuntimeError,
            "self.stride(-1) must be 1 to view a tensor as a dtype of different element size",
        )
        if old > new:
            ratio = old // new
            shape, strides = (
                (*shape[:-1], shape[-1] * ratio),
                (*(s * ratio for s in strides[:-1]), 1),
            )
            offset *= ratio
        else:
            ratio = new // old
            fits = (
                shape[-1] % ratio == 0
                and offset % ratio == 0
                and all(s % ratio == 0 for s in strides[:-1])
            )
            check(
                fits,
                RuntimeError,
                f"self.size(-1), storage_offset and strides must be divisible by {ratio} to view "
                f"{self.dtype} as {dtype}",
            )
            shape, strides = (
                (*shape[:-1], shape[-1] // ratio),
                (*(s // ratio for s in strides[:-1]), 1),
            )
            offset //= ratio
    spec = spec_of(shape, strides, dtype, array.spec.device)
    return tensor_of(type(array)(array.storage, spec, offset))


_reshaped: dict[Any, tuple[int, ...]] = {}  # the sizes, by spec and what was asked for: a view


@composite(FUNCTION | METHOD)
def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same elements with another shape: a view if strides allow, else a copy."""
    given: Any = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
    plain = not modes.SPECIAL[0] and all([type(n) is int for n in given])  # noqa: C419
    if plain:
        known = _reshaped.get((input._array.spec, given))
        if known is not None:
            return _view.run([input, known])  # type: ignore[no-any-return]
    sizes = infer_shape(shape_of(shape), input.numel())
    if input._array.layout.viewed(sizes) is not None:
        if plain:
            if len(_reshaped) > 4096:
                _reshaped.clear()
            _reshaped[input._array.spec, given] = sizes
        return _view(input, sizes)
    return _view(input.contiguous(), sizes)


@composite(METHOD)
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """A view with the shape of another tensor."""
    return _view(self, other.shape)


@composite(METHOD)
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """The elements with the shape of another tensor."""
    return reshape(self, other.shape)


@composite(FUNCTION | METHOD)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dims from start_dim to end_dim as one."""
    if input.ndim == 0:
        return reshape(input, 1)
    start, end = wrap_dim(start_dim, input.ndim), wrap_dim(end_dim, input.ndim)
    check(
        start <= end,
        RuntimeError,
        "flatten() has invalid args: start_dim cannot come after end_dim",
    )
    if start == end:
        return input
    shape = input.shape
    return reshape(input, (*shape[:start], product(shape[start : end + 1]), *shape[end + 1 :]))


@composite(FUNCTION | METHOD)
def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """One dim as several (one of `sizes` may be -1)."""
    dim = wrap_dim(dim, input.ndim)
    sizes = shape_of((sizes,))
    check(sizes, RuntimeError, "unflatten: sizes must be non-empty")
    size = input.shape[dim]
    known = product(n for n in sizes if n != -1)
    fits = known == size if -1 not in sizes else known and size % known == 0
    check(
        fits,
        RuntimeError,
        f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
        f"({size}) in the input tensor",
    )
    return reshape(input, (*input.shape[:dim], *infer_shape(sizes, size), *input.shape[dim + 1 :]))


@composite(FUNCTION | METHOD)
def ravel(input: Tensor) -> Tensor:
    """All elements as one dim."""
    return _view(input.contiguous(), (input.numel(),))


# dims


@view_op(FUNCTION | METHOD, names=("swapaxes", "swapdims"))
def transpose(layout: Layout, dim0: int, dim1: int) -> Layout:
    """The same storage with two dims swapped."""
    if layout.ndim == 0:
        wrap_dim(dim0, 0), wrap_dim(dim1, 0)
        return layout
    a, b = wrap_dim(dim0, layout.ndim), wrap_dim(dim1, layout.ndim)
    order = list(range(layout.ndim))
    order[a], order[b] = order[b], order[a]
    return layout.permuted(order)


@view_op(FUNCTION | METHOD)
def t(layout: Layout) -> Layout:
    """A matrix transposed; fewer dims as they are."""
    check(
        layout.ndim <= 2,
        RuntimeError,
        f"t() expects a tensor with <= 2 dimensions, but self is {layout.ndim}D",
    )
    return layout.permuted(range(layout.ndim)[::-1])


@view_op()
def _permute(layout: Layout, dims: tuple[int, ...]) -> Layout:
    check(
        len(dims) == layout.ndim,
        RuntimeError,
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length "
        "of the desired "
        f"ordering of dimensions i.e. input.dim() = {layout.ndim} is not equal to len(dims) = "
        f"{len(dims)}",
    )
    order = [wrap_dim(d, layout.ndim) for d in dims]
    check(len(set(order)) == len(order), RuntimeError, "permute(): duplicate dims are not allowed.")
    return layout.permuted(order)


_permute.name = "permute"


@composite(FUNCTION | METHOD)
def permute(input: Tensor, *dims: Any) -> Tensor:
    """The dims in another order."""
    return _permute(input, shape_of(dims))


@composite(FUNCTION | METHOD, names=("moveaxis",))
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Dims moved to other places, the rest in their order."""
    sources, targets = (
        wrap_dims(d if isinstance(d, (tuple, list)) else (d,), input.ndim)
        for d in (source, destination)
    )
    check(
        len(sources) == len(targets),
        RuntimeError,
        f"movedim: Invalid source or destination dims: source ({list(sources)} dims) should "
        "contain the same number "
        f"of dims as destination ({list(targets)} dims)",
    )
    order = [d for d in range(input.ndim) if d not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return _permute(input, tuple(order))


@view_op(FUNCTION | METHOD)
def unsqueeze(layout: Layout, dim: int) -> Layout:
    """A new dim of size 1 at `dim`."""
    dim = wrap_dim(dim, layout.ndim + 1)
    stride = layout.shape[dim] * layout.strides[dim] if dim < layout.ndim else 1
    shape = (*layout.shape[:dim], 1, *layout.shape[dim:])
    return Layout(shape, (*layout.strides[:dim], stride, *layout.strides[dim:]), layout.offset)


@view_op()
def _squeeze(layout: Layout, dims: tuple[int, ...]) -> Layout:
    kept = [d for d in range(layout.ndim) if not (d in dims and layout.shape[d] == 1)]
    return layout.permuted(kept)


_squeeze.name = "squeeze"


@composite(FUNCTION | METHOD)
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Without the dims of size 1, or those named."""
    return _squeeze(input, wrap_dims(dim, input.ndim))


@view_op()
def _expand(layout: Layout, shape: tuple[int, ...]) -> Layout:
    lead = len(shape) - layout.ndim
    check(
        lead >= 0,
        RuntimeError,
        f"expand(torch.FloatTensor{{{list(layout.shape)}}}, size={list(shape)}): "
        "the number of sizes provided "
        f"({len(shape)}) must be greater or equal to the number of dimensions in the tensor "
        f"({layout.ndim})",
    )
    sizes = list(shape)
    for position, size in enumerate(shape):
        old = layout.shape[position - lead] if position >= lead else None
        if size == -1:
            check(
                old is not None,
                RuntimeError,
                f"expand: the expanded size of the tensor ({size}) isn't allowed in a leading, "
                "non-existing "
                f"dimension {position}",
            )
            sizes[position] = old
        elif old is not None and old != size:
            check(
                old == 1,
                RuntimeError,
                f"The expanded size of the tensor ({size}) must match the existing size ({old}) "
                "at non-singleton "
                f"dimension {position}.  Target sizes: {list(shape)}.  Tensor sizes: "
                f"{list(layout.shape)}",
            )
        check(
            sizes[position] >= 0,
            RuntimeError,
            f"expand: the expanded size of the tensor ({size}) isn't allowed",
        )
    return layout.expanded(tuple(sizes))


_expand.name = "expand"


@composite(METHOD)
def expand(self: Tensor, *size: Any, implicit: bool = False) -> Tensor:
    """Dims of size 1 (and new ones in front) repeated without a copy; -1 keeps a size."""
    return _expand(self, shape_of(size))


@composite(METHOD)
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Expanded to the shape of another tensor."""
    return _expand(self, other.shape)


@composite(FUNCTION)
def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """Expanded to a shape."""
    return _expand(input, shape_of((size,)))


@composite(METHOD, name="broadcast_to")
def _broadcast_to(self: Tensor, *size: Any) -> Tensor:
    """Expanded to a shape, given as ints or as one tuple."""
    return _expand(self, shape_of(size))


# parts


@view_op(FUNCTION | METHOD)
def select(layout: Layout, dim: int, index: int) -> Layout:
    """The slice at `index` of `dim`, which disappears."""
    check(layout.ndim > 0, IndexError, "select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, layout.ndim)
    size, index = layout.shape[dim], int(index)
    check(
        -size <= index < size,
        IndexError,
        f"select(): index {index} out of range for tensor of size {list(layout.shape)} at "
        f"dimension {dim}",
    )
    return layout.selected(dim, index + size if index < 0 else index)


@view_op()
def slice_(layout: Layout, dim: int, start: int, stop: int, step: int) -> Layout:
    """Elements start ... stop of a dim, each `step`-th (bounds as Python clamps them)."""
    length = max(0, -((start - stop) // step))
    return layout.sliced(dim, start, length, step)


slice_.name = "slice"


@composite(FUNCTION | METHOD)
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`length` elements of `dim` from `start`."""
    check(input.ndim > 0, RuntimeError, "narrow() cannot be applied to a 0-dim tensor.")
    check(length >= 0, RuntimeError, "narrow(): length must be non-negative.")
    dim = wrap_dim(dim, input.ndim)
    whole = not isinstance(start, Tensor) or (start.ndim == 0 and start.dtype in INTEGERS)
    check(whole, RuntimeError, "start must be an 0-dim integral Tensor.")
    size, start = input.shape[dim], int(start)
    check(
        -size <= start <= size,
        IndexError,
        f"start out of range (expected to be in range of [{-size}, {size}], but got {start})",
    )
    start = start + size if start < 0 else start
    check(
        start + length <= size,
        RuntimeError,
        f"start ({start}) + length ({length}) exceeds dimension size ({size}).",
    )
    return slice_(input, dim, start, start + length, 1)


@view_op(FUNCTION | METHOD)
def diagonal(layout: Layout, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Layout:
    """The diagonal of two dims as the last dim."""
    a, b = wrap_dim(dim1, layout.ndim), wrap_dim(dim2, layout.ndim)
    check(a != b, RuntimeError, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns = layout.shape[a], layout.shape[b]
    length = (
        max(min(rows, columns - offset), 0) if offset >= 0 else max(min(rows + offset, columns), 0)
    )
    start = layout.offset
    if length:
        start += offset * layout.strides[b] if offset >= 0 else -offset * layout.strides[a]
    kept = [d for d in range(layout.ndim) if d not in (a, b)]
    rest = layout.permuted(kept)
    return Layout(
        (*rest.shape, length), (*rest.strides, layout.strides[a] + layout.strides[b]), start
    )


@view_op(METHOD)
def unfold(layout: Layout, dimension: int, size: int, step: int) -> Layout:
    """Windows of `size` every `step` along a dim, in a new last dim."""
    dim = wrap_dim(dimension, layout.ndim)
    length = layout.shape[dim] if layout.ndim else 1
    check(step > 0, RuntimeError, f"step is {step} but must be > 0")
    check(
        0 <= size <= length,
        RuntimeError,
        f"maximum size for tensor at dimension {dim} is {length} but size is {size}",
    )
    if layout.ndim == 0:
        return Layout((size,), (1,), layout.offset)
    count = (length - size) // step + 1
    windows = layout.sliced(dim, 0, count)
    strides = list(windows.strides)
    strides[dim] *= step
    return Layout((*windows.shape, size), (*strides, layout.strides[dim]), layout.offset)
