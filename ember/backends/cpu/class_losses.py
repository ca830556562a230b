"""Cross-entropy of scores against classes: what is kept of the scores' softmax is two numbers a
row, so that no matrix but the gradient is ever written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ember.backends.cpu import threads
from ember.backends.cpu.class_loss_text import backward_text, forward_text, total_text
from ember.backends.cpu.native import builtin
from ember.backends.cpu.row_formulas import GRAIN, NDArray, RowFormula, Runner
from ember.backends.cpu.tile_text import lanes
from ember.scalar.expr import var
from ember.scalar.primitives import exp, log, row_max, row_sum

WORTH_COMPILING = 1 << 13  # scores from which compiled formulas pay
WORTH_ROWS = 1 << 9  # those from which kernels of the plain case do
NOTHING, ONE = np.empty(1, np.float32), np.ones(1, np.float32)

Step = Callable[[], None]


def _forward(*, weighted: bool, smoothed: bool) -> RowFormula:
    """The greatest of a row, the log of the sum of exp of what the others lie below it, and the
    (weighted) sum of that, which smoothing needs."""
    x = var("x")
    top = row_max(x)
    below = x - top
    roots = [top, log(row_sum(exp(below)))]
    if smoothed:
        roots.append(row_sum(below * var("w") if weighted else below))
    return RowFormula(tuple(roots), columns=tuple(range(len(roots))))


def _backward(*, weighted: bool, smoothed: bool) -> RowFormula:
    """The softmax times one number a row, less the weights times another."""
    value = exp((var("x") - var("top")) - var("log_sum")) * var("scale")
    if smoothed:
        value = value - (var("w") * var("share") if weighted else var("share"))
    return RowFormula((value,), narrow=("top", "log_sum", "scale", "share"))


_CASES = [(w, s) for w in (False, True) for s in (False, True)]
FORWARD = {(w, s): _forward(weighted=w, smoothed=s) for w, s in _CASES}
BACKWARD = {(w, s): _backward(weighted=w, smoothed=s) for w, s in _CASES}


def _run(formula: RowFormula, given: dict[str, NDArray], results: tuple[NDArray, ...]) -> None:
    operands = tuple([given[name] for name in formula.names])
    scores = given["x"]
    run: Runner
    if scores.dtype != np.float32 or scores.size < WORTH_COMPILING:
        run = formula.evaluated(scores.dtype)
    elif scores.ndim == 3:
        run = formula.across(operands, results)
    else:
        strides = [
            np.broadcast_to(a, (len(scores), a.shape[1])).strides for a in operands + results
        ]
        run = formula.compiled(scores.shape[1], tuple([s[0] for s in strides]))
    run(operands, results)


def _flat(array: NDArray) -> NDArray:
    """An array (N, C, ...) as (N, C), or (N, C, all others)."""
    if array.ndim > 2:
        array = array.reshape(*array.shape[:2], -1)
    return np.ascontiguousarray(array)


def _along(weight: NDArray, scores: NDArray) -> NDArray:
    return weight[None] if scores.ndim == 2 else np.ascontiguousarray(weight)[None, :, None]


def _classes(target: NDArray, count: int, ignore_index: int) -> tuple[NDArray, NDArray | None]:
    """The classes (N, 1) or (N, 1, all others), 0 where they are ignored, and which are counted,
    None if all are.

    IndexError for one that there is not.
    """
    target = target.astype(np.int64).reshape(len(target), 1, *(-1,) * (target.ndim > 1))
    counted = None
    if target.size and (0 <= ignore_index < count or target.min() < 0 or target.max() >= count):
        counted = target != ignore_index
        outside = target[counted & ((target < 0) | (target >= count))]
        if outside.size:
            raise _no_class(outside[0], count)
        target = np.where(counted, target, 0)
    return target, counted


def _no_class(target: Any, count: int) -> IndexError:
    return IndexError(
        f"Target {target} is out of bounds. Classes are numbered 0 to {count - 1} here."
    )


def is_plain(
    input: NDArray, target: NDArray, weight: NDArray | None, smoothing: float, reduction: str
) -> bool:
    """Whether the kernels of rows compute a loss: of a large enough float32 matrix, without weights
    and smoothing."""
    plain = weight is None and smoothing <= 0 and reduction in ("mean", "sum", "none")
    return plain and input.ndim == 2 and input.dtype == np.float32 and input.size >= WORTH_ROWS


def _by_rows(
    kernel: Any, arrays: tuple[NDArray, ...], target: NDArray, count: int, state: NDArray
) -> Step:
    """A function that runs a kernel on all rows of `count` scores, and one that raises IndexError
    for a class that there is not."""
    rows, grain = len(target), max(1, GRAIN // count)
    whole = partial(kernel, *arrays, NOTHING, 0, rows)

    def step() -> None:
        if rows > grain:
            threads.split(lambda *part: kernel(*arrays, NOTHING, *part), rows, grain)
        else:
            whole()
        if state[1]:
            wrong = target.reshape(-1)[int(state[1]) - 1]
            state[:] = 0
            raise _no_class(wrong, count)

    return step


def plain_loss(
    scores: NDArray,
    target: NDArray,
    ignore_index: int,
    reduction: str,
    outs: tuple[NDArray, NDArray, NDArray],
) -> Step:
    """A function that computes the loss of dense scores and int64 classes into its three
    results."""
    (result, kept, total), count = outs, scores.shape[1]
    losses = result if reduction == "none" else np.empty(len(target), np.float32)
    geometry, state = np.array([count, ignore_index], np.int64), np.zeros(2, np.int64)
    arrays = scores, target, kept[0], kept[1], losses, state, geometry
    rows = _by_rows(builtin(forward_text(lanes())), arrays, target, count, state)
    into = NOTHING if reduction == "none" else result
    kernel = builtin(total_text(lanes(), reduction == "mean"))
    finish = partial(kernel, losses, state, into, total, geometry, NOTHING, 0, len(target))

    def step() -> None:
        rows()
        finish()

    return step


def plain_gradient(
    g: NDArray,
    scores: NDArray,
    target: NDArray,
    kept: NDArray,
    total: NDArray,
    ignore_index: int,
    reduction: str,
    out: NDArray,
) -> Step:
    """A function that computes the gradient of that."""
    count, state = scores.shape[1], np.zeros(2, np.int64)
    geometry = np.array([count, ignore_index, int(reduction == "none")], np.int64)
    by = total if reduction == "mean" else ONE
    arrays = scores, target, kept[0], kept[1], g, by, out, state, geometry
    return _by_rows(builtin(backward_text(lanes())), arrays, target, count, state)


def cross_entropy(
    input: NDArray,
    target: NDArray,
    weight: NDArray | None,
    ignore_index: int,
    smoothing: float,
    reduction: str,
) -> tuple[NDArray, NDArray, NDArray]:
    """The loss of scores (N, C, ...) and classes (N, ...); what is kept for each class given; what
    the mean is divided by."""
    if is_plain(input, target, weight, smoothing, reduction):
        kind, number = np.float32, len(target)
        results = np.empty(number if reduction == "none" else (), kind), np.empty((2, number), kind)
        outs = (*results, np.empty((), kind))
        classes = np.ascontiguousarray(target, np.int64)
        plain_loss(np.ascontiguousarray(input), classes, ignore_index, reduction, outs)()
        return outs
    scores = _flat(input)
    count, kind = scores.shape[1], scores.dtype.type
    classes, counted = _classes(target, count, ignore_index)
    given = {"x": scores}
    if weight is not None:
        given["w"] = _along(weight, scores)
    smoothed = smoothing > 0
    kept = np.empty((3 if smoothed else 2, *classes.shape), kind)
    _run(FORWARD[weight is not None, smoothed], given, tuple(kept))
    loss = (kept[0] - np.take_along_axis(scores, classes, 1)) + kept[1]
    total = kind(classes.size if counted is None else np.count_nonzero(counted))
    if weight is not None:
        factors = weight[classes]
        loss *= factors
        total = (factors if counted is None else factors[counted]).sum()
    if smoothed:
        every = kind(count) if weight is None else weight.sum()
        smooth = (kept[1] * every - kept[2]) * kind(smoothing / count)
        loss = loss * kind(1 - smoothing) + smooth
    if counted is not None:
        loss = np.where(counted, loss, kind(0))
    result = loss.reshape(target.shape) if reduction == "none" else loss.sum()
    if reduction == "mean":
        result = result / total
    return result, kept[:2].reshape(2, -1), np.asarray(total)


def cross_entropy_backward(
    g: NDArray,
    input: NDArray,
    target: NDArray,
    weight: NDArray | None,
    kept: NDArray,
    total: NDArray,
    ignore_index: int,
    smoothing: float,
    reduction: str,
) -> NDArray:
    """The gradient by the scores."""
    if is_plain(input, target, weight, smoothing, reduction):
        made, classes = np.empty(input.shape, np.float32), np.ascontiguousarray(target, np.int64)
        dense = np.ascontiguousarray(g), np.ascontiguousarray(input)
        plain_gradient(*dense, classes, kept, total, ignore_index, reduction, made)()
        return made
    scores = _flat(input)
    count, kind = scores.shape[1], scores.dtype.type
    classes, counted = _classes(target, count, ignore_index)
    top, log_sum = kept.reshape(2, *classes.shape)
    each = g / total if reduction == "mean" else g
    each = each.reshape(classes.shape) if each.ndim else np.full(classes.shape, each)
    if counted is not None:
        each = np.where(counted, each, kind(0))
    by_class = each if weight is None else each * weight[classes]
    given = {"x": scores, "top": top, "log_sum": log_sum, "scale": by_class}
    if smoothing > 0:
        by_class = by_class * kind(1 - smoothing)
        given["share"] = each * kind(smoothing / count)
        every = kind(count) if weight is None else weight.sum()
        given["scale"] = by_class + given["share"] * every
    if weight is not None:
        given["w"] = _along(weight, scores)
    result = np.empty(input.shape, kind)
    made = result.reshape(scores.shape)
    _run(BACKWARD[weight is not None, smoothing > 0], given, (made,))
    picked = np.take_along_axis(made, classes, 1) - by_class
    np.put_along_axis(made, classes, picked, 1)
    return result
