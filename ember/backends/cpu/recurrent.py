"""Recurrent layers in one direction: every step of a sequence, and the gradient of all of them.

The products with the inputs are one for all steps, and so are the gradients of the weights; a step
has one product with the state, and one pass for the cell's formula. Steps follow each other in the
rows of a matrix: step t has `sizes[t]` rows, the sequences that are long enough.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ember.backends.cpu.row_formulas import NDArray, RowFormula
from ember.backends.cpu.small_products import multiply
from ember.scalar.expr import Expr, make, var
from ember.scalar.primitives import sigmoid, where

WORTH_COMPILING = 1 << 13  # elements of a result from which compiled formulas pay


class Cell(NamedTuple):
    """A kind of cell: how many gates, and its formulas.

    The forward ones read x0, x1, ... (gates by the input), s0, ... (by the state), b0, ... (biases
    of those, where they do not join the input's) and the states h, c before the step; they make
    what is kept and the states after it. The backward ones read what was kept as k0, k1, ..., the
    states before the step, and gradients: gy of the output, gs and gh of the next step's state by
    its gates and past them, gc. They make the gradients of the input's gates, those of the state's
    gates where they differ, and what `passed` names, for the step before.
    """

    gates: int
    kept: tuple[Expr, ...]
    states: tuple[Expr, ...]
    slopes: tuple[Expr, ...]
    state_slopes: tuple[Expr, ...] = ()
    passed: tuple[tuple[str, Expr], ...] = ()


def _names(kind: str, count: int) -> list[Expr]:
    return [var(f"{kind}{i}") for i in range(count)]


def _tanh(x: Any) -> Expr:
    return make("tanh", x)


def _lstm() -> Cell:
    sums = [x + s for x, s in zip(_names("x", 4), _names("s", 4), strict=True)]
    i, f, o = sigmoid(sums[0]), sigmoid(sums[1]), sigmoid(sums[3])
    g, before = _tanh(sums[2]), var("c")
    after = f * before + i * g
    kept, states = (i, f, g, o), (o * _tanh(after), after)
    i, f, g, o = _names("k", 4)
    new = _tanh(f * before + i * g)
    gh = var("gy") + var("gs")
    gc = var("gc") + gh * o * (1 - new * new)
    slopes = (
        gc * g * (i * (1 - i)),
        gc * before * (f * (1 - f)),
        gc * i * (1 - g * g),
        gh * new * (o * (1 - o)),
    )
    return Cell(4, kept, states, slopes, passed=(("gc", gc * f),))


def _gru() -> Cell:
    x, s, b = _names("x", 3), _names("s", 3), _names("b", 3)
    r, z = (sigmoid(x[i] + (s[i] + b[i])) for i in range(2))
    inner, h = s[2] + b[2], var("h")
    n = _tanh(x[2] + r * inner)
    kept, states = (r, z, n, inner), (n + z * (h - n),)
    r, z, n, inner = _names("k", 4)
    gh = var("gy") + (var("gs") + var("gh"))
    gn = gh * (1 - z) * (1 - n * n)
    slopes = (gn * inner * (r * (1 - r)), gh * (h - n) * (z * (1 - z)), gn)
    return Cell(3, kept, states, slopes, (*slopes[:2], gn * r), (("gh", gh * z),))


def _simple(value: Any, slope: Any) -> Cell:
    made = value(var("x0") + var("s0"))
    return Cell(1, (made,), (made,), (slope(var("gy") + var("gs"), var("k0")),))


CELLS = {
    "lstm": _lstm(),
    "gru": _gru(),
    "rnn_tanh": _simple(_tanh, lambda g, y: g * (1 - y * y)),
    "rnn_relu": _simple(lambda x: where(x <= 0, 0.0, x), lambda g, y: where(y <= 0, 0.0, g)),
}
_formulas: dict[tuple[Expr, ...], RowFormula] = {}


class _Pass:
    """Formulas over the rows of a step. `whole` arrays, by name, have the rows of all steps;
    `states` those of the whole batch, of which a step takes the first."""

    def __init__(
        self,
        results: dict[str, Expr],
        whole: dict[str, NDArray],
        states: dict[str, NDArray],
    ):
        roots = tuple(results.values())
        formula = _formulas.get(roots)
        if formula is None:
            formula = _formulas[roots] = RowFormula(roots)
        names = (*formula.names, *results)
        self.arrays = [(n in whole, whole[n] if n in whole else states[n]) for n in names]
        self.count = len(formula.names)
        first = next(iter(whole.values()))
        if first.dtype == np.float32 and first.size >= WORTH_COMPILING:
            strides = tuple([a.strides[0] for _, a in self.arrays])
            self.run = formula.compiled(first.shape[1], strides)
        else:
            self.run = formula.evaluated(first.dtype)

    def __call__(self, begin: int, end: int) -> None:
        size, count = end - begin, self.count
        parts = [a[begin:end] if whole else a[:size] for whole, a in self.arrays]
        self.run(tuple(parts[:count]), tuple(parts[count:]))


def _parts(kind: str, matrix: NDArray, width: int) -> dict[str, NDArray]:
    """The columns of a matrix, `width` at a time, by name."""
    count = matrix.shape[1] // width
    return {f"{kind}{i}": matrix[:, i * width : (i + 1) * width] for i in range(count)}


def _steps(input: NDArray, sizes: Any, reverse: bool) -> list[tuple[int, int]]:
    """The first row and the end of each step, in the order in which they are computed."""
    counts = [input.shape[1]] * input.shape[0] if sizes is None else sizes.tolist()
    bounds, begin = [], 0
    for count in counts:
        bounds.append((begin, begin + count))
        begin += count
    return bounds[::-1] if reverse else bounds


def _rows(array: NDArray) -> NDArray:
    """An array as a matrix of the rows of all steps."""
    return np.ascontiguousarray(array).reshape(-1, array.shape[-1])


def recurrent(
    input: NDArray,
    w_ih: NDArray,
    w_hh: NDArray,
    b_ih: NDArray | None,
    b_hh: NDArray | None,
    states: list[NDArray],
    sizes: NDArray | None,
    kind: str,
    reverse: bool,
    keep: bool,
) -> tuple[NDArray, ...]:
    """The outputs of all steps, the last states, and with `keep` what the gradient needs: the
    gates, and the states before each step side by side."""
    cell, width = CELLS[kind], w_hh.shape[1]
    gates = _rows(input) @ w_ih.T
    rows, batch = len(gates), len(states[0])
    if b_ih is not None:
        gates += b_ih if cell.state_slopes else b_ih + b_hh
    shaped = np.empty((*input.shape[:-1], width), gates.dtype)
    output = shaped.reshape(rows, width)
    by_state = np.empty((batch, len(w_hh)), gates.dtype)
    current = dict(zip("hc", [np.array(s, order="C") for s in states]))
    whole = {"y": output, **_parts("x", gates, width)}
    results: dict[str, Expr] = {}
    if keep:
        same = len(cell.kept) == cell.gates
        kept = gates if same else np.empty((rows, len(cell.kept) * width), gates.dtype)
        before = np.empty((rows, len(states) * width), gates.dtype)
        whole |= _parts("k", kept, width) | _parts("p", before, width)
        results |= {f"p{i}": var(name) for i, name in enumerate(current)}
        results |= {f"k{i}": root for i, root in enumerate(cell.kept)}
    if cell.state_slopes:
        bias = np.zeros(len(w_hh), gates.dtype) if b_hh is None else b_hh
        whole |= _parts("b", np.broadcast_to(bias, (rows, len(bias))), width)
    results |= {"y": cell.states[0], **dict(zip("hc", cell.states))}
    step = _Pass(results, whole, current | _parts("s", by_state, width))
    turned, h = np.ascontiguousarray(w_hh.T), current["h"]
    for begin, end in _steps(input, sizes, reverse):
        multiply(h[: end - begin], turned, by_state[: end - begin])
        step(begin, end)
    return (shaped, *current.values(), *((kept, before) if keep else ()))


def recurrent_backward(
    grads: list[NDArray | None],
    kept: NDArray,
    before: NDArray,
    input: NDArray,
    w_ih: NDArray,
    w_hh: NDArray,
    biased: bool,
    sizes: NDArray | None,
    kind: str,
    reverse: bool,
    wants_input: bool,
) -> tuple[NDArray, ...]:
    """The gradients of the input (nothing unless it `wants_input`), weights, biases and first
    states, by those of the outputs and the last states."""
    cell, width = CELLS[kind], w_hh.shape[1]
    names = ("h", "c")[: before.shape[1] // width]
    rows, steps = len(kept), _steps(input, sizes, reverse)
    batch = max(end - begin for begin, end in steps)
    gy, *given = grads
    last = [np.zeros((batch, width), kept.dtype) if g is None else g.copy("C") for g in given]
    outer = np.zeros((rows, width), kept.dtype) if gy is None else _rows(gy)
    slopes = np.empty((rows, len(w_hh)), kept.dtype)
    by_state = np.empty_like(slopes) if cell.state_slopes else slopes
    current = {"gs": last[0], "gh": np.zeros_like(last[0]), "gc": last[-1]}
    whole = {"gy": outer, **_parts("d", slopes, width), **_parts("e", by_state, width)}
    whole |= _parts("k", kept, width)
    whole |= {n: before[:, i * width : (i + 1) * width] for i, n in enumerate(names)}
    results = {f"d{i}": root for i, root in enumerate(cell.slopes)}
    results |= {f"e{i}": root for i, root in enumerate(cell.state_slopes)} | dict(cell.passed)
    step = _Pass(results, whole, current)
    for begin, end in reversed(steps):
        step(begin, end)
        multiply(by_state[begin:end], w_hh, last[0][: end - begin])
    last[0] += current["gh"]
    made = np.empty(input.shape if wants_input else 0, kept.dtype)
    if wants_input:
        np.matmul(slopes, w_ih, out=made.reshape(rows, -1))
    weights = (slopes.T @ _rows(input), by_state.T @ before[:, :width])
    biases = (slopes.sum(0), by_state.sum(0)) if biased else ()
    return (made, *weights, *biases, *last)
