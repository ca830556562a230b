"""Quantiles, histograms, and places of elements as coordinates."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.backends.library import Library
from ember.core.factory import shape_of
from ember.core.registry import FUNCTION, METHOD, OUT, composite, library_op
from ember.core.tensor import Tensor
from ember.errors import check
from ember.layout import product, wrap_dim
from ember.ops import return_types
from ember.ops.create import tensor
from ember.ops.sorting import sort

PLAIN = FUNCTION | METHOD | OUT
INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _checked_quantiles(name: str, input: Tensor, q: Any, interpolation: str) -> Tensor:
    """q as a tensor, or an error as PyTorch's."""
    check(
        input.dtype in (dtypes.float32, dtypes.float64),
        RuntimeError,
        f"{name}() input tensor must be either float or double dtype",
    )
    check(input.numel() > 0, RuntimeError, f"{name}() input tensor must be non-empty")
    check(
        interpolation in INTERPOLATIONS,
        RuntimeError,
        f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but "
        f"got {interpolation}",
    )
    if not isinstance(q, Tensor):
        check(
            isinstance(q, (int, float)),
            TypeError,
            f"{name}() received an invalid combination of arguments: q must be a float or a "
            f"Tensor, not {type(q).__name__}",
        )
        check(0 <= q <= 1, RuntimeError, f"{name}() q must be in the range [0, 1] but got {q}")
        return tensor(float(q), dtype=input.dtype, device=input.device)
    check(q.ndim <= 1, RuntimeError, f"{name}() q must be a scalar or 1D tensor")
    check(
        q.dtype is input.dtype,
        RuntimeError,
        f"{name}() q tensor must be same dtype as the input tensor",
    )
    check(
        q.is_meta or ((q >= 0) & (q <= 1)).all().item(),
        RuntimeError,
        f"{name}() q values must be in the range [0, 1]",
    )
    return q


def _quantile(
    name: str, input: Tensor, q: Any, dim: Any, keepdim: bool, interpolation: str
) -> Tensor:
    wanted = _checked_quantiles(name, input, q, interpolation)
    ndim = input.ndim
    if dim is None:
        rows, shape = input.reshape(-1), (1,) * ndim if keepdim else ()
    else:
        dim = wrap_dim(dim, ndim)
        rows = input.movedim(dim, -1) if ndim else input.reshape(1)
        shape = tuple(input.shape)
        rest = shape[dim + 1 :]
        shape = (*shape[:dim], *((1,) if keepdim and ndim else ()), *rest)
    found = _interpolated(name, sort(rows)[0], wanted.reshape(-1), interpolation)
    found = found.movedim(-1, 0).reshape((wanted.numel(), *shape))
    return found if wanted.ndim else found.squeeze(0)


def _interpolated(name: str, ordered: Tensor, q: Tensor, interpolation: str) -> Tensor:
    """The values at q of the way through the last dim, in a new last dim."""
    missing = ordered.isnan()
    if name == "quantile":  # NaN stands last
        ranks = (q * (ordered.shape[-1] - 1)).expand((*ordered.shape[:-1], q.shape[0]))
        ranks = ranks.masked_fill(missing.any(-1, keepdim=True), ordered.shape[-1] - 1)
    else:
        count = (missing.logical_not().sum(-1, keepdim=True) - 1).to(q.dtype)
        ranks = (q * count).clamp(min=0)
    if interpolation == "lower":
        ranks = ranks.floor()
    elif interpolation == "higher":
        ranks = ranks.ceil()
    elif interpolation == "nearest":
        ranks = ranks.round()
    before = ranks.detach().to(dtypes.int64)
    below = ordered.gather(-1, before)
    if interpolation in ("lower", "higher", "nearest"):
        return below
    above = ordered.gather(-1, ranks.detach().ceil().to(dtypes.int64))
    weight = 0.5 if interpolation == "midpoint" else ranks - before
    return below.lerp(above, weight)


@composite(PLAIN)
def quantile(
    input: Tensor, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The value that a part q of the elements does not exceed, along `dim` or of all; NaN if there
    is one. Several q make a new first dim.

    >>> import ember as torch
    >>> torch.quantile(torch.tensor([1.0, 2.0, 4.0]), 0.75)
    tensor(3.)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation)


