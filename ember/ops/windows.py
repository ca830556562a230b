"""Windows: weights that fade out a stretch of a signal at its ends."""

from __future__ import annotations

import math
from typing import Any

from ember import dtypes
from ember.core import modes
from ember.core.registry import FUNCTION, OPS, composite
from ember.core.tensor import Tensor
from ember.dtypes import dtype as DType
from ember.errors import check
from ember.ops.create import empty, ones
from ember.ops.ranges import arange


def places(length: int, dtype: DType, device: Any) -> Tensor:
    """0 … length − 1, computed with in at least single precision."""
    work = dtypes.float32 if dtype in dtypes.HALF else dtype
    return arange(length, device=device).to(work)


def cosines(length: int, periods: int, factors: Any, dtype: DType, device: Any) -> Tensor:
    """Σ (−1)^i·a_i·cos(2πi·k / periods)."""
    k = places(length, dtype, device) * (2 * math.pi / periods)
    total: Any = 0
    for i, factor in enumerate(factors):
        total = total + (-1) ** i * factor * (k * i).cos()
    return total


def _window(name: str, length: int, periodic: bool, options: dict[str, Any], shape: Any) -> Tensor:
    """A window of `shape(length, periods, dtype, device)`; 1 for a single place."""
    dtype = options.pop("dtype", None) or modes.get_default_dtype()
    device = options.pop("device", None)
    requires_grad = options.pop("requires_grad", False)
    check(
        not set(options) - {"layout", "pin_memory"},
        TypeError,
        lambda: f"{name}() got unexpected keyword argument(s): {', '.join(options)}",
    )
    check(
        dtype.is_floating_point,
        RuntimeError,
        f"{name} expects floating point dtypes, got: {dtype}",
    )
    check(
        length >= 0,
        RuntimeError,
        f"{name} requires non-negative window_length, got window_length={length}",
    )
    if length < 2:
        made = (ones if length else empty)(length, dtype=dtype, device=device)
    else:
        made = shape(length, length if periodic else length - 1, dtype, device).to(dtype)
    return made.requires_grad_() if requires_grad else made


@composite(FUNCTION)
def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """sin²(πk / n): n is the length, or one less where not periodic.

    >>> import ember as torch
    >>> torch.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window(
        "hann_window",
        window_length,
        periodic,
        options,
        lambda n, periods, *place: cosines(n, periods, (0.5, 0.5), *place),
    )


@composite(FUNCTION)
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    **options: Any,
) -> Tensor:
    """alpha − beta·cos(2πk / n)."""
    return _window(
        "hamming_window",
        window_length,
        periodic,
        options,
        lambda n, periods, *place: cosines(n, periods, (alpha, beta), *place),
    )


@composite(FUNCTION)
def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """0.42 − 0.5·cos(2πk / n) + 0.08·cos(4πk / n)."""
    return _window(
        "blackman_window",
        window_length,
        periodic,
        options,
        lambda n, periods, *place: cosines(n, periods, (0.42, 0.5, 0.08), *place),
    )


@composite(FUNCTION)
def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """A triangle: 1 − |2k / n − 1|."""
    return _window(
        "bartlett_window",
        window_length,
        periodic,
        options,
        lambda n, periods, *place: 1 - (places(n, *place) * (2 / periods) - 1).abs(),
    )


@composite(FUNCTION)
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any
) -> Tensor:
    """I0(beta·√(1 − (2k / n − 1)²)) / I0(beta)."""
    return _window(
        "kaiser_window",
        window_length,
        periodic,
        options,
        lambda n, periods, *place: kaiser(n, periods, beta, *place),
    )


def kaiser(length: int, periods: int, beta: float, dtype: DType, device: Any) -> Tensor:
    """Kaiser's window; see `kaiser_window`."""
    k = places(length, dtype, device) * (2 / periods) - 1
    x = beta * (1 - k * k).clamp(min=0).sqrt()
    scaled = OPS["i0e"](x) / OPS["i0e"](k.new_full((), beta))  # I0 itself may be beyond the dtype
    return scaled * (x - beta).exp()
