"""Elements in another order or repeated: flips, rolls, repeats."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.factory import shape_of
from ember.core.registry import FUNCTION, METHOD, composite, library_op
from ember.core.tensor import Tensor
from ember.errors import check
from ember.kernel.array import Spec
from ember.layout import wrap_dim, wrap_dims
from ember.ops.create import tensor
from ember.ops.formats import contiguous_format
from ember.ops.index_slices import index_select
from ember.ops.views import reshape, transpose

# flips and rolls


@library_op(Library.flip, upcast=False, follows=(0,), name="flip")
def flipped(input: Tensor, dims: tuple[int, ...]) -> Spec:
    """The elements of dims in reverse order."""
    return input.spec.with_shape(input.shape)


flipped.grad = lambda g, dims: (flipped(g, dims),)


@composite(FUNCTION | METHOD)
def flip(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """The elements of dims in reverse order, as a copy.

    >>> import ember as torch
    >>> torch.flip(torch.tensor([1, 2, 3]), [0])
    tensor([3, 2, 1])
    """
    check(
        bool(dims) or set(named) == {"dims"},
        TypeError,
        'flip() missing 1 required positional arguments: "dims"',
    )
    wanted = dims if dims else (named["dims"],)
    return flipped(input, wrap_dims(shape_of(wanted), input.ndim) if input.ndim else ())


@composite(FUNCTION | METHOD)
def fliplr(input: Tensor) -> Tensor:
    """Columns in reverse order."""
    check(input.ndim >= 2, RuntimeError, "Input must be >= 2-d.")
    return flipped(input, (1,))


@composite(FUNCTION | METHOD)
def flipud(input: Tensor) -> Tensor:
    """Rows in reverse order."""
    check(input.ndim >= 1, RuntimeError, "Input must be >= 1-d.")
    return flipped(input, (0,))


@composite(FUNCTION | METHOD)
def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """The plane of two dims turned k times by 90 degrees, from the first towards the second."""
    check(
        len(dims) == 2,
        RuntimeError,
        f"expected total rotation dims == 2, but got dims = {len(dims)}",
    )
    check(
        input.ndim >= 2,
        RuntimeError,
        f"expected total dims >= 2, but got total dims = {input.ndim}",
    )
    check(
        dims[0] != dims[1] and abs(dims[0] - dims[1]) != input.ndim,
        RuntimeError,
        f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}",
    )
    for position, dim in enumerate(dims):
        check(
            -input.ndim <= dim < input.ndim,
            RuntimeError,
            f"Rotation dim{position} out of range, dim{position} = {dim}",
        )
    first, second = (wrap_dim(d, input.ndim) for d in dims)
    turns = k % 4
    if turns == 0:
        return input.clone()
    if turns == 2:
        return flipped(input, (first, second))
    made = flipped(input, (second,) if turns == 1 else (first,))
    return transpose(made, first, second).contiguous()


@library_op(Library.roll, upcast=False, follows=(0,), name="roll")
def rolled(input: Tensor, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Spec:
    """The elements of dims moved on, those at the end to the front."""
    return input.spec.with_shape(input.shape)


rolled.grad = lambda g, shifts, dims: (rolled(g, tuple(-s for s in shifts), dims),)


@composite(FUNCTION | METHOD)
def roll(input: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    """The elements moved on along dims, those at the end to the front; flat without dims."""
    steps = shape_of((shifts,))
    along = shape_of((dims,)) if dims is not None else ()
    if not along:
        check(
            len(steps) == 1,
            RuntimeError,
            f"shifts and dimensions must align. shifts: {len(steps)}, dims:0",
        )
        return rolled(input.reshape(-1), steps, (0,)).reshape(input.shape)
    check(
        len(steps) == len(along),
        RuntimeError,
        f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(along)}",
    )
    check(input.ndim > 0, IndexError, "Dimension specified as 0 but tensor has no dimensions")
    if input.numel() == 0:
        return input.clone()
    return rolled(input, steps, tuple(wrap_dim(d, input.ndim) for d in along))


# repeats


@composite(METHOD)
def repeat(self: Tensor, *sizes: Any, **named: Any) -> Tensor:
    """Copies of the tensor laid along its dims, and along new ones in front.

    >>> import ember as torch
    >>> torch.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    counts = shape_of(sizes if sizes else (named.get("repeats", named.get("sizes")),))
    check(
        len(counts) >= self.ndim,
        RuntimeError,
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
        "tensor",
    )
    for count in counts:
        check(count >= 0, RuntimeError, f"Trying to create tensor with negative dimension {count}")
    shape = (1,) * (len(counts) - self.ndim) + tuple(self.shape)
    split = [n for size in shape for n in (1, size)]
    spread = [n for count, size in zip(counts, shape, strict=True) for n in (count, size)]
    final = tuple(count * size for count, size in zip(counts, shape, strict=True))
    return _repeated(reshape(self, split).expand(spread), final)


def _repeated(spread: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A copy of an expanded tensor, in a shape."""
    return spread.clone(memory_format=contiguous_format).view(shape)


@composite(FUNCTION | METHOD)
def tile(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """`repeat` with ones for the dims in front that are not named."""
    counts = shape_of(dims if dims else (named["dims"],))
    if not counts and not input.ndim:
        return input.clone()
    return repeat(input, *(1,) * (input.ndim - len(counts)), *counts)


@composite(FUNCTION | METHOD)
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element (along `dim`, or flat) so many times after itself.

    With one tensor of counts: the indices that such a repetition takes.
    """
    if repeats is None:
        return _repeated_places(input, None, output_size)
    if dim is None:
        input, dim = input.reshape(-1), 0
    dim = wrap_dim(dim, input.ndim)
    if input.ndim == 0:
        input = input.reshape(1)
    size = input.shape[dim]
    if isinstance(repeats, Tensor) and repeats.numel() == 1 and size != 1:
        repeats = int(repeats.item())
    if isinstance(repeats, int):
        check(repeats >= 0, RuntimeError, "Repeats must be non-negative")
        shape = tuple(input.shape)
        spread = input.unsqueeze(dim + 1).expand((*shape[: dim + 1], repeats, *shape[dim + 1 :]))
        return _repeated(spread, (*shape[:dim], size * repeats, *shape[dim + 1 :]))
    if isinstance(repeats, (list, tuple)):
        repeats = tensor(repeats)
    return index_select(input, dim, _repeated_places(repeats, size, output_size))


def _repeated_places(repeats: Tensor, size: int | None, output_size: int | None) -> Tensor:
    check(
        repeats.ndim <= 1,
        RuntimeError,
        "repeats must be 0-dim or 1-dim tensor",
    )
    if repeats.dtype not in (dtypes.int64, dtypes.int32):
        raise NotImplementedError(
            f"\"repeat_interleave_cpu\" not implemented for '{repeats.dtype.title}'"
        )
    counts = repeats.reshape(-1).tolist()
    check(
        size is None or len(counts) == size,
        RuntimeError,
        "repeats must have the same size as input along dim, but got repeats.size(0) = "
        f"{len(counts)} and input.size(0) = {size}",
    )
    check(all(c >= 0 for c in counts), RuntimeError, "repeats can not be negative")
    check(
        output_size is None or sum(counts) == output_size,
        RuntimeError,
        f"allocated size does not match required size: {output_size} and {sum(counts)}",
    )
    places = [i for i, count in enumerate(counts) for _ in range(count)]
    return tensor(places, dtype=dtypes.int64, device=repeats.device)
