"""`torch.signal.windows`: windows for spectra, symmetric unless `sym` is False.

A window of M places fades out both ends of M samples. With sym=False it is one period of a
periodic window: that of M + 1 places, less the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ember.ops as ops
from ember.core import modes
from ember.core.tensor import Tensor
from ember.dtypes import dtype as DType
from ember.dtypes import float32, float64
from ember.errors import check
from ember.ops.windows import cosines, places
from ember.ops.windows import kaiser as kaiser_weights

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip


def _window(
    name: str,
    M: int,
    sym: bool,
    options: dict[str, Any],
    weights: Callable[[int, DType, Any], Tensor],
) -> Tensor:
    """`weights(periods, dtype, device)`, with nothing for M = 0 and 1 for M = 1."""
    dtype: DType = options.pop("dtype", None) or modes.get_default_dtype()
    device = options.pop("device", None)
    requires_grad = options.pop("requires_grad", False)
    layout = options.pop("layout", None)
    check(not options, TypeError, f"{name}() got unexpected keyword arguments {sorted(options)}")
    check(M >= 0, ValueError, f"{name} requires non-negative window length, got M={M}")
    check(
        layout is None or str(layout) == "torch.strided",
        ValueError,
        f"{name} is implemented for strided tensors only, got: {layout}",
    )
    check(
        dtype in (float32, float64),
        ValueError,
        f"{name} expects float32 or float64 dtypes, got: {dtype}",
    )
    if M < 2:
        made: Tensor = ops.ones(M, dtype=dtype, device=device)
    else:
        made = weights(M - 1 if sym else M, dtype, device)
    return made.requires_grad_() if requires_grad else made  # type: ignore[attr-defined,no-any-return]


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Tensor:
    """Σ (−1)^i·a_i·cos(2πi·k / n), n = M − 1 (M if not sym).

    >>> import ember as torch
    >>> torch.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    check(isinstance(a, Iterable), TypeError, "Coefficients must be a list/tuple")
    factors = list(a)
    check(factors, ValueError, "Coefficients cannot be empty")
    return _window(
        "general_cosine", M, sym, options, lambda n, *place: cosines(M, n, factors, *place)
    )


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """alpha − (1 − alpha)·cos(2πk / n)."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """0.54 − 0.46·cos(2πk / n)."""
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """sin²(πk / n).

    >>> import ember as torch
    >>> torch.signal.windows.hann(4, sym=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """0.42 − 0.5·cos(2πk / n) + 0.08·cos(4πk / n)."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Nuttall's minimum four-term cosine window (1981)."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """A triangle: 1 − |2k / n − 1|."""
    return _window(
        "bartlett",
        M,
        sym,
        options,
        lambda n, *place: 1 - (places(M, *place) * (2 / n) - 1).abs(),
    )


def cosine(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Half a wave of sine: sin(π·(k + 1/2) / (n + 1))."""
    pi = 3.141592653589793
    return _window(
        "cosine",
        M,
        sym,
        options,
        lambda n, *place: ((places(M, *place) + 0.5) * (pi / (n + 1))).sin(),
    )


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any
) -> Tensor:
    """exp(−|k − center| / tau); the centre is the middle, and only without sym may be given."""
    check(tau > 0, ValueError, f"Tau must be positive, got: {tau} instead.")
    check(not (sym and center is not None), ValueError, "Center must be None for symmetric windows")
    return _window(
        "exponential",
        M,
        sym,
        options,
        lambda n, *place: (
            -(places(M, *place) - (n / 2 if center is None else center)).abs() / tau
        ).exp(),
    )


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """exp(−((k − n / 2) / std)² / 2)."""
    check(std > 0, ValueError, f"Standard deviation must be positive, got: {std} instead.")
    return _window(
        "gaussian",
        M,
        sym,
        options,
        lambda n, *place: (-(((places(M, *place) - n / 2) / std) ** 2) / 2).exp(),
    )


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Tensor:
    """I0(beta·√(1 − (2k / n − 1)²)) / I0(beta)."""
    check(beta >= 0, ValueError, f"beta must be non-negative, got: {beta} instead.")
    return _window("kaiser", M, sym, options, lambda n, *place: kaiser_weights(M, n, beta, *place))
