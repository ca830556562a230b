"""`torch.quasirandom`: Sobol' sequences, points that fill the unit cube more evenly than random.

Sobol' 1967; the direction numbers are those of Joe & Kuo 2008, "Constructing Sobol sequences with
better two-dimensional projections", which SciPy brings; the scrambling is a random lower triangular
matrix and a digital shift (Matoušek 1998, "On the L2-discrepancy for anchored boxes").
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ember import ops
from ember.core.generator import Generator
from ember.core.modes import get_default_dtype
from ember.core.tensor import Tensor
from ember.dtypes import dtype as DType
from ember.dtypes import float32, float64
from ember.errors import check

__all__ = ["SobolEngine"]

_PLACES = np.arange(29, -1, -1)  # of the bits of a number, the highest first


class SobolEngine:
    """The points of a Sobol' sequence, in order: the same as PyTorch's, also for the same seed.

    A scrambled sequence without a seed is drawn from the default generator. ValueError for a
    dimension that is not in 1 ... 21201.

    >>> import ember as torch
    >>> torch.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        check(
            1 <= dimension <= self.MAXDIM,
            ValueError,
            f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]",
        )
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        numbers, shift = _direction_numbers(dimension), np.zeros(dimension, np.int64)
        if scramble:
            numbers, shift = _scrambled(numbers, seed)
        self.sobolstate = ops.from_numpy(numbers)
        self.shift = ops.from_numpy(shift)
        self.quasi = self.shift.clone()
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next `n` points, (n, dimension), of the default dtype or another floating-point one.

        NotImplementedError for other dtypes than float32 and float64.
        """
        kind = get_default_dtype() if dtype is None else dtype
        check(
            kind in (float32, float64),
            NotImplementedError,
            f"\"_sobol_engine_draw\" not implemented for '{kind.title}'",
        )
        check(n >= 0, RuntimeError, f"Trying to create tensor with negative dimension {n}")
        points = ops.from_numpy(self._next(n)).to(kind) * 2.0**-self.MAXBIT
        if out is None:
            return points
        return out.resize_(points.shape).copy_(points)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next 2^m points; ValueError unless all so far are a power of 2: then they balance."""
        n = 2**m
        total = self.num_generated + n
        check(
            total & (total - 1) == 0,
            ValueError,
            "The balance properties of Sobol' points require n to be a power of 2. "
            f"{self.num_generated} points have been previously generated, then: "
            f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
            "'SobolEngine.draw()' instead.",
        )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Start the sequence again."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next `n` points."""
        self._next(n)
        return self

    def _next(self, n: int) -> np.ndarray[Any, Any]:
        """The next points as integers; each differs from the one before in one direction number.

        Which one: that of the lowest 0 among the bits of the earlier point's number (a Gray code).
        """
        first = self.num_generated
        points = np.empty((n, self.dimension), np.int64)
        if n == 0:
            return points
        numbers = self.sobolstate.numpy()
        before = np.arange(max(first, 1) - 1, first + n - 1)
        changed = numbers.T[np.bitwise_count(before & ~(before + 1))]
        last = self.quasi.numpy()
        points[n - len(changed) :] = changed
        if first == 0:
            points[0] = last
        else:
            points[0] ^= last
        np.bitwise_xor.accumulate(points, axis=0, out=points)
        last[:] = points[-1]
        self.num_generated += n
        return points

    def __repr__(self) -> str:
        texts = [f"dimension={self.dimension}"]
        if self.scramble:
            texts.append("scramble=True")
        if self.seed is not None:
            texts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(texts)})"


def _direction_numbers(dimension: int) -> np.ndarray[Any, Any]:
    """(dimension, 30) integers of 30 bits."""
    from scipy.stats import qmc

    engine = qmc.Sobol(dimension, scramble=False, bits=SobolEngine.MAXBIT)
    return np.asarray(engine._sv, np.int64)


def _scrambled(numbers: Any, seed: int | None) -> tuple[Any, Any]:
    """The direction numbers times random lower triangular matrices of bits, and a random shift."""
    dimension, bits = numbers.shape
    generator = None if seed is None else Generator().manual_seed(seed)
    digits = ops.randint(2, (dimension, bits), generator=generator).numpy()
    matrices = ops.randint(2, (dimension, bits, bits), generator=generator).numpy()
    matrices = np.tril(matrices, -1) | np.eye(bits, dtype=np.int64)
    columns = (numbers[:, :, None] >> _PLACES) & 1
    products = np.matmul(columns, matrices.transpose(0, 2, 1)) & 1
    return (products << _PLACES).sum(-1), (digits << np.arange(bits)).sum(-1)
