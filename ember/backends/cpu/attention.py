"""Attention by tiles of queries: the scores of a tile stay in the cache, and of all that they are
only the log of each row's sum is kept (Dao et al., arXiv:2205.14135). In single precision it is
compiled; here are double precision, and what is too small to be worth that."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ember.backends.cpu import compiled_attention, threads
from ember.backends.cpu.row_formulas import NDArray, RowFormula
from ember.scalar.expr import Expr, var
from ember.scalar.primitives import exp, log, row_max, row_sum, where

TILE_BYTES = 256 << 10  # of scores
SMALL_BYTES = 32 << 10  # of the scores of a head that is computed together with others
LEAST_ROWS, MOST_ROWS = 16, 128  # of a tile
CAUSAL_ROWS = 64  # of a tile that leaves out the keys after it

LEAST_EXPONENT = -87.0  # exp of less is no normal number: taken as 0, which is fast


def _exp(x: Expr) -> Expr:
    return where(x < LEAST_EXPONENT, 0.0, exp(where(x < LEAST_EXPONENT, LEAST_EXPONENT, x)))


_x = var("x")
_e = _exp(_x - row_max(_x))
SOFTMAX = RowFormula((_e / row_sum(_e), row_max(_x) + log(row_sum(_e))), columns=(1,))
WEIGHTS = RowFormula((_exp(_x - var("log_sum")),), narrow=("log_sum",))
SLOPES = RowFormula((var("p") * (_x - var("mean")),), narrow=("mean",))


def _heads(x: NDArray) -> NDArray:
    """The matrices of x as (heads, rows, columns), each row dense."""
    x = x.reshape(-1, *x.shape[-2:])
    return x if x.strides[-1] == x.itemsize else np.ascontiguousarray(x)


def _tiles(
    queries: int, keys: int, is_causal: bool, itemsize: int
) -> Iterator[tuple[int, int, int]]:
    """First and last query of each tile, and how many keys it attends to."""
    rows = min(MOST_ROWS, max(LEAST_ROWS, TILE_BYTES // (keys * itemsize)))
    if is_causal:
        rows = min(rows, CAUSAL_ROWS)
    for begin in range(0, queries, rows):
        end = min(begin + rows, queries)
        yield begin, end, min(keys, end) if is_causal else keys


def _run(formula: RowFormula, operands: tuple[NDArray, ...], results: tuple[NDArray, ...]) -> None:
    formula.evaluated(operands[0].dtype)(operands, results)


def _hidden() -> NDArray:
    """Which scores do not count where a tile's queries meet its own keys: those of later ones."""
    return np.triu(np.ones((CAUSAL_ROWS, CAUSAL_ROWS), np.bool_), 1)


def _multiply(a: NDArray, b: NDArray, out: NDArray, *, adds: bool = False) -> None:
    """out = a b, or out += a b, for the matrices of some heads."""
    if adds:
        out += np.matmul(a, b)
    else:
        np.matmul(a, b, out=out)


