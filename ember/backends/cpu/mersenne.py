"""PyTorch's CPU random numbers: the Mersenne twister mt19937, seeded and drawn as PyTorch does.

Matsumoto & Nishimura 1998, "Mersenne twister: a 623-dimensionally equidistributed uniform
pseudorandom number generator". The bits come from NumPy's MT19937, whose state this file sets and
shares. A 64-bit draw is two 32-bit draws, the first one high. Targets are filled in the order of
their memory.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ember.backends.cpu import random_kernels
from ember.backends.cpu.box_muller import BLOCK, Vector, fused, normal_blocks_double, normal_pairs
from ember.backends.cpu.random_fills import RandomFills, Uniforms, affine, memory_order
from ember.errors import check

STATE_BYTES = 5056
_WORDS = 624
_FEW = 256  # draws up to here are cheaper through NumPy's plain interface
_STATE = np.dtype(
    {
        "names": ["seed", "left", "seeded", "next", "words", "spare", "has_spare"],
        "formats": ["<u8", "<i4", "<i4", "<u8", ("<u8", _WORDS), "<f8", "<i4"],
        "offsets": [0, 8, 12, 16, 24, 5024, 5040],
        "itemsize": STATE_BYTES,
    }
)


class _TwisterMemory(ctypes.c_uint32 * (_WORDS + 1)):  # type: ignore[misc]
    """The numbers of NumPy's twister, then the position among them, where NumPy has them."""

    owner: Any


