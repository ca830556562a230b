"""Tensors joined along a dim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember.backends.library import Library
from ember.core.dispatch import promoted
from ember.core.registry import FUNCTION, OUT, composite, library_op
from ember.core.tensor import Tensor
from ember.errors import check
from ember.kernel.array import Spec
from ember.layout import wrap_dim
from ember.ops import reduce


@library_op(Library.concatenate, upcast=False, follows=(0,), name="cat")
def concatenate(tensors: Sequence[Tensor], dim: int) -> Spec:
    """Tensors one after another along `dim`; other sizes must agree."""
    first = tensors[0]
    total = 0
    for position, part in enumerate(tensors):
        same = part.ndim == first.ndim and all(
            a == b for d, (a, b) in enumerate(zip(part.shape, first.shape, strict=True)) if d != dim
        )
        check(
            part.ndim == first.ndim,
            RuntimeError,
            f"Tensors must have same number of dimensions: got {first.ndim} and {part.ndim}",
        )
        check(
            same,
            RuntimeError,
            f"Sizes of tensors must match except in dimension {dim}. Expected {list(first.shape)} "
            f"but got {list(part.shape)} for tensor number {position} in the list.",
        )
        total += part.shape[dim]
    return first.spec.with_shape((*first.shape[:dim], total, *first.shape[dim + 1 :]))


def _parts(g: Any, tensors_spec: Any, dim: int) -> list[Any]:
    sizes = [s.shape[dim] for s in tensors_spec]
    return list(g.split(sizes, dim))


concatenate.grad = lambda g, tensors_spec, dim: (_parts(g, tensors_spec, dim),)


@composite(FUNCTION | OUT, names=("concat", "concatenate"))
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors one after another along `dim`, in their common dtype (empty 1-dim ones are
    skipped)."""
    check(
        isinstance(tensors, (tuple, list)),
        TypeError,
        "cat(): argument 'tensors' (position 1) must be tuple of Tensors, not "
        f"{type(tensors).__name__}",
    )
    check(tensors, ValueError, "torch.cat(): expected a non-empty list of Tensors")
    for position, part in enumerate(tensors):
        check(
            isinstance(part, Tensor),
            TypeError,
            f"expected Tensor as element {position} in argument 0, but got {type(part).__name__}",
        )
        check(
            part.ndim > 0,
            RuntimeError,
            f"zero-dimensional tensor (at position {position}) cannot be concatenated",
        )
    dtype = promoted([t.detach().reshape(-1) for t in tensors])
    cast = [t.to(dtype) for t in tensors]
    shape = next((t.shape for t in cast if t.shape != (0,)), None)
    if shape is None:
        return concatenate(cast, wrap_dim(dim, 1))
    dim = wrap_dim(dim, len(shape))
    if len(shape) > 1:  # as parts of length 0, so that they have gradients
        nothing = (*shape[:dim], 0, *shape[dim + 1 :])
        cast = [t.reshape(nothing) if t.shape == (0,) else t for t in cast]
    return concatenate(cast, dim)


@composite(FUNCTION | OUT)
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dim."""
    check(tensors, RuntimeError, "stack expects a non-empty TensorList")
    first = tensors[0]
    dim = wrap_dim(dim, first.ndim + 1)
    for position, part in enumerate(tensors):
        check(
            part.shape == first.shape,
            RuntimeError,
            f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry 0 "
            f"and {list(part.shape)} at entry {position}",
        )
    return cat([t.unsqueeze(dim) for t in tensors], dim)


reduce.CAT.append(cat)
