"""Views of parts side by side: split, chunk, unbind and their kin."""

from __future__ import annotations

import itertools
from typing import Any

from ember.core.registry import FUNCTION, METHOD, composite
from ember.core.registry import view as view_op
from ember.core.tensor import Tensor
from ember.errors import check
from ember.layout import Layout, wrap_dim


def _sections(size: int, sections: Any) -> list[int]:
    if isinstance(sections, int):
        check(
            sections > 0 or (sections == 0 and size == 0),
            RuntimeError,
            "split_size must be non-negative and can only be 0 if dimension size is 0, but got "
            f"split_size={sections}",
        )
        count = max(-(-size // sections), 1) if sections else 1
        return [min(sections, size - i * sections) for i in range(count)]
    return [int(n) for n in sections]


@view_op()
def _split(layout: Layout, sections: tuple[int, ...], dim: int) -> list[Layout]:
    found, start = [], 0
    for length in sections:
        found.append(layout.sliced(dim, start, length))
        start += length
    return found


_split.name = "split"


@composite(FUNCTION)
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of equal size (the last may be smaller), or of the sizes given, along a dim."""
    check(tensor.ndim > 0, RuntimeError, "split expects at least a 1-dimensional tensor")
    dim = wrap_dim(dim, tensor.ndim)
    size = tensor.shape[dim]
    sections = _sections(size, split_size_or_sections)
    check(
        all(n >= 0 for n in sections),
        RuntimeError,
        "split_with_sizes expects split_sizes have only non-negative entries, but got "
        f"split_sizes={sections}",
    )
    check(
        sum(sections) == size,
        RuntimeError,
        f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at "
        f"dimension {dim}), but "
        f"got split_sizes={sections}",
    )
    return _split(tensor, tuple(sections), dim)


@composite(METHOD, name="split")
def split_method(self: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of equal size (the last may be smaller), or of the sizes given, along a dim."""
    return split(self, split_size, dim)


@composite(FUNCTION | METHOD)
def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of the sizes given along a dim."""
    return split(input, list(split_sizes), dim)


@composite(FUNCTION | METHOD)
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` views of equal size along a dim."""
    check(input.ndim > 0, RuntimeError, "chunk expects at least a 1-dimensional tensor")
    check(chunks > 0, RuntimeError, f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = input.shape[wrap_dim(dim, input.ndim)]
    if size == 0:
        return split(input, [0] * chunks, dim)
    return split(input, -(-size // chunks), dim)


@view_op()
def _unbind(layout: Layout, dim: int) -> list[Layout]:
    return [layout.selected(dim, i) for i in range(layout.shape[dim])]


_unbind.name = "unbind"


@composite(FUNCTION | METHOD)
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along a dim as views."""
    check(input.ndim > 0, IndexError, "Dimension specified as 0 but tensor has no dimensions")
    return _unbind(input, wrap_dim(dim, input.ndim))


@composite(METHOD, asks_classes=False)
def __iter__(self: Tensor) -> Any:
    """The slices along the first dim."""
    check(self.ndim > 0, TypeError, "iteration over a 0-d tensor")
    return iter(unbind(self, 0))  # which overrides see


@composite(FUNCTION | METHOD)
def tensor_split(
    input: Tensor,
    indices_or_sections: Any = None,
    dim: int = 0,
    *,
    indices: Any = None,
    sections: int | None = None,
) -> tuple[Tensor, ...]:
    """Views of nearly equal size, or of what lies between the indices given, along a dim."""
    found = next(v for v in (indices_or_sections, indices, sections, ()) if v is not None)
    check(
        input.ndim > 0,
        RuntimeError,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims",
    )
    dim = wrap_dim(dim, input.ndim)
    if isinstance(found, Tensor):
        check(
            found.dtype.name == "int64",
            RuntimeError,
            "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
            f"{found.dtype.title}",
        )
        check(
            found.ndim <= 1,
            RuntimeError,
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
            "one-dimensional tensor, "
            f"but got a tensor with {found.ndim} dims",
        )
        found = found.tolist()
    size = input.shape[dim]
    check(
        isinstance(found, (int, list, tuple)),
        TypeError,
        "tensor_split(): indices or sections must be int, Tensor or tuple of ints, not "
        f"{type(found).__name__}",
    )
    if isinstance(found, int):
        check(found > 0, RuntimeError, f"number of sections must be larger than 0, got {found}")
        each, more = divmod(size, found)
        bounds = [i * each + min(i, more) for i in range(found + 1)]
    else:
        bounds = [0, *(slice(None, int(i)).indices(size)[1] for i in found), size]
    parts = [(a, max(b - a, 0)) for a, b in itertools.pairwise(bounds)]
    return _parts(input, tuple(parts), dim)


@view_op()
def _parts(layout: Layout, parts: tuple[tuple[int, int], ...], dim: int) -> list[Layout]:
    return [layout.sliced(dim, start, length) for start, length in parts]


_parts.name = "tensor_split"


def _split_along(name: str, dim: int, least: int) -> None:
    def call(input: Tensor, indices_or_sections: Any = None, **named: Any) -> tuple[Tensor, ...]:
        found = next(v for v in (indices_or_sections, *named.values(), ()) if v is not None)
        check(
            input.ndim >= least,
            RuntimeError,
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor "
            f"with {input.ndim} "
            "dimensions!",
        )
        along = 0 if input.ndim == 1 else dim
        if isinstance(found, int):
            size = input.shape[along]
            check(
                found > 0 and size % found == 0,
                RuntimeError,
                f"torch.{name} attempted to split along dimension {along}, but the size of the "
                f"dimension {size} is "
                f"not divisible by the split_size {found}!",
            )
        return tensor_split(input, found, along)

    call.__name__, call.__doc__ = name, f"Views of equal size, or between indices, along dim {dim}."
    composite(FUNCTION | METHOD, name=name)(call)


_split_along("hsplit", 1, 1)
_split_along("vsplit", 0, 2)
_split_along("dsplit", 2, 3)


@composite(FUNCTION | METHOD)
def unsafe_split(tensor: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`split`, whose parts may be written in place while gradients are recorded."""
    return split(tensor, split_size, dim)


@composite(FUNCTION | METHOD)
def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes`, whose parts may be written in place while gradients are recorded."""
    return split_with_sizes(input, split_sizes, dim)


@composite(FUNCTION | METHOD)
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk`, whose parts may be written in place while gradients are recorded."""
    return chunk(input, chunks, dim)
