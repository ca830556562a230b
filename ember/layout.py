"""Shapes and strides: how elements lie in a storage. Pure integers, no data (strides count
elements)."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ember.errors import check

Shape = tuple[int, ...]


class Size(tuple[int, ...]):
    """A shape: a tuple of ints that prints as `torch.Size([2, 3])`.

    >>> import ember as torch
    >>> torch.Size([2, 3]).numel()
    6
    """

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return product(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __reduce__(self) -> Any:
        return Size, (tuple(self),)

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: Any) -> Size:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, count: Any) -> Size:
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__

    def __getitem__(self, item: Any) -> Any:
        found = tuple.__getitem__(self, item)
        return Size(found) if isinstance(item, slice) else found


class Layout(NamedTuple):
    """Where the elements of an array lie in its storage: shape, strides and offset, in elements."""

    shape: Shape
    strides: Shape
    offset: int = 0

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def numel(self) -> int:
        """The number of elements."""
        return product(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether elements lie in order without gaps."""
        return is_contiguous(self.shape, self.strides)

    def permuted(self, dims: Sequence[int]) -> Layout:
        """The dims in another order."""
        return Layout(
            tuple(self.shape[d] for d in dims), tuple(self.strides[d] for d in dims), self.offset
        )

    def expanded(self, shape: Shape) -> Layout:
        """Broadcast to `shape`: dims of size 1 and new dims in front repeat with stride 0."""
        lead = len(shape) - len(self.shape)
        strides = [0] * lead
        for old, stride, new in zip(self.shape, self.strides, shape[lead:], strict=True):
            strides.append(stride if old == new else 0)
        return Layout(tuple(shape), tuple(strides), self.offset)

    def selected(self, dim: int, index: int) -> Layout:
        """The slice at `index` of `dim`, which disappears."""
        offset = self.offset + index * self.strides[dim]
        return Layout(without(self.shape, dim), without(self.strides, dim), offset)

    def sliced(self, dim: int, start: int, length: int, step: int = 1) -> Layout:
        """`length` elements of `dim` from `start`, every `step`-th."""
        shape = (*self.shape[:dim], length, *self.shape[dim + 1 :])
        strides = (*self.strides[:dim], self.strides[dim] * step, *self.strides[dim + 1 :])
        return Layout(shape, strides, self.offset + start * self.strides[dim])

    def viewed(self, shape: Shape) -> Layout | None:
        """The same elements in the same order with another shape; None if that takes a copy."""
        strides = view_strides(self.shape, self.strides, shape)
        return None if strides is None else Layout(tuple(shape), strides, self.offset)

    def extent(self) -> tuple[int, int]:
        """First and last element + 1 of the storage that the layout touches."""
        return self.offset, self.offset + extent(self.shape, self.strides)


