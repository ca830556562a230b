"""Tensors side by side and against each other: stacks, grids, products of sets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ember import dtypes
from ember.core.dispatch import promoted
from ember.core.registry import FUNCTION, LINALG, OUT, composite
from ember.core.tensor import Tensor
from ember.errors import check
from ember.layout import Size
from ember.layout import broadcast_shapes as common_shape
from ember.ops.create import tensor, zeros
from ember.ops.index_slices import index_select
from ember.ops.joining import cat, stack
from ember.ops.scans import cumprod
from ember.source_lines import warn


def _tensors(args: Any) -> list[Tensor]:
    return list(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else list(args)


def _at_least(name: str, raise_dims: Any, doc: str) -> Any:
    def call(*tensors: Any) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return raise_dims(tensors[0])
        return tuple(raise_dims(t) for t in _tensors(tensors))

    call.__name__, call.__doc__ = name, doc
    return composite(FUNCTION, name=name)(call)


def _one(x: Tensor) -> Tensor:
    return x if x.ndim else x.reshape(1)


def _two(x: Tensor) -> Tensor:
    return x if x.ndim >= 2 else x.reshape(1, 1) if not x.ndim else x.unsqueeze(0)


def _three(x: Tensor) -> Tensor:
    return x if x.ndim >= 3 else _two(x).unsqueeze(-1)


_at_least("atleast_1d", _one, "Tensors with at least one dim.")
_at_least("atleast_2d", _two, "Tensors with at least two dims: vectors become rows.")
_at_least("atleast_3d", _three, "Tensors with at least three dims.")


def _stacked(name: str, raise_dims: Any, dim: int, doc: str, names: tuple[str, ...] = ()) -> None:
    def call(tensors: Sequence[Tensor]) -> Tensor:
        check(len(tensors) > 0, RuntimeError, f"{name} expects a non-empty TensorList")
        raised = [raise_dims(t) for t in tensors]
        return cat(raised, 0 if name == "hstack" and raised[0].ndim == 1 else dim)

    call.__name__, call.__doc__ = name, doc
    composite(FUNCTION | OUT, names=names, name=name)(call)


_stacked("hstack", _one, 1, "Tensors one after another along columns (vectors end to end).")
_stacked("vstack", _two, 0, "Tensors one below another; vectors are rows.", ("row_stack",))
_stacked("dstack", _three, 2, "Tensors one behind another along the third dim.")
_stacked(
    "column_stack",
    lambda x: x.reshape(-1, 1) if x.ndim <= 1 else x,
    1,
    "Tensors along columns; vectors are columns.",
)


@composite(FUNCTION)
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Tensors expanded to their common shape."""
    found = _tensors(tensors)
    shape = common_shape(*(tuple(t.shape) for t in found))
    return tuple(t.expand(shape) for t in found)


@composite(FUNCTION)
def broadcast_shapes(*shapes: Any) -> Size:
    """The common shape of shapes.

    >>> import ember as torch
    >>> torch.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    result: list[int] = []
    for position, shape in enumerate(shapes):
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        result = [1] * (len(sizes) - len(result)) + result
        for i in range(-1, -1 - len(sizes), -1):
            check(
                sizes[i] >= 0,
                RuntimeError,
                f"Trying to create tensor with negative dimension ({sizes[i]}): ({sizes[i]})",
            )
            if sizes[i] in (1, result[i]):
                continue
            check(
                result[i] == 1,
                RuntimeError,
                f"Attempting to broadcast a dimension of length {sizes[i]} at {i}! Mismatching "
                f"argument at index {position} had {sizes}; but expected shape should be "
                f"broadcastable to {result}",
            )
            result[i] = sizes[i]
    return Size(result)


@composite(FUNCTION)
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinates of a grid: each vector along a dim of its own, as views."""
    found = _tensors(tensors)
    check(len(found) > 0, RuntimeError, "meshgrid expects a non-empty TensorList")
    if indexing is None:
        warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing "
            "argument."
        )
        indexing = "ij"
    check(
        indexing in ("ij", "xy"),
        RuntimeError,
        f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}',
    )
    for t in found:
        check(
            t.ndim <= 1,
            RuntimeError,
            f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {list(t.shape)}",
        )
        check(
            t.dtype is found[0].dtype,
            RuntimeError,
            "torch.meshgrid expects all tensors to have the same dtype",
        )
    swap = indexing == "xy" and len(found) >= 2
    if swap:
        found[0], found[1] = found[1], found[0]
    shape = [t.numel() for t in found]
    grids = [
        t.reshape([-1 if i == d else 1 for i in range(len(found))]).expand(shape)
        for d, t in enumerate(found)
    ]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@composite(FUNCTION)
