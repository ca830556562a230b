"""Row programs: each row of `dim` is one small computation with sums and maxima of its own."""

from __future__ import annotations

import warnings
from typing import Any

from ember.core.registry import FUNCTION, METHOD, OUT, SPECIAL, F, composite, rowwise
from ember.core.second_order import flat_beyond
from ember.core.tensor import Tensor
from ember.dtypes import FLOATING
from ember.dtypes import dtype as DType
from ember.layout import wrap_dim
from ember.scalar import primitives as p
from ember.scalar.primitives import row_max, row_sum, stop


@rowwise(accepts=FLOATING, name="softmax")
def softmax_rows(input: Any) -> Any:
    """exp(x) over its sum."""
    e = p.exp(input - stop(row_max(input)))
    return e / row_sum(e)


softmax_rows.grad = lambda g, result: (result * (g - row_sum(g * result)),)


@rowwise(accepts=FLOATING, name="log_softmax")
def log_softmax_rows(input: Any) -> Any:
    """x less the log of the sum of exp(x)."""
    shifted = input - stop(row_max(input))
    return shifted - p.log(row_sum(p.exp(shifted)))


log_softmax_rows.grad = lambda g, result: (g - p.exp(result) * row_sum(g),)


def _of_rows(op: Any, input: Tensor, dim: int) -> Tensor:
    """A row program, or a copy where there are no rows."""
    if input.numel() == 0:
        wrap_dim(dim, input.ndim)
        return flat_beyond(input).clone()
    return op(input, dim)


@composite(FUNCTION | METHOD | OUT | SPECIAL)
def softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """exp(x) over its sum along `dim`."""
    return _of_rows(softmax_rows, input if dtype is None else input.to(dtype), dim)


@composite(FUNCTION | METHOD | OUT | SPECIAL)
def log_softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """log of softmax along `dim`, without overflow."""
    return _of_rows(log_softmax_rows, input if dtype is None else input.to(dtype), dim)


def _implicit_dim(name: str, ndim: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        UserWarning,
        stacklevel=4,
    )
    return 0 if ndim in (0, 1, 3) else 1


def _functional(name: str, function: Any, negate: bool = False) -> None:
    def call(
        input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
    ) -> Tensor:
        chosen = _implicit_dim(name, input.ndim) if dim is None else dim
        return function(-input if negate else input, chosen, dtype)

    call.__name__ = name
    call.__doc__ = f"{name} along `dim`; a warning where dim is left out."
    composite(F, name=name)(call)


_functional("softmax", softmax)
_functional("log_softmax", log_softmax)
_functional("softmin", softmax, negate=True)


@rowwise()
def normalized(input: Any, eps: Any) -> Any:
    """(x - mean) / sqrt(variance + eps) over a row: layer_norm's core. Ba et al. 2016."""
    apart = input - p.row_mean(input)
    return apart * p.rsqrt(p.row_mean(apart * apart) + eps)


@rowwise()
def root_mean_square_normalized(input: Any, eps: Any) -> Any:
    """x / sqrt(mean(x²) + eps) over a row. Zhang and Sennrich 2019."""
    return input * p.rsqrt(p.row_mean(input * input) + eps)
