"""Special functions of SciPy's with PyTorch's values at infinities, zeros and poles."""

from __future__ import annotations

from typing import Any

import numpy as np


def airy_ai(x: Any) -> Any:
    """Airy's function Ai; where SciPy gives up (NaN for huge |x|), its asymptotic form."""
    from scipy.special import airy

    value = airy(x)[0]
    far = np.isnan(value) & np.isfinite(x)
    if not far.any():
        return value
    size = np.abs(np.asarray(x, np.float64))
    wave = np.sin(2 / 3 * size * np.sqrt(size) + np.pi / 4) / np.sqrt(np.pi * np.sqrt(size))
    return np.where(far, np.where(np.less(x, 0), wave, 0), value).astype(np.asarray(x).dtype)


def spherical_j0(x: Any) -> Any:
    """sin(x) / x; 1 at 0, 0 at infinity."""
    return np.where(np.isinf(x), 0, np.sinc(x / np.pi))


def lgamma(x: Any) -> Any:
    """log |Γ(x)|; infinite at both infinities."""
    from scipy.special import gammaln

    return np.where(np.isneginf(x), np.inf, gammaln(x))


def polygamma(n: Any, x: Any) -> Any:
    """The n-th derivative of digamma; for n > 1 NaN at infinity and, at minus infinity, a pole."""
    from scipy.special import polygamma as at_numbers

    value = at_numbers(n, x).astype(x.dtype)
    pole = np.where(np.equal(np.mod(n, 2), 0), -np.inf, np.inf)
    return np.where(np.isinf(x) & (n > 1), np.where(x > 0, np.nan, pole), value).astype(x.dtype)


def zeta(s: Any, q: Any) -> Any:
    """Hurwitz's zeta function; NaN at infinite q, and where the series is 0 · ∞."""
    from scipy.special import zeta as at_numbers

    value = at_numbers(s, q)
    lost = np.equal(value, 0) & np.isinf(np.asarray(s, np.float64) ** 23)
    return np.where((np.isposinf(q) & np.greater(s, 1)) | lost, np.nan, value)


def _share(s: Any, x: Any, value: Any, below: float) -> Any:
    """An incomplete gamma function with its limits: all lies below infinity, nothing below 0."""
    value = np.where(np.isnan(s) & np.equal(x, 0), below, value)
    value = np.where(np.isnan(s) & np.isposinf(x), 1 - below, value)
    return np.where(np.isposinf(s) & np.isnan(x), below, value)


def igamma(s: Any, x: Any) -> Any:
    """The lower regularised incomplete gamma function."""
    from scipy.special import gammainc

    return _share(s, x, gammainc(s, x), 0.0)


def igammac(s: Any, x: Any) -> Any:
    """The upper regularised incomplete gamma function."""
    from scipy.special import gammaincc

    return _share(s, x, gammaincc(s, x), 1.0)
