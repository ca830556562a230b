"""Covariances, correlations, and numerical gradients."""

from __future__ import annotations

from typing import Any

from ember import dtypes
from ember.core.dispatch import floated
from ember.core.lifting import whole
from ember.core.registry import FUNCTION, METHOD, composite
from ember.core.tensor import Tensor
from ember.errors import check
from ember.layout import wrap_dims
from ember.ops.joining import cat
from ember.source_lines import warn


@composite(FUNCTION | METHOD)
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariance matrix of variables in rows, with observations in columns.

    `fweights` counts observations, `aweights` weighs them; their sum less `correction` divides.
    """
    check(
        input.ndim <= 2,
        RuntimeError,
        "cov(): expected input to have two or fewer dimensions but got an input with "
        f"{input.ndim} dimensions",
    )
    check(
        input.dtype is not dtypes.bool_,
        RuntimeError,
        "cov(): bool dtype is not supported for input",
    )
    rows = input.reshape(1, -1) if input.ndim < 2 else input
    count = rows.shape[1]
    weights = _weights(input, fweights, aweights, count)
    if weights is None:
        total: Any = float(count)
        mean = rows.sum(1, keepdim=True) / count
        below = total - correction
    else:
        total = weights.sum()
        check(
            bool(whole(total != 0).all().item()),
            RuntimeError,
            "cov(): weights sum to zero, can't be normalized",
        )
        mean = (rows * weights).sum(1, keepdim=True) / total
        if aweights is None:
            below = total - correction
        else:
            below = total - correction * (weights * aweights).sum() / total
    apart = rows.to(floated(input.dtype)) - mean
    other = apart if weights is None else apart * weights
    if isinstance(below, float) and below <= 0:
        warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the "
            "number of observations."
        )
    factor = max(below, 0.0) if isinstance(below, float) else below.clamp(min=0)
    made = apart @ other.transpose(0, 1).conj() / factor
    return made.squeeze()


def _weights(input: Tensor, fweights: Any, aweights: Any, count: int) -> Any:
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is None:
            continue
        check(
            weights.ndim <= 1,
            RuntimeError,
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
            f"{weights.ndim} dimensions",
        )
        integral = weights.dtype.category == dtypes.INTEGRAL
        check(
            integral if name == "fweights" else weights.dtype.is_floating_point,
            RuntimeError,
            f"cov(): expected {name} to have "
            f"{'integral' if name == 'fweights' else 'floating point'} dtype but got {name} with "
            f"{weights.dtype.title} dtype",
        )
        check(
            weights.numel() == count,
            RuntimeError,
            f"cov(): expected {name} to have the same numel as there are observations in the input "
            f"but got {weights.numel()} != {count}",
        )
        check(
            count == 0 or bool(whole(weights >= 0).all().item()),
            RuntimeError,
            f"cov(): {name} cannot be negative",
        )
    if fweights is not None and aweights is not None:
        return fweights * aweights
    return fweights if fweights is not None else aweights


@composite(FUNCTION | METHOD)
def corrcoef(input: Tensor) -> Tensor:
    """The correlations of variables in rows: covariances over the products of deviations."""
    check(
        input.ndim <= 2,
        RuntimeError,
        "corrcoef(): expected input to have two or fewer dimensions but got an input with "
        f"{input.ndim} dimensions",
    )
    made = cov(input)
    if made.ndim == 0:
        return made / made
    deviations = made.diagonal().sqrt()
    made = made / deviations.unsqueeze(-1) / deviations.unsqueeze(0)
    if made.is_complex():
        return made.real.clamp(-1, 1) + 1j * made.imag.clamp(-1, 1)
    return made.clamp(-1, 1)


@composite(FUNCTION)
def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Slopes along dims by second-order differences, at places `spacing` apart or as given."""
    dims = wrap_dims(dim, input.ndim)
    check(
        edge_order in (1, 2),
        RuntimeError,
        f"torch.gradient only supports edge_order=1 and edge_order=2, got {edge_order}",
    )
    spaces = list(spacing) if isinstance(spacing, (list, tuple)) else None
    if spaces is None:
        spacing = 1 if spacing is None else spacing
        spaces = [spacing] * len(dims)
    check(
        len(spaces) == len(dims),
        RuntimeError,
        "torch.gradient expected spacing to be unspecified, a scalar or a list of length equal to "
        f"that of dims ({len(dims)}), but got a list of length {len(spaces)}",
    )
    for d in dims:
        check(
            input.shape[d] >= edge_order + 1,
            RuntimeError,
            "torch.gradient expected each dimension size to be at least edge_order+1",
        )
    return tuple(_slope(input, d, space, edge_order) for d, space in zip(dims, spaces, strict=True))


def _slope(x: Tensor, dim: int, space: Any, edge_order: int) -> Tensor:
    size = x.shape[dim]

    def part(start: int, stop: int) -> Tensor:
        return x.narrow(dim, start, stop - start)

    if isinstance(space, Tensor) and space.ndim == 1:
        steps = (space[1:] - space[:-1]).reshape(-1, *[1] * (x.ndim - 1 - dim))
        before, after = steps[: size - 2], steps[1 : size - 1]
        first, last = steps[:1], steps[size - 2 :]
    else:
        before = after = first = last = space
    a = -after / (before * (before + after))
    b = (after - before) / (before * after)
    c = before / (after * (before + after))
    middle = a * part(0, size - 2) + b * part(1, size - 1) + c * part(2, size)
    if edge_order == 1:
        low = (part(1, 2) - part(0, 1)) / first
        high = (part(size - 1, size) - part(size - 2, size - 1)) / last
    else:
        low, high = _second_order_edges(part, size, (before, after))
    return cat([low, middle, high], dim)


def _second_order_edges(part: Any, size: int, steps: Any) -> tuple[Tensor, Tensor]:
    first, second = (s[:1] if isinstance(s, Tensor) and s.ndim else s for s in steps)
    low = (
        -(2 * first + second) / (first * (first + second)) * part(0, 1)
        + (first + second) / (first * second) * part(1, 2)
        - first / (second * (first + second)) * part(2, 3)
    )
    first, second = (s[-1:] if isinstance(s, Tensor) and s.ndim else s for s in steps)
    high = (
        second / (first * (first + second)) * part(size - 3, size - 2)
        - (first + second) / (first * second) * part(size - 2, size - 1)
        + (first + 2 * second) / (second * (first + second)) * part(size - 1, size)
    )
    return low, high