def extent(shape: Shape, strides: Shape) -> int:
    """How many elements of a storage lie from the first to the last of an array."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def product(numbers: Iterable[int]) -> int:
    """The product of integers; 1 for none."""
    result = 1
    for number in numbers:
        result *= number
    return result


def without(items: Shape, position: int) -> Shape:
    """A tuple less the item at a position."""
    return items[:position] + items[position + 1 :]


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """Row-major strides, as PyTorch computes them (an empty dim counts as 1)."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_contiguous(shape: Shape, strides: Shape) -> bool:
    """Whether the layout is row-major without gaps; dims of size 1 may have any stride."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 0:
            return True
        if size != 1:
            if stride != step:
                return 0 in shape
            step *= size
    return True


def channels_last_strides(shape: Shape) -> Shape:
    """Strides of a (N, C, *spatial) tensor whose channels lie innermost."""
    order = (0, *range(2, len(shape)), 1)
    packed = contiguous_strides([shape[d] for d in order])
    strides = [0] * len(shape)
    for position, dim in enumerate(order):
        strides[dim] = packed[position]
    return tuple(strides)


def channels_lie_last(shape: Shape, strides: Shape) -> bool:
    """Whether (N, C, H, W) or (N, C, D, H, W) has its channels innermost, and does not as well lie
    in the usual order."""
    if len(shape) not in (4, 5) or strides[1] == 0 or 0 in shape:
        return False
    least = 0
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        if strides[dim] < least or (dim == 0 and least == strides[1]):
            return False
        least = strides[dim] * shape[dim]
    return True


def dense_order(shape: Shape, strides: Shape) -> tuple[int, ...] | None:
    """The dims from outermost to innermost if elements fill their memory without gaps or overlap,
    else None."""
    dims = [d for d in range(len(shape)) if shape[d] != 1]
    order = sorted(dims, key=lambda d: (-strides[d], d))
    step = 1
    for dim in reversed(order):
        if strides[dim] != step:
            return None
        step *= shape[dim]
    return tuple(order)


def may_overlap(shape: Shape, strides: Shape) -> bool:
    """Whether two indices may name one memory cell: PyTorch's test before an in-place write."""
    dims = [(s, n) for n, s in zip(shape, strides, strict=True) if n > 1]
    if 0 in shape or not dims:
        return False
    reach = 0
    for stride, size in sorted(dims):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def like_strides(shape: Shape, strides: Shape) -> Shape:
    """Dense strides with the dim order of an existing layout: what elementwise results and clones
    keep."""
    dense = dense_order(shape, strides) is not None and 0 not in shape
    if dense or is_contiguous(shape, strides):
        return tuple(strides)
    order = _stride_order(shape, [strides])
    return permuted_strides(shape, order)


def permuted_strides(shape: Shape, order: Sequence[int]) -> Shape:
    """Dense strides for dims named from outermost to innermost."""
    packed = contiguous_strides([shape[d] for d in order])
    result = [0] * len(shape)
    for position, dim in enumerate(order):
        result[dim] = packed[position]
    return tuple(result)


def _stride_order(shape: Shape, operands: Sequence[Shape]) -> list[int]:
    """Dims from outermost to innermost by the operands' strides; the first operand that tells
    decides."""
    # innermost first, as insertion sort of PyTorch's iterator sees them
    order = list(range(len(shape)))[::-1]

    def wants_swap(inner: int, outer: int) -> int:
        for strides in operands:
            a, b = strides[inner], strides[outer]
            if a == 0 or b == 0:
                continue
            if a != b:
                return 1 if a > b else -1
            if shape[inner] > shape[outer]:
                return 1
        return 0

    for i in range(1, len(order)):
        position = i
        for j in range(i - 1, -1, -1):
            verdict = wants_swap(order[j], order[position])
            if verdict > 0:
                order[position], order[j] = order[j], order[position]
                position = j
            elif verdict < 0:
                break
    return order[::-1]


def elementwise_strides(shape: Shape, operands: Sequence[tuple[Shape, Shape]]) -> Shape:
    """Strides of an elementwise result over operands of (shape, strides), in PyTorch's iterator's
    order."""
    full = [(s, t) for s, t in operands if s == shape]
    if len(full) == len(operands) and all(is_contiguous(s, t) for s, t in operands):
        return contiguous_strides(shape)
    if full and len(full) == len(operands) and all(t == full[0][1] for _, t in full):
        if dense_order(shape, full[0][1]) is not None and 0 not in shape:
            return full[0][1]
    spread = [Layout(s, t).expanded(shape).strides for s, t in operands]
    return (
        permuted_strides(shape, _stride_order(shape, spread))
        if spread
        else contiguous_strides(shape)
    )


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The common shape of broadcast operands; RuntimeError names the first two that do not fit."""
    result: list[int] = []
    for shape in shapes:
        if len(shape) > len(result):
            result = [1] * (len(shape) - len(result)) + result
        for position in range(1, len(shape) + 1):
            size = shape[-position]
            if size != 1 and size != result[-position]:
                if result[-position] != 1:
                    dim = len(result) - position
                    raise RuntimeError(
                        f"The size of tensor a ({result[-position]}) must match the size of "
                        f"tensor b ({size}) at non-singleton dimension {dim}: shapes "
                        f"{', '.join(str(list(s)) for s in shapes)} do not broadcast (sizes are "
                        "compared from the last dim; each must be equal or 1)"
                    )
                result[-position] = size
    return tuple(result)


def broadcasts_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether an operand of `shape` can be broadcast to just `target`."""
    return len(shape) <= len(target) and all(
        a in (1, b) for a, b in zip(shape[::-1], target[::-1], strict=False)
    )


