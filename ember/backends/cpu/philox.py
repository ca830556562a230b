"""Random numbers of GPUs, real or simulated: Philox4x32-10, counters keyed by element.

Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3". Element i of a
fill gets word i mod 4 of the block with counter (offset/4, i div 4) under the seed as key, 64-bit
numbers two words (the first one high); each fill moves the offset on. So an element's number
depends on the seed, the offset and the element's place in row-major order alone: not on the device,
and not on how the work is split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ember.backends.cpu import random_kernels
from ember.backends.cpu.box_muller import BLOCK, PIECE, Vector, fused, normal_pairs
from ember.backends.cpu.random_fills import RandomFills, Uniforms, affine
from ember.errors import check

STATE_BYTES = 16
ROUNDS = 10
_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
_WEYL = (0x9E3779B9, 0xBB67AE85)  # what the two words of the key grow by in each round
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
_ALL_32, _ALL_64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
_COUNTERS_OF_REJECTION = (
    1 << 16
)  # reserved for each element of a fill whose elements draw unevenly often
_AHEAD = 8  # of them, how many are drawn for all elements at once


def philox(counter: tuple[Vector, Vector, Vector, Vector], key: tuple[int, int]) -> Vector:
    """The four uint32 words of each counter; counters are four uint64 vectors of 32-bit words.
        Shape (n, 4).

    A round, for words (a, b, c, d) and key (k, l), makes the words
    (high(c·N) ^ b ^ k, low(c·N), high(a·M) ^ d ^ l, low(a·M)).
    """
    multiplied = np.stack((counter[0], counter[2]))  # a and c
    mixed = np.stack((counter[1], counter[3]))  # b and d
    for step in range(ROUNDS):
        keys = [(k + step * w) & _ALL_32 for k, w in zip(key, _WEYL)]
        product = (multiplied * _MULTIPLIERS)[::-1]
        mixed ^= np.array([[keys[0]], [keys[1]]], np.uint64)
        multiplied = product >> _SHIFT
        multiplied ^= mixed
        mixed = product & _LOW
    out = np.empty((multiplied.shape[1], 4), np.uint32)
    out[:, 0::2] = multiplied.T
    out[:, 1::2] = mixed.T
    return out


class Philox(RandomFills):
    """The stream of one GPU. All its state is `numbers`: seed and offset, two uint64."""

    def __init__(self, seed: int):
        self.numbers: Vector = np.zeros(2, np.uint64)
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Start again from a 64-bit seed, at offset 0."""
        self.numbers[:] = seed & _ALL_64, 0

    @property
    def initial(self) -> int:
        """The seed."""
        return int(self.numbers[0])

    @property
    def offset(self) -> int:
        """How far the stream is: a multiple of 4."""
        return int(self.numbers[1])

    @offset.setter
    def offset(self, offset: int) -> None:
        check(offset % 4 == 0, RuntimeError, f"offset must be a multiple of 4, but it is {offset}")
        self.numbers[1] = offset

    # state

    def state(self) -> Vector:
        """Seed and offset as 16 bytes."""
        return self.numbers.view(np.uint8).copy()

    def set_state(self, state: Vector) -> None:
        """Continue from a state; RuntimeError for bytes that are none."""
        check(
            state.size in (STATE_BYTES, STATE_BYTES // 2),
            RuntimeError,
            f"RNG state is wrong size: a GPU's has {STATE_BYTES} bytes (seed and offset), this "
            f"has {state.size}",
        )
        numbers = np.frombuffer(np.ascontiguousarray(state).tobytes(), np.uint64)
        offset = int(numbers[1]) if len(numbers) == 2 else 0
        check(offset % 4 == 0, RuntimeError, f"offset must be a multiple of 4, but it is {offset}")
        self.numbers[:] = numbers[0], offset

    # draws

    def words(self, blocks: Vector, offset: int) -> Vector:
        """The words of the blocks with these numbers at an offset, shape (len(blocks), 4)."""
        out = np.empty((len(blocks), 4), np.uint32)
        step, seed = offset // 4, self.initial
        for start in range(0, len(blocks), PIECE):
            piece = blocks[start : start + PIECE]
            low = np.full(len(piece), step & _ALL_32, np.uint64)
            high = np.full(len(piece), step >> 32, np.uint64)
            counter = (low, high, piece & _LOW, piece >> _SHIFT)
            out[start : start + PIECE] = philox(counter, (seed & _ALL_32, seed >> 32))
        return out

    def _advance(self, counters: int = 1) -> int:
        """The offset of a fill; the next one starts behind it."""
        offset = self.offset
        self.numbers[1] = np.uint64((offset + 4 * counters) & _ALL_64)
        return offset

    def bits32(self, count: int) -> Vector:
        """The random uint32 numbers of elements 0 ... count − 1."""
        blocks = np.arange((count + 3) // 4, dtype=np.uint64)
        return self.words(blocks, self._advance()).reshape(-1)[:count]

    def bits64(self, count: int) -> Vector:
        """The random uint64 numbers of elements 0 ... count − 1."""
        words = self.bits32(2 * count).astype(np.uint64)
        return (words[0::2] << _SHIFT) | words[1::2]

    def normals(self, count: int) -> Vector:
        """The float64 standard normals of elements 0 ... count − 1, each two of one pair."""
        return normal_pairs(self.doubles(count + count % 2))[:count]

    def normal(self, out: Vector, mean: float, std: float) -> None:
        """Fill with normals: of each two words one pair, the first word being the angle."""
        if out.dtype == np.float64:
            self._store(out, affine(self.normals(out.size), mean, std))
            return
        count = -(-out.size // BLOCK) * BLOCK
        pairs = self.bits32(count).reshape(-1, BLOCK // 2, 2)
        drawn = np.ascontiguousarray(pairs[:, :, ::-1].transpose(0, 2, 1)).reshape(-1)
        parts = random_kernels.normal_blocks(drawn).reshape(-1, 2, BLOCK // 2)
        values = parts.transpose(0, 2, 1).reshape(-1)[: out.size]
        if (mean, std) != (0.0, 1.0):
            values = fused(values, np.float32(std), np.float32(mean))
        self._store(out, values)

    def permutation(self, count: int) -> Vector:
        """0 ... count − 1 in the order of random numbers, whose lowest bits are the index."""
        index_bits = np.uint64(count.bit_length())
        keys = (self.bits64(count) >> index_bits << index_bits) | np.arange(count, dtype=np.uint64)
        keys.sort()
        keys &= (np.uint64(1) << index_bits) - np.uint64(1)
        return keys.view(np.int64)

    def each(self, sample: Callable[[Uniforms, int], float], count: int) -> Vector:
        """sample(uniforms, i) for every i below count, each on counters of its own."""
        offset = self._advance(_COUNTERS_OF_REJECTION)
        values = np.empty(count)
        for start in range(0, count, PIECE):
            elements = np.arange(start, min(start + PIECE, count), dtype=np.uint64)
            ahead = np.stack([self.words(elements, offset + 4 * i) for i in range(_AHEAD)], axis=1)
            for element, words in zip(elements.tolist(), ahead.reshape(len(elements), -1).tolist()):
                values[element] = sample(_Stream(self, element, offset, words), element)
        return values


class _Stream:
    """The uniforms of one element: the blocks with its number at one offset after the other."""

    def __init__(self, source: Philox, element: int, offset: int, ahead: list[int]):
        self._numbers = self._draw(source, element, offset, ahead)
        self._spare: float | None = None

    @staticmethod
    def _draw(source: Philox, element: int, offset: int, words: list[int]) -> Iterator[float]:
        while True:
            for high, low in zip(words[0::2], words[1::2]):
                yield (((high << 32) | low) & ((1 << 53) - 1)) * 2.0**-53
            offset += len(words)
            words = source.words(np.array([element], np.uint64), offset)[0].tolist()

    def __call__(self) -> float:
        """The next uniform in [0, 1)."""
        return next(self._numbers)

    def normal(self) -> float:
        """The next standard normal."""
        if self._spare is not None:
            value, self._spare = self._spare, None
            return value
        first, second = normal_pairs(np.array([self(), self()]))
        self._spare = float(second)
        return float(first)