@composite(PLAIN)
def nanquantile(
    input: Tensor, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """`quantile` of what is not NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation)


# histograms


@library_op(Library.histogram, name="histogram")
def histogram_op(input: Tensor, bins: Any, range: Any, weight: Any, density: bool) -> Any:
    """Counts in bins, and the edges of bins."""
    count = bins.shape[0] - 1 if isinstance(bins, Tensor) else bins
    spec = input.spec
    return spec.with_shape((count,)), spec.with_shape((count + 1,))


@library_op(Library.histogramdd, name="histogramdd")
def histogramdd_op(input: Tensor, bins: Any, range: Any, weight: Any, density: bool) -> Any:
    """Counts in cells, and the edges of bins along each dim."""
    counts = tuple(b.shape[0] - 1 if isinstance(b, Tensor) else b for b in bins)
    spec = input.spec
    return spec.with_shape(counts), *(spec.with_shape((n + 1,)) for n in counts)


def _check_counted(input: Tensor, weight: Tensor | None, name: str) -> None:
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f"\"{name}\" not implemented for '{input.dtype.title}'")
    check(
        weight is None or weight.dtype is input.dtype,
        RuntimeError,
        "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should "
        "have the same dtype",
    )


@composite(PLAIN)
def histogram(
    input: Tensor,
    bins: Any,
    *,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """(hist, bin_edges): how many elements, or what weight, fall between edges.

    `bins` is a number of even bins of the range (by default of the elements), or the edges.
    `density` divides by the total and by widths.
    """
    _check_counted(input, weight, "histogram")
    check(
        weight is None or weight.shape == input.shape,
        RuntimeError,
        "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
        "input tensor excluding its innermost dimension, but got input with shape "
        f"{[input.numel(), 1]} and weight with shape "
        f"{list(weight.shape) if weight is not None else ''}",
    )
    check(
        isinstance(bins, Tensor) or bins > 0,
        RuntimeError,
        f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0",
    )
    flat = None if weight is None else weight.detach().reshape(-1)
    limits = None if range is None else tuple(range)
    made = histogram_op(input.detach().reshape(-1), bins, limits, flat, density)
    return return_types.histogram(*made)


@composite(FUNCTION)
def histogramdd(
    input: Tensor,
    bins: Any,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """(hist, bin_edges) of points in the last dim: counts in cells, a tuple of edges.

    `bins` is a number, numbers for each dim, or edges for each; `range` has both ends of each dim.
    """
    _check_counted(input, weight, "histogramdd")
    check(
        input.ndim >= 2,
        RuntimeError,
        "torch.histogramdd: input tensor should have at least 2 dimensions",
    )
    size = input.shape[-1]
    parts = (bins,) * size if isinstance(bins, int) else tuple(bins)
    check(
        len(parts) == size,
        RuntimeError,
        "histogramdd: The size of bins must be equal to the innermost dimension of the input.",
    )
    flat = None if weight is None else weight.detach().reshape(-1)
    limits = None if range is None else tuple(range)
    points = input.detach().reshape(product(input.shape[:-1]), size)
    counts, *edges = histogramdd_op(points, parts, limits, flat, density)
    given = [b.detach() if isinstance(b, Tensor) else e for b, e in zip(parts, edges, strict=True)]
    return return_types.histogramdd(counts, tuple(given))


# places


@composite(FUNCTION)
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates, one tensor a dim, of indices into the flat elements of a shape.

    >>> import ember as torch
    >>> torch.unravel_index(torch.tensor([5, 7]), (2, 4))
    (tensor([1, 1]), tensor([1, 3]))
    """
    check(
        indices.dtype.category == dtypes.INTEGRAL,
        TypeError,
        f"expected 'indices' to be integer dtype, but got {indices.dtype}",
    )
    sizes = shape_of((shape,))
    check(
        all(n >= 0 for n in sizes),
        ValueError,
        f"'shape' cannot have negative values, but got {tuple(sizes)}",
    )
    found, step = [], 1
    for size in reversed(sizes):
        found.append(indices.div(step, rounding_mode="floor") % size)
        step *= size
    return tuple(reversed(found))


@composite(PLAIN)
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """`nonzero` with `size` rows: cut, or padded with `fill_value`."""
    check(size >= 0, RuntimeError, "nonzero_static: 'size' must be an non-negative integer")
    made = tensor(fill_value, dtype=dtypes.int64, device=input.device)
    made = made.expand((size, input.ndim)).clone()
    found = input.detach().nonzero()[:size]
    made[: found.shape[0]] = found
    return made