def _groups(begin: int, end: int, q: NDArray, keys: int, is_causal: bool) -> Iterator[slice]:
    """Heads that are computed together: several where all of a head is one small tile."""
    size = q.shape[1] * keys * q.itemsize
    one = q.shape[1] <= (CAUSAL_ROWS if is_causal else MOST_ROWS)
    several = max(1, TILE_BYTES // size) if one and size <= SMALL_BYTES else 1
    for first in range(begin, end, several):
        yield slice(first, min(first + several, end))


def _turned(x: NDArray) -> NDArray:
    return np.ascontiguousarray(x.swapaxes(1, 2))


def _scores(
    q: NDArray, turned: NDArray, tile: tuple[int, int, int], hidden: NDArray | None
) -> NDArray:
    """Scores of a tile by scaled queries and the turned keys (heads, E, S)."""
    begin, end, count = tile
    scores = np.empty((len(q), end - begin, count), q.dtype)
    _multiply(q[:, begin:end], turned[:, :, :count], scores)
    if hidden is not None and begin < count:
        own = scores[:, :, begin:]
        np.copyto(own, own.dtype.type(-np.inf), where=hidden[: end - begin, : count - begin])
    return scores


def attention(
    query: NDArray, key: NDArray, value: NDArray, is_causal: bool, scale: float
) -> tuple[NDArray, NDArray]:
    """softmax(Q Kᵀ · scale) V of (..., L, E), (..., S, E), (..., S, Ev), and the log of the sum of
    each row's exponentials."""
    if compiled_attention.is_compiled(query, key):
        shape, kind = query.shape[:-1], np.float32
        made_out, sums = np.empty((*shape, value.shape[-1]), kind), np.empty(shape, kind)
        compiled_attention.forward(query, key, value, is_causal, scale, (made_out, sums))()
        return made_out, sums
    q, k, v = _heads(query), _heads(key), _heads(value)
    out = np.empty((*query.shape[:-1], value.shape[-1]), query.dtype)
    log_sums = np.empty(query.shape[:-1], query.dtype)
    made, kept = out.reshape(len(q), *out.shape[-2:]), log_sums.reshape(len(q), -1, 1)
    hidden = _hidden() if is_causal else None

    def part(first: int, last: int) -> None:
        for heads in _groups(first, last, q, k.shape[1], is_causal):
            scaled, turned = q[heads] * q.dtype.type(scale), _turned(k[heads])
            for tile in _tiles(q.shape[1], k.shape[1], is_causal, q.itemsize):
                begin, end, count = tile
                scores = _scores(scaled, turned, tile, hidden)
                flat = scores.reshape(-1, count)
                _run(SOFTMAX, (flat,), (flat, kept[heads, begin:end].reshape(-1, 1)))
                _multiply(scores, v[heads, :count], made[heads, begin:end])

    threads.split(part, len(q), 1)
    return out, log_sums


def attention_backward(
    g: NDArray,
    query: NDArray,
    key: NDArray,
    value: NDArray,
    out: NDArray,
    log_sums: NDArray,
    is_causal: bool,
    scale: float,
) -> tuple[NDArray, NDArray, NDArray]:
    """The gradients by query, key and value."""
    if compiled_attention.is_compiled(query, key):
        size = query.shape, key.shape, value.shape
        grads = np.empty(size[0], g.dtype), np.empty(size[1], g.dtype), np.empty(size[2], g.dtype)
        sums = np.ascontiguousarray(log_sums)
        how = is_causal, scale, grads
        compiled_attention.backward(g, query, key, value, out, sums, *how)()
        return grads
    q, k, v, slope, made = (_heads(x) for x in (query, key, value, g, out))
    by_q, by_k, by_v = (np.empty(x.shape, x.dtype) for x in (query, key, value))
    pairs = zip((by_q, by_k, by_v), (q, k, v), strict=True)
    dq, dk, dv = (d.reshape(x.shape) for d, x in pairs)
    kept, factor = log_sums.reshape(len(q), -1, 1), q.dtype.type(scale)
    hidden = _hidden() if is_causal else None

    def part(first: int, last: int) -> None:
        for heads in _groups(first, last, q, k.shape[1], is_causal):
            dk[heads], dv[heads] = 0, 0
            scaled, turned, turned_v = q[heads] * factor, _turned(k[heads]), _turned(v[heads])
            for tile in _tiles(q.shape[1], k.shape[1], is_causal, q.itemsize):
                begin, end, count = tile
                weights, own = _scores(scaled, turned, tile, hidden), slope[heads, begin:end]
                flat = weights.reshape(-1, count)
                _run(WEIGHTS, (flat, kept[heads, begin:end].reshape(-1, 1)), (flat,))
                _multiply(weights.swapaxes(1, 2), own, dv[heads, :count], adds=True)
                by_weight = np.empty_like(weights)
                _multiply(own, turned_v[:, :, :count], by_weight)
                mean = np.einsum("hij,hij->hi", own, made[heads, begin:end]).reshape(-1, 1)
                changes = by_weight.reshape(-1, count)
                named = {"p": flat, "x": changes, "mean": mean}
                _run(SLOPES, tuple([named[n] for n in SLOPES.names]), (changes,))
                _multiply(by_weight, k[heads, :count], dq[heads, begin:end])
                turned_changes = by_weight.swapaxes(1, 2)
                _multiply(turned_changes, scaled[:, begin:end], dk[heads, :count], adds=True)
            dq[heads] *= factor

    threads.split(part, len(q), 1)
    return by_q, by_k, by_v
