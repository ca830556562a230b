"""Formulas for library kernels: compiled for float32 where there is enough to compute, else
evaluated with NumPy. Their operands are matrices whose rows are dense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ember.backends.cpu.native import builtin, vector_bytes
from ember.kernel.loops import ALONG, Kernel, Operand, kernel_text, scratch_elements
from ember.scalar.evaluate import compile_numpy
from ember.scalar.expr import Expr, variables

NDArray = np.ndarray[Any, Any]
Runner = Callable[[tuple[NDArray, ...], tuple[NDArray, ...]], None]


class RowFormula:
    """Several formulas of the same elements, their results stored one array each.

    A result may be stored where an operand lies.
    """

    def __init__(self, roots: tuple[Expr, ...]):
        self.roots, self.names = roots, tuple(variables(*roots))
        self._known: dict[Any, Any] = {}

    def compiled(self, columns: int, strides: tuple[int, ...]) -> Runner:
        """The formulas as a function of (operands, results), float32 matrices of so many columns;
        `strides` is the bytes from row to row of each operand, then of each result."""
        found = self._known.get((columns, strides))
        if found is None:
            found = self._known[columns, strides] = self._compile(columns, strides)
        kernel, geometry, scratch = found

        def run(operands: tuple[NDArray, ...], results: tuple[NDArray, ...]) -> None:
            kernel(*operands, *results, geometry, np.empty(scratch, np.float32), 0, len(results[0]))

        return run

    def _compile(self, columns: int, strides: tuple[int, ...]) -> tuple[Any, NDArray, int]:
        kernel = Kernel(
            self.roots,
            tuple(Operand(name, "float") for name in self.names),
            ("float",) * len(self.roots),
            "float",
            vector_bytes() // 4,
            ALONG,
            1,
        )
        table = [columns, 1, 1]  # the rows are counted by the call
        for stride in strides:
            table += [1, 0, stride // 4]
        return (
            builtin(kernel_text(kernel)),
            np.array(table, np.int64),
            scratch_elements(kernel, columns),
        )

    def evaluated(self, dtype: Any) -> Runner:
        """The same with NumPy, for any floating-point type."""
        function = self._known.get(dtype)
        if function is None:
            function = compile_numpy(self.roots, list(self.names), dtype)
            self._known[dtype] = function

        def run(operands: tuple[NDArray, ...], results: tuple[NDArray, ...]) -> None:
            values = function(*operands)
            if len(self.roots) == 1:
                values = (values,)
            values = [v.copy() if v.base is not None else v for v in values]
            for result, value in zip(results, values, strict=True):
                result[...] = value

        return run