class Mersenne(RandomFills):
    """One stream of PyTorch's CPU numbers.

    `words` (624 numbers, then the position among them) is the twister's live memory as an ndarray;
    with the `spare` normal that an odd draw leaves over, and whether the stream is `fresh`, it is
    all the state there is.
    """

    def __init__(self, seed: int):
        import numpy.random  # not loaded by `import numpy`, nor by `import ember`

        self._twister = numpy.random.MT19937(0)
        self._draws = numpy.random.Generator(self._twister)
        self._seeder = numpy.random.RandomState(self._twister)
        memory = _TwisterMemory.from_address(self._twister.ctypes.state_address)
        memory.owner = self._twister  # whoever holds `words` keeps the memory behind them
        self.words: Vector = np.frombuffer(memoryview(memory), np.uint32)
        self.spare: float | None = None
        self.fresh = True  # nothing drawn since it was seeded
        self.seed(seed)
        self._pairs_are_high_first = self._check_pairs()

    def seed(self, seed: int) -> None:
        """Start again from a 64-bit seed; the twister takes its lower 32 bits."""
        self.initial = seed
        self._seeder.seed(seed & 0xFFFFFFFF)
        self.spare, self.fresh = None, True

    def _check_pairs(self) -> bool:
        """Whether NumPy composes 64 bits as PyTorch does (C leaves the order to the compiler)."""
        before = self.words.copy()
        pair = int(self._draws.integers(0, 1 << 64, 1, np.uint64)[0])
        self.words[:] = before
        high = int(self._twister.random_raw())
        self.words[:] = before
        return pair >> 32 == high

    # state

    def state(self) -> Vector:
        """The state in the 5056 bytes that torch.get_rng_state() gives."""
        record = np.zeros((), _STATE)
        position = int(self.words[_WORDS])
        if self.fresh and position == _WORDS:
            record["left"], record["next"] = 1, 0
        else:
            record["left"], record["next"] = _WORDS + 1 - position, position
        record["seed"], record["seeded"], record["words"] = self.initial, 1, self.words[:_WORDS]
        if self.spare is not None:
            record["spare"], record["has_spare"] = self.spare, 1
        return np.frombuffer(record.tobytes(), np.uint8).copy()

    def set_state(self, state: Vector) -> None:
        """Continue from a state; RuntimeError for bytes that are none."""
        check(
            state.size == STATE_BYTES,
            RuntimeError,
            f"Expected a CPUGeneratorImplState of size {STATE_BYTES} but found the input RNG "
            "state size to be "
            f"{state.size}",
        )
        record = np.frombuffer(np.ascontiguousarray(state).tobytes(), _STATE)[0]
        left, following = int(record["left"]), int(record["next"])
        check(
            record["seeded"] == 1 and 0 < left <= _WORDS and following <= _WORDS,
            RuntimeError,
            "Invalid mt19937 state",
        )
        self.initial = int(record["seed"])
        self.words[:_WORDS] = record["words"].astype(np.uint32)
        self.words[_WORDS] = _WORDS if left == 1 else following
        self.fresh = following == 0
        self.spare = float(record["spare"]) if record["has_spare"] else None

    # draws

    def bits32(self, count: int) -> Vector:
        """The next `count` random uint32 numbers."""
        self.fresh = self.fresh and not count
        if count <= _FEW:
            return self._twister.random_raw(count).astype(np.uint32)
        return self._draws.integers(0, 1 << 32, count, np.uint32)

    def bits64(self, count: int) -> Vector:
        """The next `count` random uint64 numbers."""
        self.fresh = self.fresh and not count
        if count > _FEW and self._pairs_are_high_first:
            return self._draws.integers(0, 1 << 64, count, np.uint64)
        words = np.asarray(self._twister.random_raw(2 * count))
        return (words[0::2] << np.uint64(32)) | words[1::2]

    def skip(self, count: int) -> None:
        """Pass over the next `count` random uint32 numbers."""
        self.fresh = self.fresh and not count
        self._twister.random_raw(count, output=False)

    def normals(self, count: int) -> Vector:
        """The next `count` standard normals in float64; an odd one is kept for the next call."""
        values = np.empty(count)
        filled = 0
        if self.spare is not None and count:
            values[0], self.spare, filled = self.spare, None, 1
        pairs = (count - filled + 1) // 2
        uniform = self.doubles(2 * pairs)
        if pairs <= _FEW // 16:
            numbers = uniform.tolist()
            drawn: Any = [x for i in range(0, 2 * pairs, 2) for x in _pair(*numbers[i : i + 2])]
        else:
            drawn = normal_pairs(uniform)
        values[filled:] = drawn[: count - filled]
        if 2 * pairs > count - filled:
            self.spare = float(drawn[-1])
        return values

    def ordered(self, array: Vector) -> Vector:
        """The target with its dims in the order of its memory: that is the order of the draws."""
        return array if array.flags.c_contiguous else array.transpose(memory_order(array))

    def normal(self, out: Vector, mean: float, std: float) -> None:
        """Fill with normals.

        Contiguous targets from 16 elements on are filled in blocks of 16, a rest by drawing the
        last 16 elements anew; others one by one.
        """
        if out.size < BLOCK or not out.flags.c_contiguous:
            self._store(out, affine(self.normals(out.size), mean, std))
        elif out.dtype == np.float64:
            drawn = self.doubles(out.size)
            values = self._blocks(drawn, out.size, self.doubles, normal_blocks_double)
            self._store(out, affine(values, mean, std))
        else:  # half precision draws nothing for the part of a block that is drawn anew
            count = out.size if out.dtype == np.float32 else out.size // BLOCK * BLOCK
            drawn = self.bits32(count)
            values = self._blocks(drawn, out.size, self.bits32, random_kernels.normal_blocks)
            if (mean, std) != (0.0, 1.0):
                values = fused(values, np.float32(std), np.float32(mean))
            self._store(out, values)

    def _blocks(self, drawn: Vector, count: int, draw: Any, transform: Any) -> Vector:
        """`count` normals: full blocks of what is drawn; the last 16 anew if some are left over."""
        full = count // BLOCK * BLOCK
        if full == count:
            return np.asarray(transform(drawn))
        values: Vector = transform(np.concatenate((drawn[:full], draw(BLOCK))))
        last = values[full:].copy()
        values = values[:count]
        values[-BLOCK:] = last
        return values

    def permutation(self, count: int) -> Vector:
        """0 ... count − 1 in PyTorch's random order: the Fisher-Yates shuffle from the front."""
        values = np.arange(count)
        if count > 1:
            first = np.arange(count - 1)
            wide = count >= _WIDE_PERMUTATION
            bits = self.bits64(count - 1) if wide else self.bits32(count - 1)
            partners = (bits % (count - first).astype(bits.dtype)).astype(np.int64)
            partners += first
            random_kernels.shuffle(values, partners)
        return values

    def each(self, sample: Callable[[Uniforms, int], float], count: int) -> Vector:
        """sample(uniforms, i) for every i below count, one after the other on this stream."""
        uniforms = _Stream(self)
        try:
            return np.array([sample(uniforms, i) for i in range(count)], np.float64)
        finally:
            uniforms.close()


_WIDE_PERMUTATION = ((1 << 32) - 1) // 20  # from here on a 32-bit remainder would be visibly uneven


def _pair(angle: float, radius: float) -> tuple[float, float]:
    """Two normals of two uniforms, by the C library's functions."""
    length = math.sqrt(-2 * math.log1p(-radius))
    return length * math.cos(2 * math.pi * angle), length * math.sin(2 * math.pi * angle)


class _Stream:
    """Uniforms one by one, drawn ahead; `close` takes back those that were not used."""

    def __init__(self, source: Mersenne):
        self._source = source
        self._before = source.words.copy(), source.fresh
        self._used, self._drawn = 0, 0
        self._ahead: Iterator[float] = iter(())

    def __call__(self) -> float:
        """The next uniform in [0, 1)."""
        for value in self._ahead:
            self._used += 1
            return value
        self._drawn = min(2 * self._drawn + 64, 1 << 16)
        self._ahead = iter(self._source.doubles(self._drawn).tolist())
        return self()

    def normal(self) -> float:
        """The next standard normal; every second one was kept from the pair before."""
        source = self._source
        if source.spare is not None:
            value, source.spare = source.spare, None
            return value
        angle = self()
        value, source.spare = _pair(angle, self())
        return value

    def close(self) -> None:
        """Leave the source as if only the used numbers had been drawn."""
        self._source.words[:], self._source.fresh = self._before
        self._source.skip(2 * self._used)
