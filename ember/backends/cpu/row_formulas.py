"""Formulas for library kernels: compiled for float32 where there is enough to compute, else
evaluated with NumPy. Their operands are matrices whose rows are dense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ember.backends.cpu import threads
from ember.backends.cpu.native import builtin, vector_bytes
from ember.kernel.loops import ACROSS, ALONG, Kernel, Operand, kernel_text, scratch_elements
from ember.scalar.evaluate import compile_numpy
from ember.scalar.expr import Expr, variables

NDArray = np.ndarray[Any, Any]
Built = tuple[Callable[..., Any], NDArray, int]  # a kernel, its geometry, its scratch
Runner = Callable[[tuple[NDArray, ...], tuple[NDArray, ...]], None]
GRAIN = 1 << 13  # elements that are worth another thread


class RowFormula:
    """Several formulas of the same elements, their results stored one array each.

    A result may be stored where an operand lies. `narrow` names operands that are a column, one
    element for each row; `columns` are the positions of results that are. Formulas may reduce rows.
    """

    def __init__(
        self,
        roots: tuple[Expr, ...],
        narrow: tuple[str, ...] = (),
        columns: tuple[int, ...] = (),
    ):
        self.roots, self.names = roots, tuple(variables(*roots))
        self.narrow, self.columns = narrow, columns
        self._known: dict[Any, Any] = {}

    def compiled(self, width: int, strides: tuple[int, ...]) -> Runner:
        """The formulas as a function of (operands, results), float32 matrices of so many columns;
        `strides` is the bytes from row to row of each operand, then of each result."""
        found = self._known.get((width, strides))
        if found is None:
            table = [width, 1, 1]  # the rows are counted by the call
            for stride in strides:
                table += [1, 0, stride // 4]
            wide = [name not in self.narrow for name in self.names]
            kernel = self._kernel(ALONG, wide, self.columns)
            found = self._known[width, strides] = _built(kernel, width, table)
        code, geometry, scratch = found
        grain = max(1, GRAIN // width)
        return _runner(code, geometry, scratch, lambda results: len(results[0]), grain)

    def across(self, operands: tuple[NDArray, ...], results: tuple[NDArray, ...]) -> Runner:
        """The same for arrays (N, rows, columns) whose formulas reduce the rows: a row is a column
        of each matrix. An array has one element along a dim where it is the same all along it."""
        arrays = (*operands, *results)
        shape = np.broadcast_shapes(*[a.shape for a in arrays])
        spread = tuple([np.broadcast_to(a, shape).strides for a in arrays])
        found = self._known.get((shape, spread))
        if found is None:
            table = [shape[1], 1, shape[0], shape[2]]
            for first, row, column in spread:
                table += [row // 4, 0, first // 4, column // 4]
            wide = [column > 0 for *_, column in spread[: len(operands)]]
            found = _built(self._kernel(ACROSS, wide, ()), shape[1], table)
            self._known[shape, spread] = found
        blocks = shape[0] * -(-shape[2] * 4 // vector_bytes())
        lanes = vector_bytes() // 4
        code, geometry, scratch = found
        grain = max(1, GRAIN // (lanes * shape[1]))
        return _runner(code, geometry, scratch, lambda results: blocks, grain)

    def _kernel(self, form: str, wide: list[bool], columns: tuple[int, ...]) -> Kernel:
        operands = tuple(Operand(n, "float", w) for n, w in zip(self.names, wide, strict=True))
        outs, lanes = ("float",) * len(self.roots), vector_bytes() // 4
        outer = 1 if form == ALONG else 2
        return Kernel(self.roots, operands, outs, "float", lanes, form, outer, columns)

    def evaluated(self, dtype: Any) -> Runner:
        """The same with NumPy, for any floating-point type."""
        function = self._known.get(dtype)
        if function is None:
            function = compile_numpy(self.roots, list(self.names), dtype, (1,))
            self._known[dtype] = function

        def run(operands: tuple[NDArray, ...], results: tuple[NDArray, ...]) -> None:
            values = function(*operands)
            for result, value in zip(
                results, values if len(results) > 1 else (values,), strict=True
            ):
                result[...] = value

        return run


def _built(kernel: Kernel, width: int, table: list[int]) -> Built:
    scratch = scratch_elements(kernel, width)
    return builtin(kernel_text(kernel)), np.array(table, np.int64), scratch


def _runner(
    kernel: Callable[..., Any],
    geometry: NDArray,
    scratch: int,
    count: Callable[[tuple[NDArray, ...]], int],
    grain: int,
) -> Runner:
    def run(operands: tuple[NDArray, ...], results: tuple[NDArray, ...]) -> None:
        def part(begin: int, end: int) -> None:
            kernel(*operands, *results, geometry, np.empty(scratch, np.float32), begin, end)

        threads.split(part, count(results), grain)

    return run