def view_strides(shape: Shape, strides: Shape, new: Shape) -> Shape | None:
    """Strides that show a layout's elements in order as shape `new`; None if no strides do."""
    if product(shape) == 0:
        return strides if tuple(new) == shape else contiguous_strides(new)
    groups: list[list[int]] = []  # runs of dims that lie as one: [size, innermost stride]
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if groups and groups[-1][1] == stride * size:
            groups[-1] = [groups[-1][0] * size, stride]
        else:
            groups.append([size, stride])
    result: list[int] = []
    remaining, step = groups.pop() if groups else [1, 1]
    for size in reversed(new):
        if size == 1:
            result.append(step)
            continue
        while remaining == 1 and groups:
            remaining, step = groups.pop()
        if remaining % size:
            return None
        result.append(step)
        step *= size
        remaining //= size
    return tuple(reversed(result))


def infer_shape(shape: Sequence[int], numel: int) -> Shape:
    """`shape` with its -1 replaced so that the sizes multiply to `numel`; RuntimeError if they
    cannot."""
    sizes = tuple(operator.index(n) for n in shape)
    unknown = [i for i, n in enumerate(sizes) if n == -1]
    check(len(unknown) <= 1, RuntimeError, "only one dimension can be inferred")
    for n in sizes:
        check(n >= -1, RuntimeError, f"invalid shape dimension {n}")
    known = product(n for n in sizes if n != -1)
    if unknown:
        check(
            known != 0 or numel != 0,
            RuntimeError,
            f"cannot reshape tensor of 0 elements into shape {list(sizes)} because the "
            "unspecified dimension size -1 can be any value and is ambiguous",
        )
        fits = known != 0 and numel % known == 0
        check(fits, RuntimeError, f"shape '{list(sizes)}' is invalid for input of size {numel}")
        return tuple(numel // known if n == -1 else n for n in sizes)
    check(
        known == numel, RuntimeError, f"shape '{list(sizes)}' is invalid for input of size {numel}"
    )
    return sizes


def wrap_dim(dim: Any, ndim: int) -> int:
    """A dim counted from the front; IndexError if there is none such (0 and -1 are allowed for
    0-dim)."""
    try:
        index = operator.index(dim)
    except TypeError:
        raise TypeError(f"dim must be an int, not {type(dim).__name__}") from None
    count = max(ndim, 1)
    check(
        -count <= index < count,
        IndexError,
        lambda: (
            f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got "
            f"{index})"
        ),
    )
    return index + count if index < 0 else index


def wrap_dims(dims: Any, ndim: int) -> tuple[int, ...]:
    """Several dims counted from the front; None means all; RuntimeError for one named twice."""
    if dims is None:
        return tuple(range(ndim))
    if not isinstance(dims, (tuple, list)):
        return (wrap_dim(dims, ndim),)
    wrapped = tuple(wrap_dim(d, ndim) for d in dims)
    for dim in wrapped:
        check(
            wrapped.count(dim) == 1,
            RuntimeError,
            f"dim {dim} appears multiple times in the list of dims",
        )
    return wrapped


def reduced_shape(shape: Shape, dims: Sequence[int], keepdim: bool) -> Shape:
    """The shape after reducing `dims`."""
    if keepdim:
        return tuple(1 if d in dims else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in dims)