def cartesian_prod(*tensors: Any) -> Tensor:
    """Every combination of an element of each vector, as rows."""
    found = _tensors(tensors)
    for t in found:
        check(t.ndim == 1, RuntimeError, f"Expect a 1D vector, but got shape {list(t.shape)}")
    if len(found) == 1:
        return found[0]
    grids = meshgrid(*found, indexing="ij")
    return stack([g.reshape(-1) for g in grids], 1)


@composite(FUNCTION)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Every choice of r elements of a vector, in order, as rows."""
    check(input.ndim == 1, RuntimeError, f"Expect a 1D vector, but got shape {list(input.shape)}")
    check(r >= 0, RuntimeError, f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty(0)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(input.shape[0]), r))
    places = tensor([i for row in rows for i in row], dtype=dtypes.int64, device=input.device)
    return index_select(input, 0, places).reshape(len(rows), r)


@composite(FUNCTION)
def block_diag(*tensors: Any) -> Tensor:
    """Matrices along the diagonal of a matrix of zeros; vectors are rows."""
    found = _tensors(tensors)
    for position, t in enumerate(found):
        check(
            t.ndim <= 2,
            RuntimeError,
            "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input "
            f"{position} has {t.ndim} dimensions",
        )
    if not found:
        return zeros(1, 0)
    dtype = promoted([t.detach().reshape(-1) for t in found])
    blocks = [_two(t).to(dtype) for t in found]
    width = sum(b.shape[1] for b in blocks)
    rows, start = [], 0
    for block in blocks:
        height, own = block.shape
        left = block.new_zeros(height, start)
        right = block.new_zeros(height, width - start - own)
        rows.append(cat([left, block, right], 1))
        start += own
    return cat(rows, 0)


def _powers(x: Tensor, count: int) -> Tensor:
    """1, x, x² ... in a new last dim."""
    ones = x.new_ones(x.shape).unsqueeze(-1)
    if count <= 1:
        return ones[..., :count]
    spread = x.unsqueeze(-1).expand((*x.shape, count - 1))
    return cat([ones.to(x.dtype), cumprod(spread, -1, dtype=x.dtype)], -1)


@composite(FUNCTION, name="vander")
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Rows of powers of each element of a vector, from N-1 down to 0, or up where increasing."""
    check(x.ndim == 1, RuntimeError, "x must be a one-dimensional tensor.")
    count = x.shape[0] if N is None else N
    check(count >= 0, RuntimeError, "N must be non-negative.")
    if x.dtype in (dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32):
        x = x.to(dtypes.int64)
    made = _powers(x, count)
    return made if increasing else made.flip(-1)


@composite(LINALG, name="vander")
def vandermonde(x: Tensor, *, N: int | None = None) -> Tensor:
    """Rows of powers 0 ... N-1 of each element of the last dim."""
    x = x if x.ndim else x.unsqueeze(0)
    count = x.shape[-1] if N is None else N
    check(count > 1, RuntimeError, "N must be greater than 1.")
    if x.dtype is dtypes.bool_ or x.dtype in (
        dtypes.uint8,
        dtypes.int8,
        dtypes.int16,
        dtypes.int32,
    ):
        x = x.to(dtypes.int64)
    return _powers(x, count)
