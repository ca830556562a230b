"""Connectionist temporal classification (Graves et al., 2006): the recursions over steps, forward
and backward, on logarithms.

Labels stand between blanks, (N, W); `may_skip` says where a label may follow the one before the
blank before it. All sums are made in the dtype of `log_probs`, in the order in which PyTorch makes
them: rounding at the size of the loss is what float32 gradients owe their last digits to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
NOTHING = -np.inf


def ctc(
    log_probs: Array, labels: Array, may_skip: Array, input_lengths: Array, target_lengths: Array
) -> tuple[Array, Array]:
    """−log p(labels) of each sequence (N), and log p of each beginning that ends at a label (T, N,
    W)."""
    steps, batch, _ = log_probs.shape
    width = labels.shape[1]
    emitted = np.take_along_axis(log_probs, labels[None], 2)
    alpha = np.full((steps, batch, width + 2), NOTHING, log_probs.dtype)
    alpha[0, :, 2:4] = emitted[0, :, :2]
    for t in range(1, steps):
        before = alpha[t - 1]
        skipped = np.where(may_skip, before[:, :-2], NOTHING)
        alpha[t, :, 2:] = _log_sum(before[:, 2:], before[:, 1:-1], skipped) + emitted[t]
    rows, ends = np.arange(batch), np.maximum(input_lengths - 1, 0)
    last = 2 * target_lengths
    final, earlier = alpha[ends, rows, last + 2], alpha[ends, rows, last + 1]
    return -_log_sum(final, earlier), np.ascontiguousarray(alpha[:, :, 2:])


def ctc_backward(
    grad: Array,
    log_probs: Array,
    labels: Array,
    may_skip: Array,
    input_lengths: Array,
    target_lengths: Array,
    loss: Array,
    alpha: Array,
) -> Array:
    """The gradient by scores whose `log_softmax` the log_probs are: p − (share of the paths through
    a class at a step), times `grad`; 0 beyond a sequence's end."""
    batch = log_probs.shape[1]
    through = alpha + _endings(log_probs, labels, may_skip, input_lengths, target_lengths)
    shares = np.full(log_probs.shape, NOTHING, log_probs.dtype)
    rows = np.arange(batch)
    for place in reversed(range(labels.shape[1])):
        column = labels[:, place]
        shares[:, rows, column] = _log_sum(shares[:, rows, column], through[:, :, place])
    with np.errstate(all="ignore"):
        slope = _exp(log_probs) - _exp((shares + loss[None, :, None]) - log_probs)
        found = slope * grad[None, :, None]
    counted = (np.arange(len(log_probs))[:, None] < input_lengths) & (grad != 0)
    return np.where(counted[:, :, None], found, np.zeros((), log_probs.dtype))


def _endings(
    log_probs: Array, labels: Array, may_skip: Array, input_lengths: Array, target_lengths: Array
) -> Array:
    """log p of each rest that begins at a label (T, N, W)."""
    steps, batch, _ = log_probs.shape
    width = labels.shape[1]
    emitted = np.take_along_axis(log_probs, labels[None], 2)
    beta: Array = np.full((steps, batch, width + 2), NOTHING, log_probs.dtype)
    place, last = np.arange(width), 2 * target_lengths[:, None]
    is_end = (place == last) | (place == last - 1)
    leaps = np.zeros((batch, width), bool)
    leaps[:, :-2] = may_skip[:, 2:]
    for t in reversed(range(steps)):
        if t + 1 < steps:
            after: Array = beta[t + 1]
            leap = np.where(leaps, after[:, 2:], NOTHING)
            own = _log_sum(after[:, :-2], after[:, 1:-1], leap) + emitted[t]
            beta[t, :, :-2] = np.where((t < input_lengths - 1)[:, None], own, NOTHING)
        ends = is_end & np.equal(t, input_lengths - 1)[:, None]
        beta[t, :, :-2] = np.where(ends, emitted[t], beta[t, :, :-2])
    return beta[:, :, :-2]


def _log_sum(*terms: Array) -> Array:
    """log Σ exp(terms), −inf where all are."""
    top = terms[0]
    for term in terms[1:]:
        top = np.maximum(top, term)
    shift = np.where(top == NOTHING, np.zeros((), top.dtype), top)
    total = _exp(terms[0] - shift)
    for term in terms[1:]:
        total = total + _exp(term - shift)
    with np.errstate(divide="ignore"):
        return _rounded(np.log, total) + shift


def _exp(x: Array) -> Array:
    return _rounded(np.exp, x)


def _rounded(function: Any, x: Array) -> Array:
    """A float32 function rounded once, from float64."""
    if x.dtype != np.float32:
        rounded: Array = function(x)
        return rounded
    with np.errstate(over="ignore"):
        rounded = function(x.astype(np.float64)).astype(np.float32)
    return rounded
