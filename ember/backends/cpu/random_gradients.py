"""How random numbers move with the parameters of their distribution, for gradients through samples.

A number x of a distribution function F keeps its F when the parameter a moves: ∂x/∂a =
−(∂F/∂a)/(∂F/∂x) (Figurnov, Mohamed & Mnih 2018, "Implicit reparameterization gradients"). ∂F/∂a is
a central difference of F or 1 − F in float64, whichever is smaller, so that tails keep their
digits: good to some 9 digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ember.backends.cpu.box_muller import Vector

_STEP = 1e-5  # relative: near the cube root of float64's precision


def standard_gamma_slope(shapes: Vector, numbers: Vector) -> Vector:
    """∂x/∂shape of gamma numbers of scale 1, in their dtype."""
    from scipy.special import gammainc, gammaincc, gammaln

    a, x = np.broadcast_arrays(shapes.astype(np.float64), numbers.astype(np.float64))
    log_density = (a - 1) * np.log(x) - x - gammaln(a)
    slope = _difference(a, lambda s: gammainc(s, x), lambda s: gammaincc(s, x))
    return _finite(-slope * np.exp(-log_density)).astype(numbers.dtype)


def dirichlet_slope(numbers: Vector, concentrations: Vector, total: Vector) -> Vector:
    """∂gamma/∂concentration over the row's sum of gammas: of Beta numbers ∂x/∂a over 1 − x."""
    from scipy.special import betainc, betaln

    arguments = (v.astype(np.float64) for v in (numbers, concentrations, total))
    x, a, whole = np.broadcast_arrays(*arguments)
    b = whole - a
    log_density = (
        (a - 1) * np.log(x) + b * np.log1p(-x) - betaln(a, b)
    )  # with one more factor 1 − x
    slope = _difference(a, lambda s: betainc(s, b, x), lambda s: betainc(b, s, 1 - x))
    return _finite(-slope * np.exp(-log_density)).astype(numbers.dtype)


def _difference(a: Vector, below: Callable[[Any], Any], above: Callable[[Any], Any]) -> Vector:
    """∂below/∂a, from `below` or from `above` = 1 − below."""
    step = _STEP * a
    high, low = a + step, a - step
    from_below, from_above = below(high) - below(low), above(low) - above(high)
    return np.asarray(np.where(below(a) < 0.5, from_below, from_above) / (high - low))


def _finite(slope: Vector) -> Vector:
    """0 where a number lies so far out that its density vanishes."""
    return np.where(np.isfinite(slope), slope, 0.0)
