"""Row programs: formulas over the elements of a row, such as softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ember.core.formula import FormulaOp
from ember.core.plan import Reading
from ember.core.tensor import Tensor
from ember.layout import wrap_dims
from ember.scalar.expr import as_expr, var


class RowOp(FormulaOp):
    """A row program: a formula with row_sum, row_max ... over the dims given as `dim`; may take
    `dtype` too."""

    rows = True

    def __init__(self, function: Any, **options: Any):
        super().__init__(function, **options)
        self.formula_parameters = self.parameters
        self.parameters = (*self.parameters, "dim")
        self.positional += 1
        self.defaults = [*self.defaults, -1]
        self.literals = [*self.literals, ()]

    def run(self, values: Sequence[Any]) -> Tensor:
        """With `dim` counted from the front."""
        self.check_input(values[0])
        ndim = values[0]._array.spec.ndim
        return super().run([*values[:-1], wrap_dims(values[-1], ndim)])

    def read(self, values: Sequence[Any], key: Any, positions: tuple[int, ...]) -> Reading:
        """The formula for these static arguments (dims are not part of it)."""
        static = tuple(None if i in positions else key[i] for i in range(len(key) - 1)), positions
        reading = self.readings.get(static)
        if reading is None:
            arguments = [
                var(p) if i in positions else values[i]
                for i, p in enumerate(self.formula_parameters)
            ]
            root = as_expr(self.function(*arguments))
            named = dict(zip(self.formula_parameters, arguments, strict=True))
            names = tuple(self.parameters[i] for i in positions)
            reading = self.readings[static] = Reading((root,), names, self.keeps, named)
        return reading

    def axes(self, values: Sequence[Any], shape: tuple[int, ...]) -> tuple[int, ...]:
        """The dims of a row."""
        return tuple(values[-1]) if shape else ()
