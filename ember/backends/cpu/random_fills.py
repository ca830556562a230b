"""The distributions: random bits become numbers of a distribution, written into an ndarray.

`RandomFills` is everything that PyTorch's CPU generator and the counter-based generator of GPUs
share; they bring the bits. Formulas, roundings and numbers of bits are PyTorch's. Targets may have
any strides and any floating-point, integer or bool dtype; half-precision targets get numbers
computed in float32 and rounded.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ember.backends.cpu import rejection
from ember.backends.cpu.box_muller import PIECE, Vector, fused_double
from ember.errors import check
from ember.kernel.array import Array

WIDE_RANGE = 1 << 28  # integers of a range from here on take 64 random bits
DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}  # of the significand

_LOW_24, _UNIT_24 = np.uint32(0xFFFFFF), np.float32(2.0**-24)
_LOW_53, _UNIT_53 = np.uint64((1 << 53) - 1), np.float64(2.0**-53)

Uniforms = rejection.Uniforms


class RandomFills(ABC):
    """A source of random bits, and the distributions made of them."""

    @abstractmethod
    def bits32(self, count: int) -> Vector:
        """The next `count` random uint32 numbers."""

    @abstractmethod
    def bits64(self, count: int) -> Vector:
        """The next `count` random uint64 numbers."""

    @abstractmethod
    def normals(self, count: int) -> Vector:
        """The next `count` standard normals in float64, drawn one by one."""

    @abstractmethod
    def normal(self, out: Vector, mean: float, std: float) -> None:
        """Fill with normals of a mean and a standard deviation."""

    @abstractmethod
    def permutation(self, count: int) -> Vector:
        """0 ... count − 1 in random order, int64."""

    @abstractmethod
    def each(self, sample: Callable[[Uniforms, int], float], count: int) -> Vector:
        """sample(uniforms, i) for every i below count; `uniforms` gives the draws of element i."""

    def ordered(self, array: Vector) -> Vector:
        """A view of a target whose row-major order is the order of the draws."""
        return array

    def fill(self, target: Array, distribution: str, *parameters: Any) -> None:
        """Fill an array from a distribution, a method here; parameters are numbers and arrays.

        Both parts of complex elements are drawn. This is all that ops call: a backend whose memory
        the host does not see overrides it.
        """
        kernels = getattr(target.storage.buffer, "kernels", None)
        if kernels is not None:
            given = [kernels.to_host(p) if isinstance(p, Array) else p for p in parameters]
            kernels.through_host(target, lambda host: self.fill(host, distribution, *given))
            return
        out = target.host()
        if out.dtype.kind == "c":
            out = parts_of(out)
        if parameters and isinstance(parameters[0], Array):
            parameters = tuple(p.host() for p in parameters)
        getattr(self, distribution)(out, *parameters)

    def permute(self, out: Vector) -> None:
        """Fill a vector with 0 ... n − 1 in random order."""
        out[...] = self.permutation(out.size)

    def doubles(self, count: int) -> Vector:
        """The next `count` float64 uniforms in [0, 1), multiples of 2⁻⁵³."""
        bits = self.bits64(count)
        bits &= _LOW_53
        return bits.view(np.int64) * _UNIT_53

    def uniform(self, out: Vector, low: float, high: float) -> None:
        """Fill with uniforms in [low, high); a number that rounds to `high` becomes `low`."""
        if out.dtype == np.float64:
            values = self.doubles(out.size)
            if (low, high) != (0.0, 1.0):
                values = fused_double(values, high - low, low)
                values[values == high] = low
            self._store(out, values)
            return
        direct = out.dtype == np.float32 and out.flags.c_contiguous
        values = out.reshape(-1) if direct else np.empty(out.size, np.float32)
        bits = self.bits32(out.size)
        bits &= _LOW_24
        whole = bits.view(np.int32)
        if (low, high) == (0.0, 1.0):
            np.multiply(whole, _UNIT_24, out=values, dtype=np.float32, casting="unsafe")
            if direct:
                return
        else:  # the fused low + u·(high − low) in float32: the product is exact in float64
            low32 = np.float32(low)
            step = np.float64(np.float32(high) - low32) * 2.0**-24
            for start in range(0, out.size, PIECE):
                piece = whole[start : start + PIECE] * step
                piece += np.float64(low32)
                values[start : start + PIECE] = piece
        rounded = values.astype(out.dtype, copy=False)
        low_rounded, high_rounded = np.array([low, high], np.float32).astype(out.dtype)
        at_end = rounded == high_rounded
        if at_end.any():
            rounded[at_end] = low_rounded
        if not direct:
            self._store(out, rounded)

    def integers(self, out: Vector, low: int, span: int) -> None:
        """Fill with integers low ... low + span − 1; span = 2⁶⁴ takes all bits as they are."""
        bits = self.bits32(out.size) if span < WIDE_RANGE else self.bits64(out.size)
        if span < 1 << 64:
            bits %= bits.dtype.type(span)
        if low and span < 1 << 64:
            whole = bits.astype(np.int64)
            whole += low
            bits = whole
        self._store(out, bits if bits.dtype != np.uint64 else bits.view(np.int64))

    def integers_of_type(self, out: Vector) -> None:
        """Fill with what `random_()` draws: all numbers from 0 that the dtype holds exactly."""
        name = out.dtype.name
        if name in DIGITS:
            digits = DIGITS[name]
            bits = self.bits64(out.size) if digits == 53 else self.bits32(out.size)
            self._store(out, bits % bits.dtype.type((1 << digits) + 1))
            return
        if name == "bool":
            self._store(out, self.bits32(out.size) & np.uint32(1))
            return
        kept = (1 << (8 * out.dtype.itemsize - (out.dtype.kind == "i"))) - 1
        bits = self.bits64(out.size) if out.dtype.itemsize == 8 else self.bits32(out.size)
        bits &= bits.dtype.type(kept)
        self._store(out, bits)

    def bernoulli(self, out: Vector, probability: float) -> None:
        """Fill with 1 with a probability, else 0."""
        bits = self.bits64(out.size)
        bits &= _LOW_53
        self._store(out, bits < np.uint64(math.ceil(probability * 2.0**53)))

    def bernoulli_each(self, out: Vector, probabilities: Vector) -> None:
        """Fill with 1 with each element's own probability; broadcast over `out`."""
        right = (probabilities >= 0) & (probabilities <= 1)
        text = "Expected p_in >= 0 && p_in <= 1 to be true, but got false."
        check(right.all(), RuntimeError, text)
        target = self.ordered(out)
        wanted = np.broadcast_to(probabilities, out.shape)
        wanted = wanted if target is out else _like(out, wanted)
        if probabilities.dtype == np.float64:
            drawn = self.doubles(out.size)
        else:
            bits = self.bits32(out.size)
            bits &= _LOW_24
            drawn = bits.view(np.int32).astype(np.float32) * _UNIT_24
            wanted = wanted.astype(np.float32, copy=False)
        target[...] = drawn.reshape(target.shape) < wanted

    def exponential(self, out: Vector, rate: float) -> None:
        """Fill with −log(1 − u)/rate."""
        values = np.log1p(-self.doubles(out.size))
        values /= -rate
        values += 0.0  # −0 becomes 0
        self._store(out, values)

    def geometric(self, out: Vector, probability: float) -> None:
        """Fill with the number of trials up to the first success: ⌈log u / log(1 − p)⌉."""
        values = np.log(self.doubles(out.size))
        values /= math.log(1 - probability)
        self._store(out, np.ceil(values, out=values))

    def log_normal(self, out: Vector, mean: float, std: float) -> None:
        """Fill with exp of normals."""
        self._store(out, np.exp(affine(self.normals(out.size), mean, std)))

    def cauchy(self, out: Vector, median: float, sigma: float) -> None:
        """Fill with median + sigma·tan(π(u − ½))."""
        values = np.tan(math.pi * (self.doubles(out.size) - 0.5))
        self._store(out, median + sigma * values)

    def poisson(self, out: Vector, rates: Vector) -> None:
        """Fill with counts of the given rates. RuntimeError for negative ones."""
        right = (rates >= 0).all()
        check(right, RuntimeError, "invalid Poisson rate, expected rate to be non-negative")
        self._each(out, rejection.poisson, rates)

    def binomial(self, out: Vector, counts: Vector, probabilities: Vector) -> None:
        """Fill with the successes of `counts` trials."""
        single = out.dtype != np.float64

        def sample(uniforms: Uniforms, n: float, p: float) -> float:
            return rejection.binomial(uniforms, n, p, single)

        self._each(out, sample, counts, probabilities)

    def standard_gamma(self, out: Vector, shapes: Vector) -> None:
        """Fill with gamma numbers of scale 1, none below the smallest normal number."""
        single = out.dtype != np.float64

        def sample(uniforms: Uniforms, shape: float) -> float:
            return rejection.gamma(uniforms, shape, single)

        self._each(out, sample, shapes)
        np.maximum(out, np.finfo(out.dtype).tiny, out=out)

    def dirichlet(self, out: Vector, concentrations: Vector) -> None:
        """Fill rows (the last dim) with gamma numbers, none quite 0, over their sum."""
        shapes = concentrations.astype(np.float64)
        gammas = np.empty(out.shape)
        self._each(gammas, lambda uniforms, shape: rejection.gamma(uniforms, shape, False), shapes)
        np.maximum(gammas, np.finfo(np.float64).tiny, out=gammas)
        total = np.zeros(out.shape[:-1])
        for column in range(out.shape[-1]):
            total += gammas[..., column]
        info = np.finfo(out.dtype)
        out[...] = np.clip(gammas / total[..., None], info.tiny, 1 - info.eps / 2)

    def race(self, out: Vector, weights: Vector) -> None:
        """Fill rows with different indices: the greatest of weight/exponential number first."""
        right = (weights >= 0) & (weights < np.inf)
        text = "probability tensor contains either `inf`, `nan` or element < 0"
        check(right.all(), RuntimeError, text)
        _check_sums(weights)
        times = np.empty_like(weights)
        self.exponential(times, 1.0)
        speed = (weights / times).astype(np.float64)
        if out.shape[-1] == 1:
            out[...] = speed.argmax(axis=-1, keepdims=True)
        else:
            out[...] = np.argsort(-speed, axis=-1, kind="stable")[..., : out.shape[-1]]

    def choices(self, out: Vector, weights: Vector) -> None:
        """Fill rows with indices drawn with replacement, in proportion to rows of weights."""
        text = "invalid multinomial distribution (encountering probability entry"
        check((weights >= 0).all(), RuntimeError, f"{text} < 0)")
        check((weights < np.inf).all(), RuntimeError, f"{text} = infinity or NaN)")
        _check_sums(weights)
        exact = weights.astype(np.float64) if weights.dtype.itemsize < 4 else weights
        rows = exact.reshape(-1, weights.shape[-1])
        cumulative = np.cumsum(rows, axis=-1)
        cumulative /= cumulative[:, -1:]
        drawn = self.doubles(out.size).reshape(len(rows), out.shape[-1])
        found = np.empty(drawn.shape, np.int64)
        for row in range(len(rows)):
            found[row] = np.searchsorted(cumulative[row], drawn[row], side="left")
        out[...] = np.minimum(found, weights.shape[-1] - 1).reshape(out.shape)

    def _each(self, out: Vector, sample: Callable[..., float], *parameters: Vector) -> None:
        target = self.ordered(out)
        lists = [
            (p if target is out else _like(out, p)).astype(np.float64).reshape(-1).tolist()
            for p in parameters
        ]

        def one(uniforms: Uniforms, i: int) -> float:
            return sample(uniforms, *(values[i] for values in lists))

        target[...] = self.each(one, out.size).reshape(target.shape).astype(out.dtype)

    def _store(self, out: Vector, values: Vector) -> None:
        """Write draws, in their order, with C's casts (to half precision by way of float32)."""
        half = out.dtype.itemsize == 2 and out.dtype.kind not in "iu"
        if half and values.dtype.itemsize == 8:
            values = values.astype(np.float32)
        elif values.dtype == np.float64:
            if out.dtype.kind in "iu":
                values = values.astype(np.int64)
        target = self.ordered(out)
        np.copyto(target, values.reshape(target.shape), casting="unsafe")


def affine(values: Vector, mean: float, std: float) -> Vector:
    """values·std + mean, rounded once."""
    return values + 0.0 if (mean, std) == (0.0, 1.0) else fused_double(values, std, mean)


def _check_sums(weights: Vector) -> None:
    some = (weights > 0).any(axis=-1).all()
    check(some, RuntimeError, "invalid multinomial distribution (sum of probabilities <= 0)")


def memory_order(array: Vector) -> tuple[int, ...]:
    """The dims from the greatest stride to the smallest."""
    return tuple(sorted(range(array.ndim), key=lambda dim: -array.strides[dim]))


def _like(out: Vector, values: Vector) -> Vector:
    """`values` with its dims in the order of the memory of `out`."""
    return values.transpose(memory_order(out))


def parts_of(array: Vector) -> Vector:
    """The real and imaginary parts of a complex array as a view with one more dim of size 2."""
    real = array.real
    strides = (*array.strides, real.itemsize)
    return np.lib.stride_tricks.as_strided(real, (*array.shape, 2), strides)
