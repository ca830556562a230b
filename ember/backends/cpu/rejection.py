"""Distributions sampled by rejection: one number at a time, from as many uniforms as it takes."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np


class Uniforms(Protocol):
    """What draws come from."""

    def __call__(self) -> float:
        """The next float64 uniform in [0, 1)."""

    def normal(self) -> float:
        """The next standard normal."""


def poisson(uniforms: Uniforms, rate: float) -> float:
    """A Poisson count.

    Rates from 10 on: transformed rejection (Hörmann 1993, "The transformed rejection method for
    generating Poisson random variables"); below: the product of uniforms (Knuth).
    """
    if rate >= 10:
        return _poisson_by_rejection(uniforms, rate)
    if rate == 0:
        return 0
    limit, count, product = math.exp(-rate), 0, uniforms()
    while product > limit:
        count += 1
        product *= uniforms()
    return count


def _poisson_by_rejection(uniforms: Uniforms, rate: float) -> float:
    log_rate = math.log(rate)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    accepted = 0.9277 - 3.6224 / (b - 2)
    while True:
        u = uniforms() - 0.5
        v = uniforms()
        edge = 0.5 - abs(u)
        count = math.floor((2 * a / edge + b) * u + rate + 0.43)
        if edge >= 0.07 and v <= accepted:
            return count
        if count < 0 or (edge < 0.013 and v > edge):
            continue
        left = math.log(v) + math.log(inverse_alpha) - math.log(a / (edge * edge) + b)
        if left <= -rate + count * log_rate - math.lgamma(count + 1):
            return count


def binomial(uniforms: Uniforms, count: float, probability: float, single: bool) -> float:
    """The successes of `count` trials; `single` rounds the centre as float32 arithmetic does.

    Ten expected successes or more: the transformed rejection BTRS (Hörmann 1993, "The generation
    of binomial random variates"); fewer: sums of geometric numbers. Probabilities above ½ count the
    failures.
    """
    if count <= 0 or probability <= 0:
        return 0
    if probability >= 1:
        return count
    if math.isnan(count * probability) or math.isinf(count):
        return count * probability
    if probability > 0.5:
        failure = 1 - probability
        return count - binomial(uniforms, count, failure, single)
    if count * probability >= 10:
        return _binomial_by_rejection(uniforms, count, probability, single)
    log_failure, trials, successes = math.log1p(-probability), 0.0, 0
    while True:
        trials += math.ceil(math.log(uniforms()) / log_failure)
        if trials > count:
            return successes
        successes += 1


def _binomial_by_rejection(uniforms: Uniforms, n: float, p: float, single: bool) -> float:
    deviation = math.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = n * p + 0.5
    if single:
        centre = float(np.float32(np.float32(n) * np.float32(p)) + np.float32(0.5))
    accepted = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = math.floor((n + 1) * p)
    while True:
        u = uniforms() - 0.5
        v = uniforms()
        edge = 0.5 - abs(u)
        k = math.floor((2 * a / edge + b) * u + centre)
        if edge >= 0.07 and v <= accepted:
            return k
        if k < 0 or k > n:
            continue
        v = math.log(v * alpha / (a / (edge * edge) + b))
        bound = (
            (mode + 0.5) * math.log((mode + 1) / (odds * (n - mode + 1)))
            + (n + 1) * math.log((n - mode + 1) / (n - k + 1))
            + (k + 0.5) * math.log(odds * (n - k + 1) / (k + 1))
            + _stirling_tail(mode)
            + _stirling_tail(n - mode)
            - _stirling_tail(k)
            - _stirling_tail(n - k)
        )
        if v <= bound:
            return k


_TAILS = (
    0.0810614667953272,
    0.0413406959554092,
    0.0276779256849983,
    0.02079067210376509,
    0.0166446911898211,
    0.0138761288230707,
    0.0118967099458917,
    0.0104112652619720,
    0.00925546218271273,
    0.00833056343336287,
)


def _stirling_tail(k: float) -> float:
    """log k! less Stirling's approximation of it."""
    if k <= 9:
        return _TAILS[int(k)]
    square = (k + 1) * (k + 1)
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)


_THIRD = float(np.float32(1) / np.float32(3))  # PyTorch's constants here are float32 in every dtype
_SQUEEZE = float(np.float32(0.0331))


def gamma(uniforms: Uniforms, shape: float, single: bool) -> float:
    """A gamma number of scale 1.

    Marsaglia & Tsang 2000, "A simple method for generating gamma variables". `single` rounds the
    constants made of the shape as float32 arithmetic does.
    """
    scale = 1.0
    if shape < 1:
        if shape <= 0:
            return 0.0
        exponent = float(np.float32(1) / np.float32(shape)) if single else 1 / shape
        scale = math.pow(1 - uniforms(), exponent)
        shape = float(np.float32(shape) + np.float32(1)) if single else shape + 1
    d = float(np.float32(shape) - np.float32(_THIRD)) if single else shape - _THIRD
    c = 1 / math.sqrt(9 * d)
    while True:
        y = 0.0
        while y <= 0:
            x = uniforms.normal()
            y = 1 + c * x
        cube = y * y * y
        u = 1 - uniforms()
        square = x * x
        if u < 1 - _SQUEEZE * square * square:
            return scale * d * cube
        if math.log(u) < 0.5 * square + d * (1 - cube + math.log(cube)):
            return scale * d * cube
